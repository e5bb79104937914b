"""Time Grove's modules inside PyTorch: beside Grove's own tape and plain PyTorch, and what a call costs in itself.

    python -m benchmarks.torch_bridge [--threads 1] [--repeats 7] [--clock wall|cpu] [--only CASE ...]

Runs go forward and backward, to inputs and weights. Times are medians, and all sides take turns. The peak of memory is
that of one run in a process of its own, less what the process holds before it. Writes results/ unless only some cases
are run.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from accel import cpu
from accel.autodiff.layers import DropoutSites
from accel.autodiff.tape import Tape
from accel.autodiff.variables import Variable
from accel.models.gpst import composition
from accel.tasks.numbers import at_least
from accel.verify.strategies import make_tree
from benchmarks import fasttrees, gpst, treeformer
from benchmarks.run import RESULTS, machine, restart, slug
from benchmarks.timing import CLOCKS, Clock, Times
from refimpl.trees import action_type, actions

Call = Callable[[], Any]


def stack_of(kind: str) -> dict[str, Call]:
    """A stack 128-400 of 20 steps of 256 sequences; the peer runs step by step."""
    import torch

    from accel.torch import OnLstm

    setting = fasttrees.LOGIC
    ours, peer = fasttrees.calls(kind, setting)
    layer = OnLstm(setting.sizes[0], setting.sizes[1:], setting.chunk_size, kind=kind)
    state = {name.removeprefix("cells."): torch.from_numpy(x) for name, x in ours.parameters.items()}
    layer.load_state_dict(state)
    shape = setting.columns, setting.steps, -1
    x, d_out = (torch.from_numpy(y).view(shape) for y in (ours.x, ours.d_out))
    return {"inside PyTorch": partial(_run, layer, x, d_out), "Grove": ours, "plain PyTorch": peer}


def chart() -> dict[str, Call]:
    """Treeformer's chart, d 512, H 10, 16 sentences of 25 tokens; the peer composes precomputed projections."""
    import torch

    from accel.torch import CkyPooling

    ours, _, peer = treeformer.calls(25)
    module = CkyPooling(512, treeformer.HEIGHT)
    state = {name.removeprefix("chart."): torch.from_numpy(x) for name, x in ours.parameters.items()}
    module.load_state_dict(state)
    x, d_nodes = torch.from_numpy(ours.tokens).view(treeformer.BATCH, 25, -1), torch.from_numpy(ours.d_nodes)
    return {"inside PyTorch": partial(_run, module, x, d_nodes), "Grove": ours, "plain PyTorch": peer}


