"""Search hyperparameters at random: one `grove train` run a trial, the best by its lowest validation loss.

    python -m examples.search --out runs/search --range maximum_rate=log:1e-4..1e-2 --range n_layers=2,4,6 \\
        -- --data train.trees --validation valid.trees --steps 500

Options after `--` are those of every trial. A range gives the values of a setting of `grove train --set`: LOW..HIGH
draws evenly, log:LOW..HIGH evenly in the logarithm, A,B,C one of these, and LOW..HIGH:STEP is short for such a list. If
LOW and HIGH are whole numbers, so are the values. They depend on --seed and the trial's number only. A killed search is
started again with the same command: complete trials are kept, and the interrupted one resumes. More --trials continue a
search. With --grid a search has one trial of every combination of listed values, the last range changing fastest.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from itertools import product
from math import exp, floor, inf, log
from pathlib import Path
from typing import Any

import numpy as np

from accel import cli
from accel.tasks.numbers import at_least
from accel.training.directory import write_text
from accel.training.metrics import read_metrics
from accel.training.run import METRICS, TrainingError
from accel.training.step import NonFiniteLoss
from examples.commands import set_options
from examples.markdown import table
from examples.program import run_program
from examples.provenance import commit, machine

DESCRIPTION, RESULT, TABLE = "search.json", "trial.json", "table.md"
_OWN = ("--out", "--resume")  # options that every trial gets from the search
Trial = dict[str, Any]


@dataclass(frozen=True)
class Range:
    """The values of a setting: one of `choices` or, if there are none, a number from `low` to `high`."""

    name: str
    choices: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0
    is_log: bool = False
    is_whole: bool = False

    def value(self, u: float) -> str:
        """Return the value at a point of [0, 1), as `--set` reads it: numbers have three significant digits.

        Examples
        --------
        >>> [range_of(text).value(0.5) for text in ("a=log:1e-4..1e-2", "a=0..0.3", "a=1..4", "a=tg,txl_cc")]
        ['0.001', '0.15', '3', 'txl_cc']
        """
        if self.choices:
            return self.choices[int(u * len(self.choices))]
        high = self.high + self.is_whole
        x = exp(log(self.low) + u * log(high / self.low)) if self.is_log else self.low + u * (high - self.low)
        return str(floor(x)) if self.is_whole else f"{min(max(float(f'{x:.3g}'), self.low), self.high):g}"


def range_of(text: str) -> Range:
    """Return the range that an option names; ArgumentTypeError says what is wrong."""
    name, _, values = text.partition("=")
    use = "use NAME=LOW..HIGH, NAME=log:LOW..HIGH, NAME=A,B,C or NAME=LOW..HIGH:STEP"
    if not name or not values:
        raise argparse.ArgumentTypeError(f"{text}: no range; {use}")
    if ".." not in values:
        return Range(name, choices=tuple(values.split(",")))
    if re.fullmatch(r"\d+\.\.\d+:\d+", values):
        low, high, step = map(int, re.split(r"\.\.|:", values))
        if low < high and step:
            return Range(name, choices=tuple(map(str, range(low, high + 1, step))))
    ends = values.removeprefix("log:").split("..")
    try:
        low, high = map(float, ends)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: its ends are not two numbers; {use}") from None
    is_log = values.startswith("log:")
    if not -inf < low < high < inf or (is_log and low <= 0):
        raise argparse.ArgumentTypeError(f"{text}: LOW must be below HIGH, and above 0 for log; {use}")
    return Range(name, (), low, high, is_log, all(end.strip("+-").isdecimal() for end in ends))


def main(arguments: Sequence[str] | None = None) -> list[Trial]:
    """Make all trials that are not complete, and return all, the best first."""
    options = _parser().parse_args(arguments)
    _check(options)
    description = {"seed": options.seed, "ranges": [text for text, _ in options.range], "train": options.train}
    ranges = [one for _, one in options.range]
    points = grid_of(ranges) if options.grid else []
    _require_same(options.out, description | {"grid": options.grid})
    names, trials = [one.name for one in ranges], list[Trial]()
    print(_table(names, []), flush=True)
    for number in range(len(points) or options.trials):
        values = points[number] if points else values_of(ranges, options.seed, number)
        trials.append(_made(options.out, number, values, options.train))
        print(_table(names, [_row(trials[-1], names)]).splitlines()[-1], flush=True)
    trials.sort(key=lambda trial: trial["validation_loss"])
    text = _table(names, (_row(trial, names) for trial in trials))
    write_text(options.out / TABLE, text + "\n")
    command = " ".join(["grove", "train", *options.train, *_set(trials[0]["values"])])
    best = f"the best: {command}" if trials[0]["validation_loss"] < inf else "all trials diverged; use other ranges"
    print(f"\nThe best first:\n\n{text}\n\n{best}")
    return trials


def _require_same(out: Path, description: Trial) -> None:
    """Write the description of a search; end the program if `out` holds trials of another search."""
    path = out / DESCRIPTION
    if path.exists() and any(out.glob("trial-*")):
        before = json.loads(path.read_text(encoding="utf-8"))
        before = {"grid": False} | before
        pairs = [f"{name}: {before[name]}, now {value}" for name, value in description.items() if before[name] != value]
        if pairs:
            raise SystemExit(f"{out}: a search keeps its options: {'; '.join(pairs)}; use another --out")
        return
    out.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(description | {"commit": commit(), "machine": machine()}, indent=1) + "\n")


def values_of(ranges: Sequence[Range], seed: int, number: int) -> dict[str, str]:
    """Return the values of a trial."""
    draws = np.random.Generator(np.random.Philox(key=[seed, number])).random(len(ranges))
    return {one.name: one.value(u) for one, u in zip(ranges, draws.tolist(), strict=True)}


def grid_of(ranges: Sequence[Range]) -> list[dict[str, str]]:
    """Return the values of every trial of a grid; the program ends if a range lists no values."""
    for one in ranges:
        if not one.choices:
            raise SystemExit(f"--grid: --range {one.name} lists no values; use NAME=A,B,C or NAME=LOW..HIGH:STEP")
    names = [one.name for one in ranges]
    return [dict(zip(names, values, strict=True)) for values in product(*(one.choices for one in ranges))]


def _made(out: Path, number: int, values: dict[str, str], train: Sequence[str]) -> Trial:
    """Return a trial: the stored one or, if there is none, a new one, whose training begins or resumes."""
    directory = out / f"trial-{number:03}"
    if (directory / RESULT).exists():
        old_trial: Trial = json.loads((directory / RESULT).read_text(encoding="utf-8"))
        return old_trial | {"validation_loss": float(old_trial["validation_loss"])}
    command = ["train", *train, *_set(values), "--out", str(directory), "--resume", "--traceback"]
    trial: Trial = {"number": number, "values": values}
    try:
        with redirect_stdout(sys.stderr):  # only the table goes to standard output
            status = cli.main(command)
    except NonFiniteLoss as error:
        trial |= {"validation_loss": inf, "step": str(error).partition(":")[0], "seconds": _seconds(directory)}
    except (ValueError, OSError, TrainingError) as error:
        raise SystemExit(f"trial {number}: {error}") from None
    else:
        if status:  # of an interrupt; the run has saved itself
            raise SystemExit(status)
        trial |= _result(directory)
    write_text(directory / RESULT, json.dumps(trial | {"validation_loss": str(trial["validation_loss"])}) + "\n")
    return trial


def _result(directory: Path) -> Trial:
    """Return the lowest validation loss of a run, its step, and the seconds of all steps."""
    losses = [(line["validation_loss"], line["step"]) for line in _metrics(directory) if "validation_loss" in line]
    if not losses:
        raise SystemExit(f"{directory}: no validation loss to choose by; give --validation and validate_every <= steps")
    loss, step = min(losses)
    return {"validation_loss": loss, "step": step, "seconds": _seconds(directory)}


def _seconds(directory: Path) -> float:
    return sum(float(line["seconds"]) for line in _metrics(directory))


def _metrics(directory: Path) -> list[dict[str, Any]]:
    """Return the lines of a run's metrics; none if it diverged in its first step."""
    path = directory / METRICS
    return list(read_metrics(path)) if path.exists() and path.stat().st_size else []


