"""PyTorch modules have the parameters, values and gradients of Grove's own models, for padded and ragged input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from accel import cpu
from accel.autodiff.layers import DropoutSites
from accel.autodiff.tape import Tape
from accel.autodiff.variables import Variable
from accel.models.fasttrees import stack
from accel.models.gpst import composition
from accel.models.gpst import model as gpst
from accel.models.gpst.parser import split_scores
from accel.models.passes import scoring
from accel.models.treeformer import chart as treeformer
from tests.fixtures.gpst_batches import batch_of, config_of, ids_of, parameters_of

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-frameworks")

import accel.torch as grove  # noqa: E402

LENGTHS = [3, 5, 1]
OFFSETS = np.array([0, 3, 8, 9])
MASK = np.arange(5) < np.array(LENGTHS)[:, None]


def padded(rows: np.ndarray) -> Any:
    """Return ragged rows as [3, 5, ...], with NaN as padding."""
    out = np.full((*MASK.shape, *rows.shape[1:]), np.nan)
    out[MASK] = rows
    return torch.from_numpy(out)


def parameters(module: Any) -> dict[str, np.ndarray]:
    """Change the module's parameters from their initial values, and return them in float64."""
    draw = np.random.default_rng(0)
    with torch.no_grad():
        for x in module.double().parameters():
            x += 0.3 * torch.from_numpy(draw.standard_normal(x.shape))
    return {name: x.detach().numpy().copy() for name, x in module.named_parameters()}


def differentiated(run: Callable[..., list[Variable]], x: np.ndarray, p: dict[str, np.ndarray]) -> Any:
    """Return the outputs of Grove's model, and the gradients of the sum of their squares by name; "x" is the input."""
    tape, variables = Tape(cpu), {name: Variable(value) for name, value in p.items()} | {"x": Variable(x)}
    outputs = run(tape, variables)
    for y in outputs[:-1]:
        y.accumulate(2 * y.value)
    tape.backward(outputs[-1], 2 * outputs[-1].value)
    return [y.value for y in outputs], {name: variable.gradient for name, variable in variables.items()}


def assert_same(
    module: Any, outputs: list[Any], x: Any, expected: list[np.ndarray], gradients: dict[str, Any], **options: Any
) -> None:
    """Check outputs, and the gradients of the sum of their squares; x is padded or ragged."""
    sum(y.square().sum() for y in outputs).backward(**options)
    for y, values in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(y.detach().numpy(), values, rtol=1e-10, atol=1e-12)
    for name, tensor in (*module.named_parameters(), ("x", x)):
        gradient = tensor.grad.numpy()
        gradient = gradient[MASK] if gradient.ndim == 3 else gradient
        np.testing.assert_allclose(gradient, gradients[name], rtol=1e-9, atol=1e-10, err_msg=name)


@pytest.mark.parametrize("kind", ["on_lstm", "lstm", "fasttrees", "faster_fasttrees"])
@pytest.mark.parametrize("form", ["padded", "ragged"])
def test_recurrent_layers(kind: str, form: str) -> None:
    layer = (grove.FastTrees if "trees" in kind else grove.OnLstm)(4, (6, 4), 2, kind=kind)
    p, rows = parameters(layer), np.random.default_rng(1).standard_normal((9, 4))
    extras: list[Any] = []

    def run(tape: Tape, v: dict[str, Variable]) -> list[Variable]:
        values = {f"cells.{name}": value for name, value in v.items()}
        h, *rest = stack.run_stack(tape, layer.config, values, v["x"], OFFSETS, None, DropoutSites(None))
        extras.extend(rest)
        return [h]

    expected, gradients = differentiated(run, rows, p)
    x = (padded(rows) if form == "padded" else torch.from_numpy(rows)).requires_grad_()
    result = layer(x, torch.tensor(LENGTHS)) if form == "padded" else layer(x, offsets=torch.from_numpy(OFFSETS))
    output = result.output
    if form == "padded":
        assert (output[~torch.from_numpy(MASK)] == 0).all()
        output = output[torch.from_numpy(MASK)]
        assert (x.grad is None) and [d.shape for d in result.distances] == [MASK.shape] * (0 if kind == "lstm" else 2)
    assert_same(layer, [output], x, expected, gradients)
    state, distances = extras
    for mine, theirs in zip(result.state, state, strict=True):
        np.testing.assert_allclose(mine.detach().numpy(), theirs, rtol=1e-10, atol=1e-12)
    for mine, theirs in zip(result.distances, distances, strict=True):
        mine = mine[torch.from_numpy(MASK)] if form == "padded" else mine
        np.testing.assert_allclose(mine.numpy(), theirs, rtol=1e-10, atol=1e-12)