def attention() -> dict[str, Call]:
    """STACK/COMPOSE attention, d 512, 8 heads, 8 trees of 64 words; the peer has dense masks and no positions."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    from accel.torch import StackComposeAttention, attend_sets, double_closing

    trees = [np.array([0, *map(action_type, actions(make_tree("random", 64, seed)))], np.int8) for seed in range(8)]
    offsets = torch.from_numpy(np.cumsum([0, *(len(types) for types in trees)]))
    types, _, offsets = double_closing(torch.from_numpy(np.concatenate(trees)), offsets)
    rows, keys, _, _ = attend_sets(types, offsets)
    lengths = offsets.diff()
    n, d, heads = int(lengths.max()), 512, 8
    mask, owner = torch.zeros(8, n, n, dtype=torch.bool), torch.repeat_interleave(lengths)
    edge = torch.repeat_interleave(rows.diff())
    mask[owner[edge], edge - offsets[owner[edge]], keys.long()] = True
    mask |= torch.eye(n, dtype=torch.bool)  # SDPA has no rows without keys
    module = StackComposeAttention(d, heads)
    x, d_out = torch.randn(len(types), d), torch.randn(len(types), d)
    padded = torch.zeros(8, n, d)
    padded[owner, torch.arange(len(types)) - offsets[owner]] = x
    maps = torch.nn.ModuleList(torch.nn.Linear(d, d, bias=False) for _ in range(4))

    def dense(x: Any) -> Any:
        q, k, v = (m(x).unflatten(-1, (heads, -1)).transpose(1, 2) for m in maps[:3])
        return maps[3](scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None]).transpose(1, 2).flatten(2))

    ours = partial(_run, lambda x: module(x, types, offsets=offsets), x, d_out, module)
    return {"inside PyTorch": ours, "plain PyTorch": partial(_run, dense, padded, torch.randn_like(padded), maps)}


def inside_outside() -> dict[str, Call]:
    """GPST's composition model, d 64, 8 sentences of 32 words; the peer runs all cells of a step at once."""
    import torch

    from accel.torch import PrunedInsideOutside
    from benchmarks.peers_gpst_torch import GPST

    step = gpst.Step(gpst.config_of(64), 8, 32, generates=False)
    config, offsets, draw = step.config, step.batch.offsets, np.random.default_rng(0)
    names = ("compose_heads", "compose_layers", "decompose_layers", "d_score", "window", "dropout")
    module = PrunedInsideOutside(64, **{name: getattr(config, name) for name in names})
    p = {name: x for name, x in step.parameters.items() if name.startswith("composition.")}
    module.load_state_dict({name.removeprefix("composition."): torch.tensor(x) for name, x in p.items()})
    rows, scores = draw.standard_normal((256, 64), np.float32), draw.standard_normal(256).astype(np.float32)
    inner = np.delete(scores, offsets[1:] - 1)
    peer = GPST(config, step.parameters)

    def grove() -> Any:
        tape, v = Tape(cpu), {name: Variable(x) for name, x in p.items()}
        x = Variable(rows)
        charts = composition.charts_of(cpu, inner, offsets, config.window)
        inside = composition.inside(tape, config, v, x, charts, DropoutSites(None))
        outside = composition.outside(tape, config, v, inside.vectors, charts, DropoutSites(None))
        tape.backward(outside, np.ones_like(outside.value))
        return outside.value, x.gradient

    def plain(x: Any) -> Any:
        charts = composition.charts_of(cpu, inner, offsets, config.window)
        return peer.outside(peer.inside(x, charts)[0], charts, len(x))

    x, d_out = torch.from_numpy(rows).view(8, 32, 64), torch.ones(8, 32, 64)
    parser = torch.from_numpy(scores).view(8, 32)
    ours = partial(_run, lambda x: module(x, parser).outside, x, d_out, module)
    return {
        "inside PyTorch": ours,
        "Grove": grove,
        "plain PyTorch": partial(_run, plain, x.flatten(0, 1), d_out.flatten(0, 1), peer),
    }


CASES: dict[str, Callable[[], dict[str, Call]]] = {
    "on_lstm": partial(stack_of, "on_lstm"),
    "faster_fasttrees": partial(stack_of, "faster_fasttrees"),
    "chart": chart,
    "attention": attention,
    "inside_outside": inside_outside,
}


def _run(function: Any, x: Any, d_out: Any, weights: Any = None) -> Any:
    """Run forward and backward; return the output and the gradient of x."""
    (weights or function).zero_grad(set_to_none=True)
    x = x.detach().requires_grad_()
    result = function(x)
    result = result if hasattr(result, "backward") else result[0]
    result.backward(d_out)
    return result.detach(), x.grad


