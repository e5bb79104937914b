"""Transformers and Treeformers by the depth of the encoder and by the longest phrase (Figure 4; the ablation of H).

    python -m examples.treeformer.sizes
    python -m examples.treeformer.sizes --task cogs --data COGS
    python -m examples.treeformer.sizes --task translation --data IWSLT --source de --target en --recipe fairseq

Every depth has a model without a chart, one with the paper's chart and one with the released one, with H = 10. One
depth also has every other H; 0 is no limit. Only the encoder's depth changes. Without --task the data are those of
`examples.treeformer.head_final`. Interrupted runs resume; complete runs are kept.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from types import ModuleType

import accel
from accel.commands.evaluate import evaluate_run
from accel.drawing.svg import Picture
from accel.models.encoder_decoder.config import parameter_shapes
from accel.tasks.numbers import at_least
from accel.trained.opening import open_model
from examples.commands import grove, set_options
from examples.findings import Findings, hours, kept, seeds_of, write_analysis
from examples.markdown import spread, table
from examples.panels import Panel, Series, draw_panels, extents
from examples.program import run_program
from examples.provenance import digests
from examples.treeformer import head_final

CHARTS = {
    "Transformer": "transformer",
    "Treeformer, paper": "treeformer",
    "Treeformer, released": "treeformer_released",
}
HEIGHT, HEIGHT_DEPTH = 10, 2
"""H of the models that differ in depth; the encoder layers of the models that differ in H."""


@dataclass(frozen=True)
class Task:
    """What a task trains with unless options say otherwise, and the figures that its picture shows, by their names."""

    settings: tuple[str, ...]
    steps: int
    batch_size: int
    shown: Mapping[str, str]


TASKS = {
    "head_final": Task(head_final.SETTINGS, 1500, 1024, {"test": "test, %", "new": "new kinds of subjects, %"}),
    "cogs": Task(("d_ff=256",), 10_000, 4096, {"test": "test, %", "gen": "generalisation, %"}),
    "translation": Task((), 50_000, 4096, {"BLEU": "BLEU"}),
}
FILES = ("source", "target", "train-stem", "validation-stem", "test-stem", "vocabulary", "vocabulary-size", "recipe",
         "size")  # fmt: skip
"""Options that are passed on to `grove train --task translation`."""


@dataclass(frozen=True)
class Variant:
    """One kind of model: its row's name, the encoder's layers, and H (None without a chart)."""

    title: str
    depth: int
    height: int | None

    @property
    def name(self) -> str:
        """Return the name of a run, of which `variant_of` is the inverse."""
        height = "" if self.height is None else f"-{self.height}"
        return f"{CHARTS[self.title]}-{self.depth}{height}"


def variant_of(name: str) -> Variant:
    """Return the kind of model that has a name.

    Examples
    --------
    >>> variant_of("treeformer_released-2-0"), variant_of("transformer-1").height
    (Variant(title='Treeformer, released', depth=2, height=0), None)
    """
    chart, depth, *height = name.split("-")
    [title] = [title for title, kind in CHARTS.items() if kind == chart]
    return Variant(title, int(depth), int(height[0]) if height else None)


def main(arguments: Sequence[str] | None = None) -> list[Findings]:
    """Train and measure every model with every seed; write the table, the figures and the picture; return the rows."""
    options = _parser().parse_args(arguments)
    if (options.task == "head_final") != (options.data is None):
        raise SystemExit("sizes: --data: is for the tasks cogs and translation, which need it; use --task with it")
    options.out = options.out or Path("runs/treeformer") / f"sizes_{options.task}"
    if options.data is None:
        head_final.write_data(options.out / "data", options.sentences, options.test)
    ops, rows = accel.load("cpu"), []
    for variant in variants(options.depths, options.heights, options.height_depth):
        of_seeds = [measured(ops, options, variant, seed) for seed in seeds_of(options)]
        rows.append({"model": variant.title, "depth": variant.depth, "H": variant.height, "found": of_seeds})
    directories = [path.parent for path in options.out.glob("*/metrics.jsonl")]
    labels = TASKS[options.task].shown
    data = digests(sorted(path for path in (options.data or options.out / "data").iterdir() if path.is_file()))
    picture = picture_of(rows, labels, options.height_depth)
    write_analysis(options, "sizes", table_of(rows, labels), rows, picture, data, hours(directories))
    return rows


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m examples.treeformer.sizes",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, help="a folder for runs, table and picture (runs/treeformer/sizes_TASK)")
    parser.add_argument("--task", choices=TASKS, default="head_final")
    parser.add_argument("--data", type=Path, help="the data folder of cogs or translation")
    parser.add_argument("--depths", type=at_least(1), nargs="+", default=[1, 2, 3, 4], help="layers of the encoder")
    heights = [1, 2, 5, 10, 20, 0]
    parser.add_argument("--heights", type=at_least(0), nargs="+", default=heights, help="0: no limit (1 2 5 10 20 0)")
    help_text = "encoder layers of the models that differ in H (2)"
    parser.add_argument("--height-depth", type=at_least(1), default=HEIGHT_DEPTH, help=help_text)
    parser.add_argument("--seeds", type=at_least(1), default=3, help="models of every kind (3)")
    parser.add_argument("--first-seed", type=at_least(0), default=0, help="the first seed (0)")
    parser.add_argument("--steps", type=at_least(1), help="training steps (1,500; cogs: 10,000; translation: 50,000)")
    parser.add_argument("--batch-size", type=at_least(1), help="tokens of a step (1,024; the other tasks: 4,096)")
    help_text = "training sentences of head_final (20,000)"
    parser.add_argument("--sentences", type=at_least(1), default=20_000, help=help_text)
    parser.add_argument("--test", type=at_least(1), default=500, help="head_final's test sentences of each kind (500)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="as in grove train")
    files = parser.add_argument_group("only for translation, as in grove train")
    for name in FILES:
        files.add_argument(f"--{name}")
    return parser


def variants(depths: Sequence[int], heights: Sequence[int], height_depth: int) -> list[Variant]:
    """Return the models of all depths, and those of one depth with every H, each once.

    Examples
    --------
    >>> [variant.name for variant in variants([1], [10, 0], 1)][2:]
    ['treeformer_released-1-10', 'treeformer-1-0', 'treeformer_released-1-0']
    """
    plain, *charts = CHARTS
    all_of_them = []
    for depth in sorted({*depths, height_depth}):
        all_of_them += [Variant(plain, depth, None), *(Variant(title, depth, HEIGHT) for title in charts)]
    all_of_them += [Variant(title, height_depth, height) for height in heights for title in charts]
    return list(dict.fromkeys(all_of_them))


def measured(ops: ModuleType, options: argparse.Namespace, variant: Variant, seed: int) -> Findings:
    """Return the figures and the number of parameters of a run, which is trained and measured once."""
    run, command = options.out / f"{variant.name}-{seed}", training(options, variant, seed)

    def make() -> Findings:
        grove("train", *command, "--out", run, "--resume")
        model = open_model(ops, run)
        figures: Findings = {"parameters": sum(map(prod, parameter_shapes(model.config).values()))}
        if options.task == "head_final":
            scores = head_final.evaluate(ops, model, options.out / "data")
            new = [value for name, value in scores.items() if name not in ("test", "known subjects")]
            return figures | {name: 100 * value for name, value in scores.items()} | {"new": 100 * sum(new) / len(new)}
        [scores] = [value for name, value in evaluate_run(ops, run).items() if name in ("accuracy", "BLEU")]
        if options.task == "translation":
            return figures | {"BLEU": next(iter(scores.values()))}
        return figures | {str(name): 100 * value for name, value in scores.items()}

    generated = digests(sorted((options.out / "data").glob("*"))) if options.task == "head_final" else {}
    return kept(run / "measured.json", {"command": command} | ({"data": generated} if generated else {}), make)


def training(options: argparse.Namespace, variant: Variant, seed: int) -> list[str]:
    """Return the options of `grove train` for a model; settings of the command line replace those of the task."""
    task = TASKS[options.task]
    settings = dict(setting.split("=", 1) for setting in (*task.settings, *options.set))
    settings |= {"n_encoder_layers": str(variant.depth), "max_height": str(variant.height or 0)}
    if options.task == "head_final":
        words = head_final.data_options(options.out / "data")
    else:
        files = {name: getattr(options, name.replace("-", "_")) for name in FILES}
        file_options = [word for name, value in files.items() if value is not None for word in (f"--{name}", value)]
        words = ["--task", options.task, "--data", options.data, *file_options]
    words += ["--model", CHARTS[variant.title], "--seed", seed, "--steps", options.steps or task.steps]
    words += ["--batch-size", options.batch_size or task.batch_size]
    return [str(word) for word in (*words, *set_options(map("=".join, settings.items())))]


def table_of(rows: Sequence[Findings], shown: Mapping[str, str]) -> str:
    """Return a row for every kind of model: mean and sample deviation over seeds."""
    lines = [
        [row["model"], str(row["depth"]), height_name(row["H"]), f"{row['found'][0]['parameters']:,}",
         str(len(row["found"])), *(spread([seed[name] for seed in row["found"]], 1) for name in shown)]
        for row in rows
    ]  # fmt: skip
    return table(["model", "encoder layers", "H", "parameters", "seeds", *shown.values()], lines)


def height_name(height: int | None) -> str:
    """Return H as the table and the picture name it."""
    return "" if height is None else str(height or "none")


def picture_of(rows: Sequence[Findings], shown: Mapping[str, str], height_depth: int) -> Picture:
    """Return the figures by layers, by parameters and by H; bars reach from the least to the greatest seed."""
    of_depths = [row for row in rows if row["H"] in (None, HEIGHT)]
    at_depth = [row for row in rows if row["depth"] == height_depth]
    heights = sorted({row["H"] for row in at_depth if row["H"] is not None}, key=lambda height: height or 10**9)
    depths = {float(row["depth"]): str(row["depth"]) for row in of_depths}
    panels = []
    for name, label in shown.items():
        layers, sizes, by_height = ({title: [] for title in CHARTS} for _ in range(3))
        for row in of_depths:
            layers[row["model"]].append((row["depth"], row))
            sizes[row["model"]].append((row["found"][0]["parameters"] / 1000, row))
        for row in at_depth:
            places = range(len(heights)) if row["H"] is None else [heights.index(row["H"])]  # no chart: a level line
            by_height[row["model"]] += [(place, row) for place in places]
        names = {float(place): height_name(height) for place, height in enumerate(heights)}
        panels += [
            Panel("layers of the encoder", label, _series(layers, name), depths),
            Panel("parameters, thousands", label, _series(sizes, name)),
            Panel(f"H; layers of the encoder: {height_depth}", label, _series(by_height, name), names),
        ]
    return draw_panels(panels, "Treeformer by depth, size and H", columns=3)


def _series(rows: Mapping[str, list[tuple[float, Findings]]], name: str) -> dict[str, Series]:
    series = {}
    for title, places in rows.items():
        ordered = sorted(places, key=lambda place: place[0])
        values = [[seed[name] for seed in row["found"]] for _, row in ordered]
        series[title] = extents([float(x) for x, _ in ordered], values)
    return series


if __name__ == "__main__":
    run_program(main)