def test_a_jagged_nested_tensor_is_ragged() -> None:
    layer, rows = grove.OnLstm(4, 6, 2), [torch.randn(n, 4) for n in LENGTHS]
    nested = torch.nested.nested_tensor(rows, layout=torch.jagged)
    output = layer(nested.values(), offsets=nested.offsets()).output
    torch.testing.assert_close(output, torch.cat([layer(x[None]).output[0] for x in rows]))


def test_a_state_continues_the_sequences() -> None:
    layer = grove.OnLstm(4, (6, 4), 2).double()
    x = torch.randn(2, 7, 4, dtype=torch.float64)
    whole, first = layer(x), layer(x[:, :3])
    torch.testing.assert_close(layer(x[:, 3:], state=first.state).output, whole.output[:, 3:])
    with pytest.raises(ValueError, match=r"state: shapes \[\(1, 6\)"):
        layer(x, state=[s[:1] for s in first.state])


def test_dropout_is_that_of_the_paper() -> None:
    """In evaluation hidden weights are multiplied by 1 - rate; in training the mask differs at every call."""
    torch.manual_seed(3)
    layer = grove.OnLstm(4, (6, 4), 2, weight_drop=0.25, layer_dropout=0.5)
    plain = grove.OnLstm(4, (6, 4), 2)
    scaled = {name: x * 0.75 if name.endswith("hh.weight") else x for name, x in layer.state_dict().items()}
    plain.load_state_dict(scaled)
    x = torch.randn(2, 3, 4)
    torch.testing.assert_close(layer.eval()(x).output, plain(x).output)
    assert not torch.equal(layer.train()(x).output, layer(x).output)


def test_cky_pooling() -> None:
    for max_height in (None, 2):
        module = grove.CkyPooling(4, max_height)
        p, rows = parameters(module), np.random.default_rng(1).standard_normal((9, 4))
        weights: list[np.ndarray] = []

        def run(tape: Tape, v: dict[str, Variable]) -> list[Variable]:
            values = {f"chart.{name}": value for name, value in v.items()}
            nodes, node_weights = treeformer.build(tape, values, "paper", 1, v["x"], OFFSETS, max_height)  # noqa: B023
            weights.append(node_weights)  # noqa: B023
            return [nodes]

        expected, gradients = differentiated(run, rows, p)
        x = padded(rows).requires_grad_()
        charts = module(x, torch.tensor(LENGTHS))
        assert_same(module, [charts.nodes], x, expected, gradients)
        np.testing.assert_allclose(charts.weights.numpy(), weights[0], rtol=1e-10)
        assert charts.node_offsets.tolist() == treeformer.node_offsets(np, OFFSETS, max_height).tolist()


def gpst_module(config: Any, p: dict[str, np.ndarray]) -> Any:
    """Return the module of a GPST's composition model, with its weights."""
    names = ("compose_heads", "compose_layers", "decompose_layers", "d_score", "window", "dropout")
    module = grove.PrunedInsideOutside(config.d_compose, **{name: getattr(config, name) for name in names}).double()
    tensors = {name.removeprefix("composition."): torch.from_numpy(x) for name, x in p.items()}
    module.load_state_dict({name: x for name, x in tensors.items() if f"composition.{name}" in p})
    return module


def test_pruned_inside_outside() -> None:
    """Inside and outside vectors, and the gradients of all parameters and words, are those of Grove's tape."""
    config, draw = config_of(), np.random.default_rng(2)
    module = gpst_module(config, parameters_of(config))
    rows, points = draw.standard_normal((9, config.d_compose)), draw.standard_normal(6)

    def run(tape: Tape, v: dict[str, Variable]) -> list[Variable]:
        p = {f"composition.{name}": value for name, value in v.items()}
        charts = composition.charts_of(cpu, points, OFFSETS, config.window)
        inside = composition.inside(tape, config, p, v["x"], charts, DropoutSites(None))
        return [inside.vectors, composition.outside(tape, config, p, inside.vectors, charts, DropoutSites(None))]

    p = {name: x.detach().numpy().copy() for name, x in module.named_parameters()}
    expected, gradients = differentiated(run, rows, p)
    x, scores = padded(rows).requires_grad_(), padded(np.insert(points, [2, 6, 6], np.nan)).requires_grad_()
    composed = module(x, scores, torch.tensor(LENGTHS))
    outputs = [composed.inside, composed.outside[torch.from_numpy(MASK)]]
    for _ in range(2):  # a graph that is kept gives the same gradients again
        module.zero_grad()
        x.grad = None
        assert_same(module, outputs, x, expected, gradients, retain_graph=True)
    assert not scores.grad.any()


