"""Induced trees: the model's input, the trees of its distances, and the commands that print and draw them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import accel
from accel import cli
from accel.data.vocabularies.words import Words
from accel.models.fasttrees import language_model
from accel.parsing.distances import distances, induced_spans, induced_tree
from accel.parsing.labelled import tree_of
from accel.parsing.spans import find_spans
from accel.trained.opening import Model
from accel.training.run import BEST
from refimpl.fasttrees.distance_trees import distance_trees
from refimpl.trees import ActionType
from tests.fixtures.fasttrees_runs import KNOWN, save_classifier
from tests.fixtures.toy_text import parameters_of

OPS = accel.load("cpu")
SENTENCES = [["the", "dog", "sees", "her"], ["dog"], "the old dog & her cat see the zebra".split()]


def model_of(seen: list[Any], words: Words = KNOWN, kind: str = "fasttrees") -> Model:
    """Return a model whose distances depend on the words and their positions; `seen` lists the words that it reads."""

    def distances_by_hand(ops: Any, config: Any, parameters: Any, ids: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        seen.append([ids[a:b].tolist() for a, b in zip(offsets[:-1], offsets[1:], strict=True)])
        within = np.concatenate([np.arange(n) for n in np.diff(offsets)])
        return np.stack([within * 1.0, np.sin(100 * within + ids)])

    config: Any = SimpleNamespace(kind=kind)
    module: Any = SimpleNamespace(NAME="language_model", distances=distances_by_hand)
    return Model(Path("a model"), config, {}, words, None, module)


def test_sentences_are_read_between_ends() -> None:
    batches: list[Any] = []
    [(of_layers, offsets)] = distances(OPS, model_of(batches), SENTENCES)
    assert batches == [[[0, 2, 3, 6, 7, 0], [0, 3, 0], [0, 2, 4, 3, 1, 7, 5, 1, 2, 1, 0]]]
    assert offsets.tolist() == [0, 4, 5, 14]
    assert of_layers[0].tolist() == [1, 2, 3, 4, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    closed = Words(("the", "dog"))
    [(of_layers, _)] = distances(OPS, model_of(batches, closed), [["the", "dog"]])
    assert batches[1:] == [[[0, 1]]] and of_layers[0].tolist() == [0, 1]


def test_distances_do_not_depend_on_the_other_sentences() -> None:
    """The released Conv. FastTrees, which reads the neighbours in a batch, gets the sentences one by one."""
    sizes: dict[str, Any] = {"embedding_size": 8, "hidden_size": 8, "n_layers": 2, "chunk_size": 2}
    config = language_model.Config(len(KNOWN), "conv_fasttrees", variant="released", **sizes)
    parameters = parameters_of(language_model, config)
    model = Model(Path("a model"), config, parameters, KNOWN, None, language_model)
    [of_all, of_each] = (
        np.concatenate([of_layers for of_layers, _ in distances(OPS, model, SENTENCES, batch_size=size)], axis=1)
        for size in (64, 1)
    )
    assert np.array_equal(of_all, of_each)


@pytest.mark.parametrize("split", ["biased", "unbiased"])
@pytest.mark.parametrize("batch_size", [1, 64])
def test_trees_are_those_of_the_distances(split: str, batch_size: int) -> None:
    model = model_of([])
    [(of_layers, offsets)] = distances(OPS, model, SENTENCES)
    every = [of_layers[1, a:b] for a, b in zip(offsets[:-1], offsets[1:], strict=True)]
    trees = [
        induced_tree(spans, words)
        for spans, words in zip(
            induced_spans(OPS, model, SENTENCES, split=split, batch_size=batch_size), SENTENCES, strict=True
        )
    ]
    assert trees == [distance_trees(w, d, split) for w, d in zip(SENTENCES, every, strict=True)]


def test_errors() -> None:
    for layer in (0, 3):
        with pytest.raises(ValueError, match=f"layer {layer}: a model has layers 1 to 2"):
            list(induced_spans(OPS, model_of([]), SENTENCES, layer=layer))
    with pytest.raises(ValueError, match="sentence 4: empty"):
        list(induced_spans(OPS, model_of([]), [*SENTENCES, []], batch_size=2))
    with pytest.raises(ValueError, match="holds an lstm, which gives no distances; models that do: on_lstm, "):
        list(induced_spans(OPS, model_of([], kind="lstm"), SENTENCES))
    with pytest.raises(ValueError, match="'old' is not in the closed vocabulary"):
        list(induced_spans(OPS, model_of([], Words(("dog",))), [["dog", "old"]]))


@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize(("words", "message"), [([], "an empty sentence"), (["old"], "the word 'old' is not in")])
def test_a_sentence_has_one_number_in_every_batch(
    batch_size: int, processes: int, words: list[str], message: str
) -> None:
    sentences = [["dog"], ["dog"], ["dog"], words]
    with pytest.raises(ValueError, match=f"^sentence 4: {message}"):
        list(find_spans(OPS, model_of([], Words(("dog",))), sentences, processes=processes, batch_size=batch_size))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return save_classifier(tmp_path, 0)


def parse(*arguments: object) -> int:
    return cli.main(["parse", *map(str, arguments)])


def test_command_prints_trees(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "text").write_text("the dog sees (her)\ndog\n")
    assert parse("--checkpoint", run, "--model", "fasttrees", run / "text") == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.replace("(X", "").replace(")", "").split() == ["the", "dog", "sees", "-LRB-her-RRB-"]
    assert second == "(X dog)" and first.count("(X") == 3
    assert parse("--checkpoint", run, "--backend", "ref", run / "text") == 0
    assert capsys.readouterr().out.splitlines() == [first, second]
    assert parse("--checkpoint", run, "--layer", 1, "--split", "unbiased", "--out", run / "trees", run / "text") == 0
    assert len((run / "trees").read_text().splitlines()) == 2 and not capsys.readouterr().out


def test_a_model_with_one_layer_has_trees_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = save_classifier(tmp_path, 0, n_layers=1)
    (run / "text").write_text("the dog sees her\n")
    outputs = []
    for options in ((), ("--layer", 1)):
        assert parse("--checkpoint", run, *options, run / "text") == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] and "(X the" in outputs[0]


def test_command_scores_trees(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "gold").write_text("(S (NP (DT The) (JJ old) (NN dog)) (VP (VBZ sees) (NP (PRP her))) (. .))\n" * 3)
    assert parse("--checkpoint", run, "--gold", run / "gold", "--convention", "wsj10", "--out", run / "trees") == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["sentence", "F1", "corpus", "F1", "NP", "S", "VP"]
    assert [row[0] for row in rows[1:]] == ["fasttrees", "random", "balanced", "left", "right", "oracle", "gold"]
    assert rows[5][1:] == ["40.0", "40.0", "0.0", "100.0", "100.0"]  # (1, 4), (2, 4), (3, 4): one of two gold spans
    assert rows[6][1:] == ["80.0", "80.0", "100.0", "100.0", "100.0"]  # two of three spans are gold ones
    assert len((run / "trees").read_text().splitlines()) == 3
    (run / "gold").write_text("(S (NN dog))\n(S (NP (DT The) (NN dog)) (VBZ sees))\n")
    scores = {}
    for preset in ("fasttrees", "compound_pcfg"):
        assert parse("--checkpoint", run, "--gold", run / "gold", "--preset", preset) == 0
        scores[preset] = [
            line.split()[1:3] for line in capsys.readouterr().out.splitlines() if line.startswith("right")
        ]
    assert scores == {"fasttrees": [["50.0", "0.0"]], "compound_pcfg": [["0.0", "0.0"]]}


def test_command_compares_models(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two models in one table, one picture with the F1 of each tree, and a table by sentence."""
    other, gold = save_classifier(tmp_path / "other", 1), run / "gold"
    trees = ["(S (NP (DT The) (JJ old) (NN dog)) (VP (VBZ sees) (NP (PRP her))) (. .))", "(S (NN dog))"]
    gold.write_text("\n".join(trees) + "\n")
    files = ("--picture", run / "a.svg", "--by-sentence", run / "a.tsv", "--preset", "compound_pcfg")
    assert parse("--checkpoint", run, "--checkpoint", other, "--gold", gold, *files) == 0
    rows = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    table = [line.split("\t") for line in (run / "a.tsv").read_text().splitlines()]
    names = [run.name, other.name]
    assert table[0] == ["number", "words", *names, "sentence"] and [row[0] for row in rows[1:3]] == names
    assert (
        table[1][:2] == ["1", "5"] and table[1][4] == "the old dog sees her" and table[2] == ["2", "1", "", "", "dog"]
    )
    assert table[1][2:4] == [row[1] for row in rows[1:3]]  # the only sentence that counts
    texts = [element.text for element in ElementTree.parse(run / "a.svg").iter() if element.tag.endswith("text")]
    assert {f"{name}, F1 {f1}" for name, f1 in zip(names, table[1][2:4], strict=True)} < {*texts}
    assert parse("--checkpoint", run, "--checkpoint", other, gold) == 2
    assert "several models are compared on --gold trees, without --out; give one" in capsys.readouterr().err
    assert parse("--checkpoint", run, "--by-sentence", run / "b.tsv", gold) == 2
    assert "--by-sentence: is for --gold" in capsys.readouterr().err


