"""Refuse options of `examples.measure` that differ from those of the files in its folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path

from accel.data.files.lines import open_bytes
from accel.data.published.syntax_suites import suite_files
from accel.trained.opening import checkpoint_of
from accel.training.checkpoint import read_state
from accel.training.directory import load_settings
from examples.provenance import TRAINED_AT
from examples.result_files import Result

_OF_OPTION = {"epochs": "parser in {} was trained", "suites": "results in {} were made"}


def suites_of(paths: Iterable[Path]) -> str:
    """Return a text that identifies suites: one digest of all their files, the same however they are packed."""
    digests = []
    for path in chain.from_iterable(map(suite_files, paths)):
        with open_bytes(path) as file:
            digests.append(hashlib.sha256(file.read()).digest())
    digest = hashlib.sha256(b"".join(sorted(digests))).hexdigest()
    return f"suites of SHA-256 {digest[:16]}"


def options_of_runs(folder: Path, result_file: str) -> Result:
    """Return the options of the complete parser in a folder, and of the results of its models."""
    options: Result = {}
    if ((parser := folder / "parser") / TRAINED_AT).exists():
        options["epochs"] = load_settings(parser)[1]["epochs"]
    for path in folder.glob(f"*/{result_file}"):
        answered = json.loads(path.read_text(encoding="utf-8")).get("syntaxgym", {})
        options |= {name: value for name, value in answered.items() if name == "suites"}
    return options


def require_same_options(folder: Path, stored: Result, asked: Result) -> None:
    """Raise ValueError if an option that is asked for differs from that of the files in the folder."""
    for name, value in stored.items():
        if asked.get(name, value) != value:
            before, now = (" ".join(x) if isinstance(x, list) else x for x in (value, asked[name]))
            what = _OF_OPTION.get(name, "trees in {} were made").format(folder)
            raise ValueError(f"--{name}: the {what} with {before}, not {now}: give the same, or another --out")


def require_same_settings(directory: Path, asked: Mapping[str, str]) -> None:
    """Raise ValueError if the run is complete, and so is kept, but has other settings."""
    if not (directory / TRAINED_AT).exists() or not asked:
        return
    state = read_state(checkpoint_of(directory))
    trained = state["config"] | state["training"]
    for name, value in asked.items():
        before = trained.get(name)
        is_same = value.lower() == str(before).lower()
        with suppress(ValueError):  # 1e-3 equals 0.001; a text that is no number differs
            is_same |= isinstance(before, float) and float(value) == before
        if not is_same:
            raise ValueError(
                f"{directory}: was trained with {name}={before}, not {value}: give the same, or another --out"
            )