def overhead(clock: Clock) -> dict[str, dict[str, float]]:
    """Return microseconds of a call of `recurrence` on arrays and on tensors, without and with gradients."""
    import torch

    from accel.torch import ops

    out = {}
    for name, (batch, steps, units, calls) in {"small": (2, 2, 4, 200), "large": (64, 20, 200, 2)}.items():
        draw, rows = np.random.default_rng(0), batch * steps
        sizes = (rows, 4 * units + 4), (4 * units + 4, units), (4 * units + 4,), (batch, units)
        gates, weight, bias, zeros = (draw.standard_normal(size, np.float32) * 0.1 for size in sizes)
        arrays = [gates, weight, bias, zeros, zeros, np.arange(batch + 1) * steps]
        tensors = [torch.from_numpy(x) for x in arrays]
        leaves = [x.clone().requires_grad_(n < 3) for n, x in enumerate(tensors)]
        ones = np.ones((rows, units), np.float32)
        gradients = torch.from_numpy(ones)

        def both(arrays: list[Any] = arrays, ones: Any = ones) -> Any:
            outputs = cpu.recurrence(*arrays, kind="on_lstm")
            return cpu.recurrence_vjp(ones, outputs, *arrays, kind="on_lstm")

        def autograd(leaves: list[Any] = leaves, gradients: Any = gradients) -> Any:
            return torch.autograd.grad(ops.recurrence(*leaves, kind="on_lstm")[0], leaves[:3], gradients)

        def times(call: Call, calls: int = calls) -> None:
            for _ in range(calls):
                call()

        sides = {
            "arrays": partial(cpu.recurrence, *arrays, kind="on_lstm"),
            "tensors": partial(ops.recurrence, *tensors, kind="on_lstm"),
            "arrays, with gradients": both,
            "tensors, with gradients": autograd,
        }
        medians = clock.times(*(partial(times, call) for call in sides.values()))
        out[name] = {side: 1e6 * x.median / calls for side, x in zip(sides, medians, strict=True)}
        print(f"a call of recurrence, {name}: " + ", ".join(f"{side} {x:.0f} us" for side, x in out[name].items()))
    return out


def peak(call: Call) -> float:
    """Return the MiB that a run takes at its peak, above what the process holds before; Linux only."""
    call()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    before = _memory("VmRSS")
    call()
    return _memory("VmHWM") - before


def _memory(name: str) -> float:
    [line] = [x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(f"{name}:")]
    return int(line.split()[1]) / 1024


def measured(case: str, clock: Clock) -> dict[str, Any]:
    """Print and return the times of all sides of a case, and their peaks of memory."""
    calls = CASES[case]()
    _compare(calls)
    times: dict[str, Times] = dict(zip(calls, clock.times(*calls.values()), strict=True))
    environment = {key: x for key, x in os.environ.items() if not key.startswith("MALLOC_")}
    peaks = {}
    for side in calls:
        command = [sys.executable, "-m", "benchmarks.torch_bridge", "--peak", case, side]
        process = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        peaks[side] = float(process.stdout)
    doc = CASES[case].func.__doc__ if isinstance(CASES[case], partial) else CASES[case].__doc__
    print(f"{case}: {doc}")
    for side, x in times.items():
        print(f"    {side}: {x}, {peaks[side]:.0f} MiB")
    return {"times": {side: asdict(x) for side, x in times.items()}, "peaks": peaks}


def _compare(calls: dict[str, Call]) -> None:
    """Check that Grove computes the same inside PyTorch as alone: values, and gradients of the input."""
    if "Grove" in calls:
        for mine, theirs in zip(calls["inside PyTorch"](), calls["Grove"](), strict=True):
            np.testing.assert_allclose(np.asarray(mine).reshape(np.asarray(theirs).shape), theirs, rtol=0, atol=1e-4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=at_least(1), default=1, help="of all sides")
    parser.add_argument("--repeats", type=at_least(1), default=7)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--only", nargs="+", choices=(*CASES, "overhead"))
    parser.add_argument("--peak", nargs=2, metavar=("CASE", "SIDE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        case, side = options.peak
        print(peak(CASES[case]()[side]))
        return
    restart("benchmarks.torch_bridge", options.threads)
    import torch

    torch.set_num_threads(options.threads)
    clock, names = Clock(CLOCKS[options.clock], options.repeats), options.only or (*CASES, "overhead")
    setting = machine() | {"torch": torch.__version__, "threads": options.threads, "clock": options.clock}
    setting |= {"repeats": options.repeats, "load": os.getloadavg()[0]}
    print(", ".join(f"{key} {value}" for key, value in setting.items()), flush=True)
    results = {name: overhead(clock) if name == "overhead" else measured(name, clock) for name in names}
    if not options.only:
        path = RESULTS / f"{slug(setting['cpu'])}-{options.threads}-threads-torch-bridge.json"
        path.write_text(json.dumps({"setting": setting, "results": results}, indent=1) + "\n")
        print(f"written to {path}")


if __name__ == "__main__":
    main()
