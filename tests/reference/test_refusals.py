"""Named errors of the reference where NumPy alone would broadcast an array or use a wrong index."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from refimpl import brute, transformer
from refimpl.attention import sparse_attention
from refimpl.fasttrees.cells import convolution
from refimpl.fasttrees.cells import parameter_shapes as cell_shapes
from refimpl.fasttrees.distance_trees import distance_trees
from refimpl.fasttrees.stack import activation_regularisation, stack
from refimpl.gpst.composition import pair_attention
from refimpl.gpst.generator import step_logps
from refimpl.gpst.parser import Config, rms_norm, rotate
from refimpl.gpst.pruned_chart import merge_order
from refimpl.layers import cross_entropy, embedding
from refimpl.randomness import keep_mask
from refimpl.transformer_grammars.segments import segments
from refimpl.transformer_grammars.span_parser import sample_trees, span_logz
from refimpl.transformer_grammars.stack_compose import attend_sets, attention_mask, depths, relative_positions
from refimpl.treeformer import albert, cky_pooling, model
from refimpl.treeformer.cky_pooling import chart_trees
from refimpl.treeformer.released import released_shapes
from refimpl.trees import ActionType
from refimpl.word_level_search import Limits, gpst_actions, sample, surprisals, tree_actions

ONT, T, CNT1, CNT2 = ActionType
SENTENCE = [ONT, ONT, T, CNT1, CNT2]
EYE, ONE = np.eye(2), np.ones(1)
ENCODER = {
    "embedding": EYE,
    "encoder.norm.scale": np.ones(2),
    "encoder.norm.bias": np.zeros(2),
    "classes": np.eye(3, 2),
}
CHART = {f"chart.{name}": np.ones(shape) for name, shape in cky_pooling.parameter_shapes(2).items()}
ALBERT = {
    "embedding": EYE, "position": np.zeros((3, 2)), "type": EYE, "embedding_norm.scale": np.ones(2),
    "embedding_norm.bias": np.zeros(2), "widen": EYE, "widen_bias": np.zeros(2),
}  # fmt: skip
RELEASED = {name: np.ones(shape) for name, shape in released_shapes(2, 1).items()}
IDS = np.array([0, 1])
WEIGHTS = cky_pooling.Chart(2, {}, {(0, 1): ONE})
WITHOUT = Config(1, 1, 1, surrogate=False)
GENERATOR = {
    "embedding": EYE, "position": np.ones((9, 2)), "bos": np.ones(2), "placeholder": np.ones(2), "down": EYE,
    "down_bias": np.zeros(2), "action.in": EYE, "action.in_bias": np.zeros(2), "action.out": EYE,
    "action.out_bias": np.zeros(2),
    "action_norm.scale": np.ones(2), "action_norm.bias": np.zeros(2), "token_norm.scale": np.ones(2),
    "token_norm.bias": np.zeros(2), "word.in": EYE, "word.in_bias": np.zeros(2), "word.out": EYE,
    "word.out_bias": np.zeros(2),
}  # fmt: skip
LSTM = {f"cells.{k}.{name}": np.ones(s) for k in (0, 1) for name, s in cell_shapes("lstm", 2, 2).items()}


def of_albert(types: int = 2, **changed: np.ndarray) -> np.ndarray:
    return albert.encode(ALBERT | changed, IDS, np.zeros(types, int), n_heads=1, n_layers=0)


def attention(keep: list[np.ndarray]) -> np.ndarray:
    one = np.ones((1, 1, 1))
    return sparse_attention(one, one, one, one, one[0], one[0], [[0]], [[0]], keep)[0]


def gpst(_: object) -> tuple[float, float, np.ndarray]:
    return -1.0, -0.5, np.log([0.5, 0.5])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: embedding(EYE, np.array([1.0])), "ids: not all are integers in 0..1"),
        (lambda: cross_entropy(EYE, EYE, np.zeros(2), np.array([1.0, 0.0])), "labels: not all are integers in -1..1"),
        (lambda: attend_sets(SENTENCE, "typo"), "reading: 'typo' is not one of corrected, printed"),  # type: ignore[arg-type]
        (lambda: segments(SENTENCE, 2, 2, "typo"), "reading: 'typo'"),  # type: ignore[arg-type]
        (lambda: segments(SENTENCE, 2, 2, "typo", memory="shift"), "reading: 'typo'"),  # type: ignore[arg-type]
        (lambda: brute.composed_at([ONT, T, CNT1]), "position 2: CNT1 closes no open non-terminal"),
        (lambda: brute.memories([T, CNT1, CNT2], 1, 1), "position 1: CNT1 closes no open non-terminal"),
        (lambda: cky_pooling.compose(ONE, np.ones(3), np.ones((4, 2))), r"right: shape \(3,\)"),
        (lambda: cky_pooling.compose(ONE, ONE, np.ones((4, 2))), r"weight: shape \(4, 2\)"),
        (lambda: cky_pooling.pool(ONE, EYE, EYE, ONE), r"c: shape \(1,\)"),
        (lambda: cky_pooling.pool(EYE, np.eye(2, 3), EYE, np.ones(2)), r"key: shape \(2, 3\)"),
        (lambda: cky_pooling.pool(EYE, EYE, EYE, EYE), r"w: shape \(2, 2\)"),
        (
            lambda: cky_pooling.cky_pool(EYE[:1], RELEASED, variant="released", n_heads=3),
            "n_heads: 3 does not divide 2",
        ),
        (lambda: transformer.classify(ENCODER | {"classes_bias": ONE}, IDS, 1), r"bias: shape \(1,\)"),
        (lambda: model.classify(ENCODER | CHART | {"classes_bias": ONE}, IDS, 1), r"bias: shape \(1,\)"),
        (lambda: of_albert(types=1), r"types: shape \(1,\)"),
        (lambda: of_albert(position=np.zeros((9, 1))), r"position: shape \(9, 1\)"),
        (lambda: of_albert(type=np.zeros((2, 1))), r"type: shape \(2, 1\)"),
        (lambda: merge_order([0, 5, 1], [(0, 3), (1, 2)]), r"atoms: two of \[\(0, 3\), \(1, 2\)\] share a word"),
        (lambda: rms_norm(EYE, ONE), r"scale: shape \(1,\)"),
        (lambda: rotate(np.ones((2, 1, 3))), "d: 3 is not even"),
        (lambda: pair_attention(EYE, np.ones((2, 1)), {}, 1), r"roles: shape \(2, 1\)"),
        (lambda: step_logps(WITHOUT, GENERATOR | {"position": np.ones((9, 1))}, []), r"position: shape \(9, 1\)"),
        (lambda: step_logps(WITHOUT, GENERATOR | {"bos": ONE}, []), r"embedding: shape \(2, 2\), expected \(any, 1\)"),
        (lambda: step_logps(WITHOUT, GENERATOR | {"placeholder": ONE}, [0, 1, -1]), r"placeholder: shape \(1,\)"),
        (lambda: step_logps(WITHOUT, GENERATOR, [0, 1, -2]), "actions: -2 with 2 sub-trees"),
        (lambda: convolution(EYE, np.ones((2, 2, 2)), ONE), r"conv.bias: shape \(1,\)"),
        (lambda: stack("lstm", LSTM, EYE, keep=[ONE]), r"keep: layer 0: shape \(1,\)"),
        (lambda: stack("lstm", LSTM, EYE, keep=[]), "argument 3 is shorter"),
        (lambda: merge_order([0, 5, 1], [(0, 3), (2, 1)]), r"\(2, 1\)\] is no span of 4 words"),
        (lambda: merge_order([0, 5, 1], [(3, 4)]), r"\(3, 4\)\] is no span of 4 words"),
        (lambda: merge_order([0, 5, 1], [(-1, 0)]), r"\(-1, 0\)\] is no span of 4 words"),
        (lambda: distance_trees(["hi", ":-)"], [1, 2]), r"words: ':-\)' is"),
        (lambda: distance_trees(["hi", ""], [1, 2]), "words: '' is"),
        (lambda: chart_trees(WEIGHTS, ["hi", "a b"]), "words: 'a b' is"),
        (lambda: list(brute.all_trees(["<s>", "b"])), "words: '<s>' is"),
        (lambda: chart_trees(cky_pooling.Chart(2, {}, {(0, 1): np.ones(2)})), r"weights: \(0, 1\): shape \(2,\)"),
        (lambda: chart_trees(cky_pooling.Chart(3, {}, {(0, 2): IDS / 1.0})), r"weights: \(0, 1\): shape \(0,\)"),
        (lambda: surprisals(gpst_actions(gpst, [0, 1]), Limits(5), 3), "n_words: the sentence has no word 2"),
        (lambda: attention(keep=[]), "argument 2 is shorter"),
        (
            lambda: cell_shapes("conv_fasttrees", 3, 4, 2),
            "input_size: 3 is below 4",
        ),
        (lambda: activation_regularisation(EYE[:0], 1.0), "steps: 0 is below 1"),
        (lambda: span_logz(np.array(1.0)), r"scores: shape \(\)"),
        (lambda: gpst_actions(gpst, [0, 1], more=True, end=1), "end: 1 is a word of the sentence"),
        (
            lambda: sample(gpst_actions(gpst, [0, 1]), Limits(1), 1, seed=0, n_given=-1),
            "n_words, n_given: 1, -1: nothing to draw",
        ),
        (lambda: tree_actions(np.zeros, ["</s>", "(X"], Limits(1), ["</s>"]), "word 0 is '</s>', not a terminal"),  # type: ignore[arg-type]
        (
            lambda: tree_actions(np.zeros, ["a"], Limits(1, goes_on={"a"}), ["a"]),
            "word 0 is 'a', not a terminal that may stand there",
        ),  # type: ignore[arg-type]
    ],
)
def test_refused_with_the_name(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_the_same_calls_with_right_arguments() -> None:
    """The refused calls above differ from these only in the wrong argument."""
    assert embedding(EYE, IDS).shape == of_albert().shape == (2, 2)
    assert attend_sets(SENTENCE) == brute.attend_sets(SENTENCE) and len(segments(SENTENCE, 2, 2, "printed")) == 3
    assert cky_pooling.pool(EYE, EYE, EYE, np.ones(2))[1].tolist() == [0.5, 0.5]
    classes = {"classes_bias": np.zeros(3)}
    assert transformer.classify(ENCODER | classes, IDS, 1).shape == (3,)
    assert model.classify(ENCODER | CHART | classes, IDS, 1).shape == (3,)
    assert distance_trees(["hi", ":-"], [1, 2]) == chart_trees(WEIGHTS, ["hi", ":-"])
    assert len(surprisals(gpst_actions(gpst, [0, 1], end=2), Limits(5), 2)) == 2
    assert rms_norm(EYE, np.ones(2)).shape == rotate(np.ones((2, 1, 2)))[:, 0].shape == (2, 2)
    assert len(step_logps(WITHOUT, GENERATOR, [0, 1, -1])[2]) == 2
    assert convolution(EYE, np.ones((2, 2, 2)), np.ones(2)).shape == (2,)
    assert stack("lstm", LSTM, EYE, keep=[np.ones(2)])[0].shape == (2, 2)
    assert merge_order([0, 5, 1], [(0, 1), (2, 3)]) == [0, 2, 1]
    assert attention([np.ones((1, 1))]).item() == 1
    assert cell_shapes("conv_fasttrees", 4, 4, 2)["conv.weight"] == (4, 4, 2)
    assert len(surprisals(gpst_actions(gpst, [0, 1]), Limits(5, one_pool=True), 2)) == 2


def test_numbers_of_numpy() -> None:
    """Types and counts may be NumPy arrays and numbers."""
    types = np.array(SENTENCE)
    assert attend_sets(types) == attend_sets(SENTENCE) and depths(types) == depths(SENTENCE)
    np.testing.assert_array_equal(attention_mask(types), attention_mask(SENTENCE))
    np.testing.assert_array_equal(relative_positions(types), relative_positions(SENTENCE))
    assert len(segments(types, 2, 2)) == len(segments(types, 2, 2, memory="shift")) == 3
    assert keep_mask(np.int64(3), 0.0, 0).tolist() == [1.0, 1.0, 1.0]


@pytest.mark.filterwarnings("error")
def test_draws_of_likely_trees_warn_of_nothing() -> None:
    """SP-5: the logarithm of a tree of probability 0 is not computed."""
    scores = np.zeros((1, 1, 3))
    scores[0, 0] = 0.0, -1.0, -2000.0
    assert [tree for _, tree in sample_trees(scores, 1, seed=0)] == [[(0, 0, 0)]]
