"""What a program finds: figures that are measured once, means with intervals, a picture and a result file."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from accel.drawing.svg import Picture, save
from accel.training.directory import write_text
from accel.training.metrics import read_metrics
from accel.training.run import METRICS
from examples.provenance import commit, machine

Findings = dict[str, Any]


def kept(path: Path, question: Findings, make: Callable[[], Findings]) -> Findings:
    """Return the figures stored for the same question; if there are none, make and store them."""
    if path.exists():
        figures = json.loads(path.read_text(encoding="utf-8"))
        if figures["asked"] == json.loads(json.dumps(question)):
            return dict(figures["found"])
    figures = make()
    write_text(path, json.dumps({"asked": question, "found": figures}, indent=1) + "\n")
    return figures


def hours(directories: Iterable[Path]) -> float:
    """Return the hours of all steps of these runs."""
    return sum(line["seconds"] for path in directories for line in read_metrics(path / METRICS)) / 3600


def write_analysis(
    options: argparse.Namespace,
    program: str,
    text: str,
    figures: Any,
    picture: Picture,
    sources: Findings,
    n_hours: float,
    seeds: Sequence[int] | None = None,
) -> None:
    """Write table, result and picture beside the runs; print the table; `seeds` are the models' (default: --seeds)."""
    options.out.mkdir(parents=True, exist_ok=True)
    option_values = {name: str(value) if isinstance(value, Path) else value for name, value in vars(options).items()}
    option_values |= {name: list(map(str, value)) for name, value in option_values.items() if isinstance(value, list)}
    of_models = list(seeds_of(options) if seeds is None else seeds)
    result = {
        "analysis": program,
        "options": option_values,
        "seeds": of_models,
        "commit": commit(),
        "data": sources,
        "hours": round(n_hours, 6),
        "machine": machine(),
        "found": figures,
    }
    write_text(options.out / f"{program}.json", json.dumps(result, indent=1) + "\n")
    write_text(options.out / f"{program}.md", text + "\n")
    save(picture, options.out / f"{program}.svg")
    print(f"\n{text}\n\n{options.out / program}.md, .json, .svg")


def seeds_of(options: argparse.Namespace) -> range:
    first: int = getattr(options, "first_seed", 0)
    return range(first, first + options.seeds)


def digest_of(lines: Iterable[str]) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of lines."""
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()[:16]