def test_command_draws_distances(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run / "distances.svg"
    assert cli.main(["draw", "distances", "the old dog", "--checkpoint", str(run), "--out", str(out)]) == 0
    texts = [element.text for element in ElementTree.parse(out).iter() if element.tag.endswith("text")]
    assert {"layer 1", "layer 2", "the", "old", "dog"} <= set(texts)


def test_mistakes(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "text").write_text("\n\n")
    (run / "words").write_text("the dog\n")
    draw = ["draw", "distances", "dog", "--out", str(run / "x.svg")]
    for arguments, message in [
        (["parse", "--checkpoint", str(run)], "give either a FILE of sentences, or"),
        (["parse", "--checkpoint", str(run), str(run / "text")], "text: no sentence in this file"),
        (["parse", "--checkpoint", str(run), "--model", "on_lstm", "x"], "a model of kind fasttrees, not on_lstm"),
        (["parse", "--checkpoint", str(run), "no.txt"], "no.txt: No such file"),
        (draw, "give the model with --checkpoint"),
        ([*draw, "--checkpoint", str(run), "--layer", "3"], "error: --layer 3: the model has layers 1 to 2"),
        (
            ["parse", "--checkpoint", str(run), "--layer", "9", str(run / "words")],
            f"error: --layer 9: {run / BEST} has layers 1 to 2",
        ),
    ]:
        assert cli.main(arguments) == 2
        assert message in capsys.readouterr().err
    assert not (run / "x.svg").exists()


def test_brackets_within_words() -> None:
    """A tree of the search writes brackets in words as the Penn Treebank does, like every other tree."""
    types = [ActionType.ONT, ActionType.CNT1, ActionType.T]
    vocabulary = SimpleNamespace(type_of=types, symbols=["(X", "X)", "a"], begins_word=[True] * 3)
    tree = tree_of(vocabulary, [0, 2, 2, 1], ["hi", ":-)"])
    assert tree == induced_tree([(0, 1)], ["hi", ":-)"]) and str(tree) == "(X hi :--RRB-)"