def test_the_parser_of_gpst_learns_from_the_induced_trees() -> None:
    config = config_of()
    p = parameters_of(config)
    ids, f = ids_of(LENGTHS), scoring(cpu, config, p)
    points = split_scores(f.tape, config, f.p, ids, OFFSETS, f.sites).value
    leaves = p["embedding"][ids] @ p["down"] + p["down_bias"]
    scores = torch.from_numpy(np.insert(points, [2, 6, 6], 0)).requires_grad_()
    composed = gpst_module(config, p)(torch.from_numpy(leaves), scores, offsets=torch.from_numpy(OFFSETS))
    spans, _, vectors = gpst.induced_trees(cpu, config, p, ids, OFFSETS)
    assert composed.spans.tolist() == spans.tolist()
    np.testing.assert_allclose(composed.inside[composed.nodes].detach().numpy(), vectors, rtol=1e-10)
    losses = gpst.losses(cpu, config, p, batch_of(LENGTHS))
    assert composed.parser_loss.mean().item() == pytest.approx(losses["parser"], rel=1e-10)
    assert torch.autograd.gradcheck(
        lambda s: gpst_module(config, p)(torch.from_numpy(leaves), s, offsets=torch.from_numpy(OFFSETS)).parser_loss,
        (scores,),
    )


def test_what_is_changed_in_place_is_refused() -> None:
    config = config_of()
    module = gpst_module(config, parameters_of(config))
    x = torch.randn(1, 4, config.d_compose, dtype=torch.float64)
    composed = module(x, torch.randn(1, 4, dtype=torch.float64))
    with torch.no_grad():
        next(module.parameters()).add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        composed.outside.sum().backward()


def chart(lengths: list[int], labels: int = 2) -> Any:
    return torch.from_numpy(np.random.default_rng(4).standard_normal((len(lengths), 5, 5, labels)))


def test_sums_over_labelled_trees() -> None:
    """Sums, marginals (as gradients) and best trees agree with the list of all trees."""
    scores = chart([4, 1, 3]).requires_grad_()
    logz = grove.span_logz(scores, torch.tensor([4, 1, 3]))
    logz.sum().backward()
    best = grove.best_trees(scores, 10_000, torch.tensor([4, 1, 3]))
    for b in range(3):
        weights = np.array([score for score, _ in best[b]])
        assert logz[b].item() == pytest.approx(np.logaddexp.reduce(weights))
        assert (np.diff(weights) <= 0).all()
        marginals = np.zeros((5, 5, 2))
        for score, nodes in best[b]:
            assert scores[b][tuple(nodes.T.long())].sum().item() == pytest.approx(score)
            np.add.at(marginals, tuple(nodes.T.numpy()), np.exp(score - logz[b].item()))
        np.testing.assert_allclose(scores.grad[b].numpy(), marginals, atol=1e-10)
    assert grove.best_trees(scores, 1, torch.tensor([4, 1, 3]))[0][0][0] == best[0][0][0]


def test_layers_compile_without_a_break() -> None:
    layer, pool, x = grove.OnLstm(4, 6, 2), grove.CkyPooling(4), torch.randn(2, 3, 4)
    for call in (lambda x: layer(x).output, lambda x: layer(x, torch.tensor([3, 1])).output, lambda x: pool(x).nodes):
        compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(x), call(x))
    attention, types = grove.StackComposeAttention(4, 2), torch.tensor([[0, 0, 1, 2, 3], [0, 0, 1, 2, 3]])
    x, offsets = torch.randn(10, 4), torch.tensor([0, 5, 10])
    compiled = torch.compile(
        lambda x: attention(x, types.flatten(), offsets=offsets), fullgraph=True, backend="aot_eager"
    )
    torch.testing.assert_close(compiled(x), attention(x, types.flatten(), offsets=offsets))
