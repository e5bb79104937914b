"""The same steps in plain PyTorch on this machine, with FlexAttention and torch.compile, and by cuDNN's LSTM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import cycle
from typing import Any

from accel import PRECISIONS
from benchmarks import fasttrees, gpst, treeformer
from benchmarks.gpu_report.records import Missing, Row, Setting
from benchmarks.gpu_report.steps import chosen, times
from benchmarks.gpu_steps import TableStep, stack_setting

LSTM = "torch.nn.LSTM"
FLEX_HEAD = 16  # the least width of a head


def rows(setting: Setting) -> Iterator[Row]:
    import torch

    if not setting.stand_in and not torch.cuda.is_available():
        raise Missing("PyTorch finds no GPU")
    torch.set_num_threads(1 if setting.stand_in else torch.get_num_threads())
    for precision in PRECISIONS[: 1 if setting.stand_in else None]:
        for step in chosen(setting):
            for label in labels(step):
                name = f"{step.name} | {label}, {precision}"
                yield name, partial(measured, setting, step, label, precision)


def labels(step: TableStep) -> tuple[str, ...]:
    """Return the names of the peers of a step."""
    if step.family == "transformer_grammar":
        return "PyTorch, padded", "FlexAttention"
    if step.family == "treeformer":
        return tuple(treeformer.FORMS)
    if step.family == "gpst":
        return ("PyTorch, all cells of a step at once",)
    return ("PyTorch, step by step", *([LSTM] if step.name.startswith(("ON-LSTM", "FastTrees")) else []))


def measured(setting: Setting, step: TableStep, label: str, precision: str) -> dict[str, Any]:
    """Return the times of a peer."""
    import torch

    device = "cpu" if setting.stand_in else "cuda"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    narrow = partial(torch.autocast, device, torch.bfloat16) if precision == "bf16" else nullcontext
    make = {"transformer_grammar": grammar, "treeformer": chart, "gpst": composed}.get(step.family, stack)
    with torch.device(device):
        call = make(setting, step, label, device, narrow)
        return times(setting, call)


Narrow = Callable[[], AbstractContextManager[Any]]


def grammar(setting: Setting, step: TableStep, label: str, device: str, narrow: Narrow) -> Callable[[], None]:
    """Return a training step with all dropouts, clipping and Adam, of the padded peer or of FlexAttention."""
    import torch

    from accel import cpu
    from benchmarks.peers_flex_torch import FlexTransformerGrammar, flex
    from benchmarks.peers_torch import TransformerGrammar, dense

    if label == "FlexAttention" and device == "cpu":
        raise Missing("FlexAttention has no backward pass on the CPU")
    ours = step.make(cpu, setting.small)
    config = ours.config
    if label == "FlexAttention" and config.d_model // config.n_heads < FLEX_HEAD:
        raise Missing(f"FlexAttention needs heads of {FLEX_HEAD} numbers")
    padded = [dense(batch, config.segment_length) for batch in ours.batches]
    batches: list[Any] = [replace(b, **{k: x.to(device) for k, x in vars(b).items()}) for b in padded]
    if label == "FlexAttention":
        peer, batches = FlexTransformerGrammar(config, ours.initial, compiled=True), [flex(b) for b in batches]
    else:
        peer = TransformerGrammar(config, ours.initial)
    peer.to(device).train()
    optimizer = torch.optim.Adam(peer.parameters(), lr=ours.training.maximum_rate, fused=device == "cuda")
    turn = cycle(batches)

    def call() -> None:
        batch = next(turn)
        optimizer.zero_grad()
        with narrow():
            loss = peer(batch) / (batch.labels >= 0).sum()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(peer.parameters(), 3.0)
        optimizer.step()

    return call


def stack(setting: Setting, step: TableStep, label: str, device: str, narrow: Narrow) -> Callable[[], None]:
    """Return a run of a stack forward and backward, step by step, or of `torch.nn.LSTM`."""
    kind, whole = step.make.args  # type: ignore[attr-defined]
    small = stack_setting(whole, setting.small)
    ours = fasttrees.Run(kind, small)
    peer = fasttrees.Peer("lstm" if label == LSTM else kind, small, ours)
    x, d_out = peer.x.detach().to(device).requires_grad_(), peer.d_out.to(device)
    return partial(differentiate, peer.stack.to(device), x, d_out, narrow, lambda out: out)


def chart(setting: Setting, step: TableStep, label: str, device: str, narrow: Narrow) -> Callable[[], None]:
    """Return a run of a chart forward and backward, in one of its two forms."""
    import torch

    from accel import cpu
    from benchmarks.peers_treeformer_torch import Chart, PrecomputedChart

    ours = step.make(cpu, setting.small)
    form = dict(zip(treeformer.FORMS, (Chart, PrecomputedChart), strict=True))[label]
    rows_of = len(ours.offsets) - 1, -1, ours.tokens.shape[1]
    x = torch.as_tensor(ours.tokens, device=device).view(rows_of).requires_grad_()
    d_out = torch.as_tensor(ours.d_nodes, device=device).view(rows_of)
    peer = form(ours.parameters, treeformer.HEIGHT).to(device)
    return partial(differentiate, peer, x, d_out, narrow, partial(torch.cat, dim=1))


def differentiate(module: Any, x: Any, d_out: Any, narrow: Narrow, joined: Callable[[Any], Any]) -> None:
    module.zero_grad(set_to_none=True)
    x.grad = None
    with narrow():
        out = joined(module(x))
    out.backward(d_out.to(out.dtype))


def composed(setting: Setting, step: TableStep, label: str, device: str, narrow: Narrow) -> Callable[[], None]:
    """Return a training step of the plain GPST."""
    import torch

    from accel import cpu
    from benchmarks.peers_gpst_torch import GPST

    ours: gpst.Step = step.make(cpu, setting.small)
    peer = GPST(ours.config, ours.parameters).to(device)
    ids = torch.as_tensor(ours.batch.ids, device=device).long().view(len(ours.batch.offsets) - 1, -1)
    optimizer = torch.optim.AdamW(peer.parameters(), lr=gpst.RATE, weight_decay=0, fused=device == "cuda")

    def call() -> None:
        optimizer.zero_grad()
        with narrow():
            losses = peer.losses(ids, ours.generates)
        peer.backward(*losses)
        optimizer.step()

    return call
