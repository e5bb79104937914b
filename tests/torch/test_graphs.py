"""Modules inside PyTorch's graphs: compiled, recomputed and freed, and moved to other types and devices."""

from __future__ import annotations

import gc

import pytest

from accel.autodiff.tape import Tape

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-frameworks")

from torch.utils.checkpoint import checkpoint  # noqa: E402

import accel.torch as grove  # noqa: E402
from accel.torch import ops  # noqa: E402

TYPES = torch.tensor([[0, 0, 1, 2, 3]] * 3)


def test_dropout_compiles_without_a_break_and_differs_at_every_call() -> None:
    """The seed is a number that the graph draws: its range and its type are known before it is."""
    attention, x = grove.StackComposeAttention(4, 2, dropout=0.5), torch.randn(3, 5, 4, requires_grad=True)
    compiled = torch.compile(lambda x: attention(x, TYPES), fullgraph=True, backend="aot_eager")
    first = compiled(x)
    assert not torch.equal(first, compiled(x))
    first.sum().backward()
    assert x.grad.any()


def test_checkpoints_of_activations_give_the_same_gradients() -> None:
    """A saved tensor may be read only once in a gradient."""
    torch.manual_seed(0)
    pruned = grove.PrunedInsideOutside(4, compose_heads=2, dropout=0.0)
    for run in (
        lambda x: grove.OnLstm(4, 6, 2)(x).output,
        lambda x: grove.StackComposeAttention(4, 2)(x, TYPES),
        lambda x: pruned(x, torch.zeros(3, 5)).inside,
    ):
        gradients = []
        for call in (run, lambda x: checkpoint(run, x, use_reentrant=False)):  # noqa: B023
            torch.manual_seed(1)
            x = torch.randn(3, 5, 4, requires_grad=True)
            call(x).square().sum().backward()
            gradients.append(x.grad)
        torch.testing.assert_close(*gradients, rtol=0, atol=0)


@pytest.mark.parametrize("is_enabled", [True, False])
def test_a_record_lives_as_long_as_the_graph(is_enabled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its arrays are free without a run of the cyclic collector, and without gradients there is no record."""
    tapes: list[Tape] = []
    monkeypatch.setattr(ops, "Tape", lambda *x, **options: tapes.append(Tape(*x, **options)) or tapes[-1])
    module, x = grove.PrunedInsideOutside(4, compose_heads=2), torch.randn(1, 5, 4)
    gc.disable()
    try:
        with torch.set_grad_enabled(is_enabled):
            composed = module(x, torch.zeros(1, 5))
        assert bool(tapes[0].entries) == is_enabled == composed.inside.requires_grad
        del composed
        assert not tapes[0].entries
    finally:
        gc.enable()


def test_depths_survive_a_change_of_the_type_and_a_move_without_memory() -> None:
    attention, x = grove.StackComposeAttention(4, 2).double(), torch.randn(3, 5, 4, dtype=torch.float64)
    weights = {name: weight.clone() for name, weight in attention.state_dict().items()}
    expected = attention(x, TYPES)
    for change in (lambda module: module.half().double(), lambda module: module.to("meta").to_empty(device="cpu")):
        change(attention).load_state_dict(weights)
        torch.testing.assert_close(attention(x, TYPES), expected, rtol=0, atol=0)
