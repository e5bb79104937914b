"""Where the time of a training step goes: matrix products, every op of the backend, and the rest.

    python -m benchmarks.profile STEP [--threads 1] [--repeats 7] [--clock wall|cpu]

The rest is Python, the tape, and the NumPy expressions between the ops. Without STEP the names of all steps are shown.
"""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

from accel import cpu
from accel.commands.tables import print_table
from accel.cpu.support import blas
from accel.tasks.numbers import at_least
from benchmarks.run import restart
from benchmarks.timing import CLOCKS

STAGES = {
    "products": ("matmul", "add_product"),
    "gathers": ("take", "embedding", "segments", "double_closing", "attend_sets", "pruned_chart", "add_rows"),
    "attention": ("sparse_attention", "causal_attention", "dot_product_attention", "pair_attention", "pair_layers"),
    "recurrences and charts": ("recurrence", "linear_recurrence", "cky_pool", "weighted_sum", "cumax", "tree_gate"),
    "elementwise": (
        "layer_norm", "residual_layer_norm", "residual_norm", "bias_gelu", "bias_erf_gelu", "dropout", "cross_entropy",
    ),
    "optimizer": ("adam",),
}  # fmt: skip
"""The functions of every stage. A gradient is in the stage of its op. Matrix products inside an op count as products,
except those in the steps of a recurrence."""


@dataclass
class Times:
    """Calls and seconds of every function, without the seconds of other timed functions that it calls."""

    read: Callable[[], float]
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    calls: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    running: list[float] = field(default_factory=lambda: [0.0])

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            self.running.append(0.0)
            begin = self.read()
            try:
                return function(*arguments, **options)
            finally:
                whole, inner = self.read() - begin, self.running.pop()
                self.seconds[name] += whole - inner
                self.calls[name] += 1
                self.running[-1] += whole

        return call

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Time every op of the CPU backend and the products inside."""
        targets: list[tuple[Any, str]] = [(np, "matmul"), (blas, "add_product"), (np, "take")]
        op_names = {x.removesuffix("_vjp") for names in STAGES.values() for x in names}
        op_names -= {name for _, name in targets}
        targets += [(cpu, name) for name in dir(cpu) if name.removesuffix("_vjp") in op_names]
        with ExitStack() as stack:
            for owner, name in targets:
                stack.enter_context(patch.object(owner, name, self.timed(name, getattr(owner, name))))
            yield


def steps() -> dict[str, Callable[[], Callable[[], Any]]]:
    """Return the functions that make the steps of the benchmarks, by name."""
    from accel.data.corpora.treebank import encode_trees
    from accel.data.generated.grammar import ENGLISH
    from accel.data.vocabularies.building import build
    from benchmarks import fasttrees, gpst, transformer_grammars, treeformer

    def transformer_grammar() -> Callable[[], Any]:
        trees = list(ENGLISH.sample(400, seed=0))
        vocabulary = build(trees)
        return transformer_grammars.Step(encode_trees(trees, vocabulary), vocabulary, 1)

    settings = {"language_model": fasttrees.LANGUAGE_MODEL, "logic": fasttrees.LOGIC}
    return {
        "transformer_grammar": transformer_grammar,
        **{
            f"{name}-{cell_type}": partial(fasttrees.Run, cell_type, setting)
            for name, setting in settings.items()
            for cell_type in fasttrees.NAMES
        },
        **{f"chart-{n}": partial(treeformer.Pass, [n] * treeformer.BATCH) for n in (25, 50, 100)},
        **{
            f"{part}-{d}-{n}": partial(gpst.Step, gpst.config_of(d), gpst.SENTENCES, n, part == "gpst")
            for part in ("composition", "gpst")
            for d in gpst.GOALS
            for n in (16, 32, 64, 128)
        },
    }


def stage_of(name: str) -> str:
    return next(stage for stage, names in STAGES.items() if name.removesuffix("_vjp") in names)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", nargs="?")
    parser.add_argument("--threads", type=at_least(1), default=os.cpu_count())
    parser.add_argument("--repeats", type=at_least(1), default=7)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    options = parser.parse_args()
    makers = steps()
    if options.step not in makers:
        raise SystemExit(f"step: {options.step!r} is not one of {', '.join(makers)}")
    restart("benchmarks.profile", options.threads)
    step, times = makers[options.step](), Times(CLOCKS[options.clock])
    step()
    begin = times.read()
    with times.measuring():
        for _ in range(options.repeats):
            step()
    whole = times.read() - begin
    print(f"{options.step}: {1e3 * whole / options.repeats:.1f} ms, mean of {options.repeats}")
    print_table(table(times, whole, options.repeats), 2)


def table(times: Times, whole: float, repeats: int) -> list[list[str]]:
    """Return a row for every stage, the longest first, and under it one for every function."""
    by_stage = defaultdict(list)
    for name in times.seconds:
        by_stage[stage_of(name)].append(name)
    seconds = {stage: sum(times.seconds[name] for name in names) for stage, names in by_stage.items()}
    seconds["rest: Python, tape, NumPy"] = whole - sum(seconds.values())
    rows = [["stage", "function", "calls", "ms", "%"]]
    for stage in sorted(seconds, key=seconds.__getitem__, reverse=True):
        rows.append([stage, "", "", *share(seconds[stage], whole, repeats)])
        for name in sorted(by_stage[stage], key=times.seconds.__getitem__, reverse=True):
            rows.append(["", name, f"{times.calls[name] // repeats:,}", *share(times.seconds[name], whole, repeats)])
    return rows


def share(seconds: float, whole: float, repeats: int) -> list[str]:
    return [f"{1e3 * seconds / repeats:.1f}", f"{100 * seconds / whole:.1f}"]


if __name__ == "__main__":
    main()
