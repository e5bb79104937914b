"""The batched parts of GPST against the reference: composition model, parser, configuration."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from accel.autodiff.arrays import host, offsets_of
from accel.autodiff.layers import DropoutSites
from accel.autodiff.tape import Tape
from accel.autodiff.variables import Variable, constant
from accel.models.gpst import composition
from accel.models.gpst import parser as split_parser
from accel.models.gpst.composition import Charts
from accel.models.gpst.config import MEDIUM, SMALL, Config, initialise, layer_weights, parameter_shapes
from refimpl.gpst import inside_outside, pruned_chart
from refimpl.gpst import parser as reference
from refimpl.layers import log_softmax
from refimpl.randomness import gumbel
from tests.fixtures import gpst_models
from tests.fixtures.comparisons import close
from tests.fixtures.cpu_backend import CPU
from tests.fixtures.gpst_batches import LENGTHS, V, config_of, ids_of, parameters_of, reference_config
from tests.fixtures.gpst_models import composition_parameters


def drawn_charts(ops: ModuleType, lengths: list[int], window: int) -> tuple[Charts, list[pruned_chart.Chart]]:
    """Return the charts of random scores: those of one batch, and those of the reference."""
    offsets = offsets_of(lengths)
    scores = np.random.default_rng(1).standard_normal(int(offsets[-1]) - len(lengths))
    charts = composition.charts_of(ops, ops.xp.asarray(scores), ops.xp.asarray(offsets), window)
    parts = np.split(scores, (offsets - np.arange(len(offsets)))[1:-1])
    return charts, [
        pruned_chart.pruned_chart(pruned_chart.merge_order(part), n, window)
        for part, n in zip(parts, lengths, strict=True)
    ]


def spans_of(charts: Charts, lengths: list[int]) -> list[tuple[int, tuple[int, int]]]:
    """Return the sentence and the span of every node."""
    words = [(b, (i, i)) for b, n in enumerate(lengths) for i in range(n)]
    return words + [(int(b), (int(i), int(j))) for b, (i, j) in zip(charts.owner, charts.spans, strict=True)]


@pytest.mark.parametrize("window", [1, 2, 9])
@pytest.mark.parametrize("lengths", [LENGTHS, [1, 1], [2]])
def test_inside_and_outside_are_the_reference(backend: ModuleType, lengths: list[int], window: int) -> None:
    """Vectors, scores, weights, heights and trees agree, in a batch of sentences of one to seven words."""
    config = config_of()
    parameters, offsets = parameters_of(config), offsets_of(lengths)
    charts, of_reference = drawn_charts(backend, lengths, window)
    leaves = np.random.default_rng(0).standard_normal((sum(lengths), config.d_compose))
    p = {name: constant(backend.xp.asarray(x)) for name, x in parameters.items()}
    f = Tape(backend, recording=False), config, p
    inner = composition.inside(*f, constant(backend.xp.asarray(leaves)), charts, DropoutSites(None))
    outer = composition.outside(*f, inner.vectors, charts, DropoutSites(None))
    expected = [
        inside_outside.inside(leaves[a:b], chart, composition_parameters(parameters), config.compose_heads)
        for a, b, chart in zip(offsets[:-1], offsets[1:], of_reference, strict=True)
    ]
    nodes = spans_of(charts, lengths)
    close(inner.vectors.value, [expected[b].vectors[span] for b, span in nodes])
    close(inner.heights.value[:, 0], [expected[b].heights[span] for b, span in nodes])
    cells = nodes[sum(lengths) :]
    scores = np.concatenate([np.zeros(0), *(host(x.value) for x in inner.scores)])
    close(scores, np.concatenate([np.zeros(0), *(expected[b].scores[span] for b, span in cells)]))
    close(inner.weights, np.concatenate([np.zeros(0), *(expected[b].weights[span] for b, span in cells)]))
    around = [
        inside_outside.outside(one, chart, composition_parameters(parameters), config.compose_heads)[0]
        for one, chart in zip(expected, of_reference, strict=True)
    ]
    close(outer.value, [around[b][span] for b, span in nodes[: sum(lengths)]])
    trees = composition.induced(charts, scores, offsets)
    spans = [nodes[node] for node in trees.nodes]
    assert spans == [
        (b, span)
        for b, (one, chart) in enumerate(zip(expected, of_reference, strict=True))
        for span in inside_outside.post_order(inside_outside.induced_tree(chart, one.scores))
    ]


def test_first_of_equal_scores_and_no_nan() -> None:
    charts, of_reference = drawn_charts(CPU, [6, 4], 3)
    scores = np.zeros(len(charts.left))
    nodes = spans_of(charts, [6, 4])
    spans = [nodes[node] for node in composition.induced(charts, scores, offsets_of([6, 4])).nodes]
    assert spans == [
        (b, span)
        for b, chart in enumerate(of_reference)
        for span in inside_outside.post_order(
            inside_outside.induced_tree(chart, {s: np.zeros(len(k)) for s, k in chart.cells.items()})
        )
    ]
    scores[3] = np.nan
    with pytest.raises(ValueError, match="scores: NaN at split 3"):
        composition.induced(charts, scores, offsets_of([6, 4]))


@pytest.mark.parametrize("window", [1, 2, 9])
def test_gradients_of_the_composition_model(window: int) -> None:
    """The gradient of all outputs along one direction agrees with differences to 1e-7.

    Two backward passes over one record give twice the gradient.
    """
    config = config_of()
    charts, _ = drawn_charts(CPU, LENGTHS, window)
    draw, values = np.random.default_rng(0), parameters_of(config)
    values = {"leaves": draw.standard_normal((sum(LENGTHS), config.d_compose))} | {
        name: x for name, x in values.items() if name.startswith("composition.")
    }
    along = {name: draw.standard_normal(x.shape) for name, x in values.items()}
    n_nodes = sum(LENGTHS) + len(charts.spans)
    weights = [draw.standard_normal((n_nodes, config.d_compose)), draw.standard_normal((n_nodes, 1))]
    weights.append(draw.standard_normal((sum(LENGTHS), config.d_compose)))

    def run(step: float) -> tuple[Tape, dict[str, Variable], list[Variable]]:
        variables = {name: Variable(x + step * along[name], buffer=np.empty_like(x)) for name, x in values.items()}
        f = Tape(CPU), config, variables
        inner = composition.inside(*f, variables["leaves"], charts, DropoutSites(4))
        outer = composition.outside(*f, inner.vectors, charts, DropoutSites(5))
        return f[0], variables, [inner.vectors, inner.heights, outer]

    def objective(step: float) -> float:
        return sum((w * x.value).sum() for w, x in zip(weights, run(step)[2], strict=True))

    h = 1e-5
    expected = (8 * (objective(h) - objective(-h)) - (objective(2 * h) - objective(-2 * h))) / (12 * h)
    tape, variables, outputs = run(0.0)
    for keep in (True, False):
        for x, w in zip(outputs[:2], weights, strict=False):
            x.accumulate(w, owned=False)
        tape.backward(outputs[2], weights[2], keep=keep)
    slope = sum((x.gradient * along[name]).sum() for name, x in variables.items()) / 2
    size = sum(abs(x.gradient * along[name]).sum() for name, x in variables.items()) / 2
    assert abs(slope - expected) <= 1e-7 * size
    unused = {name for name, x in variables.items() if not np.abs(x.gradient).max() > 0}
    unmoved = {name for name in variables if name.endswith("key_bias")}  # added to both keys of every pair
    assert unused - unmoved == ({name for name in variables if "side." in name} if window == 1 else set())


@pytest.mark.parametrize("size", [0.0, 1.0])
@pytest.mark.parametrize("width", [2, 33])
def test_residual_norms_that_bend_sharply(backend: ModuleType, width: int, size: float) -> None:
    """Values and gradients are those of a LayerNorm, where differences are too inexact.

    These are sums of 0, and rows of two numbers.
    """
    if backend.name == "ref":
        pytest.skip("the reference has no gradients but differences")
    xp, one = backend.xp, np.ones(width)
    x, y, bias = (size * np.random.default_rng(k).standard_normal((5, width)) for k in range(3))
    bias, d_out = bias[0], np.random.default_rng(9).standard_normal((5, width))
    inputs = x + y + bias, one, 0 * one
    expected = CPU.layer_norm(*inputs)
    arguments = xp.asarray(x), xp.asarray(y), xp.asarray(bias), 0.0, 0
    outputs = backend.residual_norm(*arguments)
    np.testing.assert_allclose(host(outputs[0]), expected[0], atol=1e-12)
    d_sum = CPU.layer_norm_vjp(d_out, expected, *inputs)[0]
    gradients = backend.residual_norm_vjp(xp.asarray(d_out), outputs, *arguments)
    for gradient, expected_gradient in zip(gradients, (d_sum, d_sum, d_sum.sum(axis=0)), strict=True):
        np.testing.assert_allclose(host(gradient), expected_gradient, rtol=0, atol=1e-9 * np.abs(d_sum).max())


def test_a_chain_of_1024_words() -> None:
    """There are 1,023 steps; float32 results and gradients are finite; no height exceeds that of a chain."""
    n, config = 1024, config_of(d_compose=2, compose_heads=1, compose_layers=1)
    charts = composition.charts_of(CPU, np.arange(n - 1.0), np.array([0, n]), 2)
    assert len(charts.step_offsets) == n
    variables = {name: Variable(x) for name, x in initialise(config, 0).items()}
    leaves = Variable(np.random.default_rng(0).standard_normal((n, 2)).astype(np.float32))
    f = Tape(CPU), config, variables
    inner = composition.inside(*f, leaves, charts, DropoutSites(None))
    outer = composition.outside(*f, inner.vectors, charts, DropoutSites(None))
    f[0].backward(outer, np.ones_like(outer.value))
    assert np.isfinite(outer.value).all() and np.isfinite(leaves.gradient).all()
    assert n / 2 < float(inner.heights.value.max()) <= n - 1


@pytest.mark.parametrize("lengths", [LENGTHS, [1, 1], [2]])
def test_parser_is_the_reference(backend: ModuleType, lengths: list[int]) -> None:
    config = config_of()
    parameters, ids, offsets = parameters_of(config), ids_of(lengths), offsets_of(lengths)
    p = {name: constant(backend.xp.asarray(x)) for name, x in parameters.items()}
    tape = Tape(backend, recording=False)
    scores = split_parser.split_scores(tape, config, p, backend.xp.asarray(ids), offsets, DropoutSites(None)).value
    parts = [ids[a:b] for a, b in zip(offsets[:-1], offsets[1:], strict=True)]
    expected = [reference.split_scores(reference_config(config), parameters, part) for part in parts]
    close(scores, np.concatenate(expected))


@pytest.mark.parametrize("size", [0.0, 1.0, 1e3])
def test_parser_loss_is_a_softmax_over_the_points_of_every_cell(backend: ModuleType, size: float) -> None:
    """It holds for scores of any size; the gradient agrees with differences."""
    draw = np.random.default_rng(2)
    begin, end, points = np.array([0, 0, 2, 6]), np.array([5, 2, 5, 7]), np.array([1, 0, 4, 6])
    values, weights = size * draw.standard_normal(7), draw.standard_normal(4)

    def plain(scores: np.ndarray) -> np.ndarray:
        parts = zip(begin, end, points, strict=True)
        return np.array([-log_softmax(scores[a:b])[k - a] for a, b, k in parts])

    tape, scores = Tape(backend), Variable(backend.xp.asarray(values))
    loss = split_parser.loss(tape, scores, begin, end, points)
    close(loss.value, plain(values))
    tape.backward(loss, backend.xp.asarray(weights))
    ends = [[weights @ plain(values + h * one) for h in (1e-5, -1e-5)] for one in np.eye(7)]
    np.testing.assert_allclose(host(scores.gradient), [(a - b) / 2e-5 for a, b in ends], rtol=1e-5, atol=1e-6)


def test_noise_is_the_reference() -> None:
    numbers = np.array([0, 1, 5, 2**20])
    for seed in (0, 7, 2**64 - 1):
        np.testing.assert_array_equal(split_parser.gumbel(numbers, seed), gumbel(numbers, seed))


def test_gradients_of_the_parser() -> None:
    """The gradient of the scores along one direction agrees with differences to 1e-7, with dropout."""
    config, ids, offsets = config_of(dropout=0.2), ids_of(LENGTHS), offsets_of(LENGTHS)
    draw = np.random.default_rng(0)
    values = {name: x for name, x in parameters_of(config).items() if name.startswith("parser.")}
    along = {name: draw.standard_normal(x.shape) for name, x in values.items()}
    weights = draw.standard_normal(sum(LENGTHS) - len(LENGTHS))

    def run(step: float) -> tuple[Tape, dict[str, Variable], Variable]:
        variables = {name: Variable(x + step * along[name], buffer=np.empty_like(x)) for name, x in values.items()}
        tape = Tape(CPU)
        return tape, variables, split_parser.split_scores(tape, config, variables, ids, offsets, DropoutSites(4))

    value, h = {k: (weights * run(k * 1e-5)[2].value).sum() for k in (2, 1, -1, -2)}, 1e-5
    expected = (8 * (value[1] - value[-1]) - (value[2] - value[-2])) / (12 * h)
    tape, variables, scores = run(0.0)
    tape.backward(scores, weights)
    slope = sum((x.gradient * along[name]).sum() for name, x in variables.items())
    size = sum(abs(x.gradient * along[name]).sum() for name, x in variables.items())
    assert abs(slope - expected) <= 1e-7 * size
    assert all(np.abs(x.gradient).max() > 0 for x in variables.values())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"window": 0}, "window"), ({"model": "gpt"}, "model"), ({"head": "linear"}, "head"),
        ({"compose_heads": 5}, "d_compose"), ({"parser_heads": 8}, "d_parser"), ({"dropout": 1.0}, "dropout"),
        ({"compose_layers": -1}, "compose_layers"), ({"height_norm": "n"}, "height_norm"),
    ],
)  # fmt: skip
def test_configurations_that_cannot_be(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        config_of(**change)


def test_parameters_are_the_reference() -> None:
    """Names and shapes are those of GPST-1; the composition model of the small GPST has 4.4 million."""
    for surrogate, head in ((True, "mlp"), (False, "dot")):
        of_reference = reference.Config(2, 2, 2, surrogate=surrogate, head=head)
        sizes = gpst_models.Sizes(V, 8, 6, 3, 8, 5, 40, 1, 2, 2, 2, of_reference)
        config = config_of(surrogate=surrogate, head=head)
        assert parameter_shapes(config) == gpst_models.parameter_shapes(sizes)
    small = composition_parameters(parameter_shapes(Config(30522, **SMALL)))
    assert sum(int(np.prod(shape)) for shape in small.values()) == 4440192


def test_numbers_of_parameters_beside_the_paper_s() -> None:
    """Point C of specs/gpst/parser.md: models of Tables 1 and 2 with the authors' 50,264 ids, and Table 7."""
    shapes = parameter_shapes(Config(50264, **SMALL))
    deeper = SMALL | {"token_layers": SMALL["token_layers"] + 1}
    twelve, thirteen = (parameter_shapes(Config(50264, "gpt2", **sizes)) for sizes in (SMALL, deeper))
    sizes = [sum(int(np.prod(shape)) for shape in model.values()) for model in (shapes, twelve, thirteen)]
    assert sizes == [143_263_235, 124_446_720, 131_534_592]

    weights = layer_weights(Config(50264, **SMALL))
    assert weights == {
        "composition function": {"MLP": 256 * 1024 * 2, "QKV linear": 256 * 256 * 3, "score linear": 256 * 128 * 2},
        "GPT-2": {"MLP": 768 * 3072 * 2, "QKV linear": 768 * 768 * 3, "score linear": 0},
    }
    assert [sum(parts.values()) for parts in weights.values()] == [786_432, 6_488_064]
    assert layer_weights(Config(50264, "gpt2", **SMALL)) == {"GPT-2": weights["GPT-2"]}


def test_the_paper_s_models_have_heads_of_one_width() -> None:
    """In every network of both sizes; the width must be a multiple of the heads."""
    for sizes, widths in ((SMALL, (64, 32, 16)), (MEDIUM, (64, 32, 32))):
        config = Config(30522, **sizes)
        heads = {"d_model": config.n_heads, "d_compose": config.compose_heads, "d_parser": config.parser_heads}
        assert tuple(getattr(config, name) / n for name, n in heads.items()) == widths