def _set(values: dict[str, str]) -> list[str]:
    return set_options(f"{name}={value}" for name, value in values.items())


def _table(names: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    return table(("trial", "validation loss", "best step", "seconds", *names), rows, n_names=0)


def _row(trial: Trial, names: Iterable[str]) -> list[str]:
    loss = trial["validation_loss"]
    result = [f"{loss:.4f}", f"{trial['step']:,}"] if loss < inf else ["diverged", str(trial["step"])]
    return [str(trial["number"]), *result, f"{trial['seconds']:.0f}", *(trial["values"][name] for name in names)]


def _check(options: argparse.Namespace) -> None:
    """End the program if a setting has two ranges, or an option of the trainings is one of the search."""
    names = [one.name for _, one in options.range]
    option_names = [word.partition("=")[0] for word in options.train]
    fixed = [word.partition("=")[0] for before, word in zip(options.train, options.train[1:], strict=False)
             if before == "--set"]  # fmt: skip
    for name in names:
        if names.count(name) > 1 or name in fixed or f"--{name.replace('_', '-')}" in option_names:
            raise SystemExit(f"--range {name}: {name} is given twice; name it once")
    for name in _OWN:
        if name in option_names:
            raise SystemExit(f"{name} after --: the search gives it to every trial; leave it out")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m examples.search", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="a directory for the trials and the table")
    parser.add_argument(
        "--trials", type=at_least(1), default=20, help="how many, those of before included (%(default)s)"
    )
    parser.add_argument(
        "--grid", action="store_true", help="try every combination of listed values, not --trials draws"
    )
    parser.add_argument("--seed", type=at_least(0), default=0, help="of the values that are tried (%(default)s)")
    help_text = "the values of a setting; may be repeated"
    parser.add_argument("--range", type=lambda text: (text, range_of(text)), action="append", required=True,
                        metavar="NAME=RANGE", help=help_text)  # fmt: skip
    parser.add_argument("train", nargs="+", metavar="OPTION", help="after --: options of grove train")
    return parser


if __name__ == "__main__":
    run_program(main)
