"""Predict the time of every training step on a GPU, beside a report of one, and write benchmarks/gpu_model.md.

    python -m benchmarks.gpu_model                       # write the page from the stored counts
    python -m benchmarks.gpu_model --count [STEP ...]    # count these steps anew (all: 25 minutes), then write it
    python -m benchmarks.gpu_model --list                # print the names of the steps

A step is counted on the stand-in for CuPy: no GPU is needed. The counts lie in benchmarks/results/, and so does
the report that the predictions are compared with (gpu_measured.py).
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np

from accel.cuda import forms
from accel.models.transformer_grammars.config import parameter_shapes
from accel.tasks.trees import CONFIGURATIONS
from accel.training.buckets import MOST_BYTES
from benchmarks.gpu_counts import COUNTS, Kernel, StepCounts, count_step, load, restored, stand_in
from benchmarks.gpu_measured import compared, load_report, machine, numbers
from benchmarks.gpu_model_text import DIFFERED, TEXT
from benchmarks.gpu_steps import TableStep, table, trees
from benchmarks.gpu_time import FLOAT32_BYTES, all_reduce, as_a_graph, as_designed, as_it_is
from benchmarks.transformer_grammars import Step

FOLDER = Path(__file__).parent
PAGE, BEFORE = FOLDER / "gpu_model.md", FOLDER / "results" / "gpu-counts-before.json"
FAST = COUNTS.with_stem(COUNTS.stem + "-fast")
BUDGETS = {
    "transformer_grammar": (450, "Transformer Grammar, PTB size, 8 random trees"),
    "fasttrees": (350, "FastTrees stack 400-1150-1150-400, 70 x 20"),
    "faster_fasttrees": (350, "FastTrees stack 400-1150-1150-400, 70 x 20"),
    "treeformer": (40, "Treeformer's chart, d 512, H 10, 16 x 50 tokens"),
    "gpst": (400, "GPST's whole step, d 64, 8 x 128 words"),
}
"""For each family, how many kernels one step may launch after the design, and which step; others in proportion."""
WITH_FAST = ("transformer_grammar", "treeformer", "gpst")
"""The families whose steps are also counted with fast kernels."""
PERSISTENT = 60
"""The kernels of a FastTrees step whose recurrences are one persistent kernel each; the step's budget is 350."""
LARGE = {
    f"BLLIP-LG, {layers} layer{'s'[: layers - 1]}, 8 {length} trees": (layers, bounds)
    for layers in (1, 2)
    for length, bounds in (("short", (30, 50)), ("long", (58, 70)))
}
"""Steps of a model as wide as the paper's largest one: its layers, and the bounds on the positions of its trees. The
bytes and operations of a step are linear in layers and positions, so these four give those of the large step."""
WORDS, WORDS_A_SENTENCE, POSITIONS_A_SENTENCE = 40e6, 24.15, 82
"""BLLIP-LG's words (section 3 of the paper), and words per sentence in its test split (footnote 2); the positions per
sentence are those of PTB's sample, read without tags."""
GPUS = (1, 8, 64)
BACKWARD = 2 / 3
"""The backward pass's share of a step: it has twice the forward pass's products. Gradients are added up meanwhile."""


def large(layers: int, bounds: tuple[int, int]) -> Callable[[Any, bool], Step]:
    """Return what makes a step of eight trees by a model that is as wide as the paper's largest one."""
    config, _ = CONFIGURATIONS["bllip_sent"]["tg"]
    names = "vocabulary_size", "d_model", "d_ff", "n_heads", "segment_length", "memory_length"
    sizes = {name: getattr(config, name) for name in names} | {"n_layers": layers}
    return lambda ops, small: Step(*trees(*bounds), 1, 0, ops, **sizes)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", nargs="*", metavar="STEP", help="count steps anew: those of the names, or all")
    parser.add_argument("--list", action="store_true", help="print the names of the steps")
    options = parser.parse_args(arguments)
    steps = table() | {name: TableStep(name, "", large(*sizes)) for name, sizes in LARGE.items()}
    if options.list:
        print(*steps, sep="\n")
        return
    if options.count is not None:
        unknown = sorted(set(options.count) - set(steps))
        if unknown:
            raise SystemExit(f"--count: {unknown[0]!r} is no step: --list prints their names")
        for name in options.count or steps:
            print(name, flush=True)
            store(name, steps[name].make(stand_in(), False), COUNTS)
            if steps[name].family in WITH_FAST:
                with forms.use(forms.Forms("fast")):
                    store(name, steps[name].make(stand_in(), False), FAST)
    PAGE.write_text(page(load(BEFORE), load(COUNTS), load(FAST)), encoding="utf-8")
    print(f"written to {PAGE}")


def store(name: str, step: Callable[[], Any], path: Path) -> None:
    """Count a step, and put the counts into a file, with the commit, and the positions of a batch of trees."""
    counts = count_step(step).stored()
    if isinstance(step, Step):
        counts["positions"] = len(step.batches[(step.turn - 1) % len(step.batches)].ids)
    content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    command = ("git", "-C", str(FOLDER), "rev-parse", "--short=7", "HEAD")
    commit = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    content[name] = {"commit": commit, **counts}
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in content.items())
    path.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


def commits(*paths: Path) -> str:
    steps = [counts for path in paths for counts in json.loads(path.read_text(encoding="utf-8")).values()]
    return ", ".join(sorted({counts["commit"] for counts in steps}))


def page(before: dict[str, StepCounts], now: dict[str, StepCounts], fast: dict[str, StepCounts]) -> str:
    """Return the page of predictions, and of what was measured."""
    launches, report = now[next(iter(table()))].launches, load_report()
    graph = {name: (fast if step.family == "gpst" else now)[name] for name, step in table().items()}
    figures = numbers(now, graph, report)
    rows = {
        "figures": machine(report),
        "counts": counted(before, now, fast),
        "times": times(before, now, graph),
        "compared": compared(now, graph, report),
        "differed": [line for item in DIFFERED for line in listed(item.format(**figures))],
        "large": hours(launches),
    }
    return TEXT.format(
        before=commits(BEFORE), now=commits(COUNTS, FAST), parameters=n_parameters() / 1e6,
        positions=POSITIONS_A_SENTENCE, steps_an_epoch=steps_an_epoch(), tpu=100_000 / 4.06 / 3600,
        **figures, **{name: "\n".join(lines) for name, lines in rows.items()},
    )  # fmt: skip


def listed(item: str) -> list[str]:
    """Return the lines of an item of a list."""
    return wrap(f"- {item}", 120, subsequent_indent="  ", break_on_hyphens=False)


def budget(name: str, family: str, before: dict[str, StepCounts]) -> int:
    """Return how many kernels a step may start after the design: as the family's step, in proportion."""
    most, of = BUDGETS[family]
    return max(1, round(most * before[name].launches / before[of].launches))


def counted(before: dict[str, StepCounts], now: dict[str, StepCounts], fast: dict[str, StepCounts]) -> list[str]:
    rows = []
    for name, step in table().items():
        a, b, most = before[name], now[name], budget(name, step.family, before)
        rows.append(
            f"| {name} | {a.launches:,} | {b.launches:,} | {fast[name].launches if name in fast else '–'} | {most:,} "
            f"| {a.synchronisations} + {a.copies} "
            f"| {b.synchronisations} + {b.copies} | {b.bytes / 1e9:.2f} | {b.flops / 1e9:.0f} |"
        )
    return rows


def times(before: dict[str, StepCounts], now: dict[str, StepCounts], graph: dict[str, StepCounts]) -> list[str]:
    rows = []
    for name, step in table().items():
        most = budget(name, step.family, before)
        predicted = [as_it_is(before[name]), as_it_is(now[name]), as_a_graph(graph[name])]
        predicted.append(as_designed(now[name], most, "float32", is_graph=False))
        is_recurrent = step.family == "fasttrees"
        fewest = round(most * PERSISTENT / BUDGETS["fasttrees"][0]) if is_recurrent else most
        for precision in ("float32", "bf16"):
            predicted.append(as_designed(now[name], fewest, precision, is_graph=True, is_persistent=is_recurrent))
        cells = [f"{1e3 * x.step:.2f}" for x in predicted]
        rows.append(f"| {name} | {' | '.join(cells)} | {predicted[1].bound} | {predicted[-1].bound} |")
    return rows


def n_parameters() -> int:
    config, _ = CONFIGURATIONS["bllip_sent"]["tg"]
    return sum(map(prod, parameter_shapes(config).values()))


def steps_an_epoch() -> float:
    _, training = CONFIGURATIONS["bllip_sent"]["tg"]
    return WORDS / WORDS_A_SENTENCE / training.batch_size


def at_positions(positions: float) -> StepCounts:
    """Return the counts of a step of the paper's model over so many positions.

    All products count as one kernel, and all other kernels as another one: only their sums are right.
    """
    config, _ = CONFIGURATIONS["bllip_sent"]["tg"]
    content = json.loads(COUNTS.read_text(encoding="utf-8"))
    sizes = [(layers, content[name]["positions"]) for name, (layers, _) in LARGE.items()]
    step_counts = [restored(content[name]) for name in LARGE]

    def at(total: Callable[[StepCounts], int]) -> int:
        terms = np.array([[1, layers, n, layers * n] for layers, n in (*sizes, (config.n_layers, positions))], float)
        return round(terms[-1] @ np.linalg.solve(terms[:-1], [float(total(counts)) for counts in step_counts]))

    product_bytes = at(lambda counts: sum(k.count * k.bytes for k in counts.kernels if k.flops))
    others = at(lambda counts: sum(k.count * k.bytes for k in counts.kernels if not k.flops))
    kernels = Kernel("products", 1, product_bytes, at(lambda counts: counts.flops)), Kernel("others", 1, others, 0)
    return StepCounts(kernels, 1, 1)


def hours(launches: int) -> list[str]:
    """Return a row for every number of GPUs and precision; `launches` are the kernels of a step now."""
    _, training = CONFIGURATIONS["bllip_sent"]["tg"]
    reduced, rows = n_parameters(), []
    ways = (("float32, as it is", launches, "float32", False), ("bf16, after the design", 450, "bf16", True))
    for gpus in GPUS:
        counts = at_positions(POSITIONS_A_SENTENCE * training.batch_size / gpus)
        network = all_reduce(reduced, gpus)
        last = network * min(1.0, MOST_BYTES / (FLOAT32_BYTES * reduced))
        for name, kernels, precision, is_graph in ways:
            predicted = as_designed(counts, kernels, precision, is_graph=is_graph)
            seconds = predicted.step + max(network - BACKWARD * predicted.step, last)
            bound = "network" if network > predicted.step else predicted.bound
            epoch, whole = seconds * steps_an_epoch() / 3600, seconds * training.steps / 3600
            rows.append(
                f"| {gpus} | {name} | {1e3 * predicted.step:.1f} | {1e3 * network:.1f} | {1e3 * seconds:.1f} "
                f"| {epoch:.2f} | {whole:.1f} | {bound} |"
            )
    return rows


if __name__ == "__main__":
    main()
