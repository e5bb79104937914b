"""What a resumed run keeps and what may change: its options and settings are compared with those of its start."""

from __future__ import annotations

import argparse
import filecmp
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any
from zlib import crc32

from accel.data.corpora.parallel import PARTS
from accel.models.checks import refusal
from accel.tasks.job import Job
from accel.trained.options import typed
from accel.training import resumed_settings
from accel.training import run as runs
from accel.training.checkpoint import read_state
from accel.training.resumed_settings import Change
from accel.training.run import NEWEST
from accel.training.schedule import ends_after_restart, has_ended
from accel.training.settings import TrainingConfig

_OF_PROCESS = ("out", "resume", "backend", "kernels", "graphs", "communicator", "threads", "traceback")
_OF_SETTINGS = (
    "steps",
    "batch_size",
    "micro_batch",
    "recompute",
    "precision",
    "seed",
    "set",
)  # compared as settings, together with settings that no option gives
_OF_EVALUATION = ("test", "test_stem", "gold", "convention", "preset", "beam", "rouge_tokenize", "top_k")
_DATA = ("data", "validation", "validation_gold")
_PATHS = ("data",)  # one path, or a list of several
_BLOCK = 2**20  # bytes that are read at a time
_FREE = (*_OF_SETTINGS, *_OF_EVALUATION, "epochs", "tokens", "cache")


def plain(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options as JSON can hold them, without those that concern only this process."""
    of_run = {name: value for name, value in vars(options).items() if name not in _OF_PROCESS}
    of_run["set"] = list(_by_name(options.set).values())
    return {name: _plain(value) if name in _PATHS else _plain_path(value) for name, value in of_run.items()}


def require_same_options(directory: Path, stored: Mapping[str, Any], options: argparse.Namespace) -> None:
    """Raise TrainingError if an option that a resumed run keeps has changed; a file may have moved."""
    different = {}
    for name, value in plain(options).items():
        old = stored.get(name, value)
        option = getattr(options, name)
        is_path = isinstance(option, Path) or (isinstance(option, list) and name in _PATHS)
        is_moved = is_path and isinstance(old, str) and isinstance(value, str) and _same_file(old, value)
        if name not in _FREE and value != old and not (is_moved or _are_moved(option, old, value)):
            different[_option(name)] = (_shown(old), _shown(value))
    runs.require_same(directory, different)


@contextmanager
def asking_for_moved(directory: Path, stored: Mapping[str, Any], options: argparse.Namespace) -> Iterator[None]:
    """Raise TrainingError, with the option to type, in place of FileNotFoundError for data of a resumed run."""
    try:
        yield
    except FileNotFoundError as error:
        gone = Path(os.path.abspath(error.filename or directory))
        for name in (*_DATA, "test", "gold"):
            paths = _paths(options, name)
            is_stored = stored.get(name) == _plain(getattr(options, name, None))
            if is_stored and any(gone.is_relative_to(path) for path in paths):
                names = "the names of all files" if len(paths) > 1 else "its new name"
                use = f"if it has moved, add {_option(name)} and {names}"
                raise runs.TrainingError(f"{directory}: resumes with {gone}, which is not there: {use}") from error
        raise


def require_same_contents(
    directory: Path, stored: Mapping[str, Any], options: argparse.Namespace, files: Iterable[Path]
) -> dict[str, Any]:
    """Return the checksums of the data that were read, as an option to store; TrainingError if they have changed.

    Of `files`, those count that the options of data name, or that are in a folder that they name. Files may have moved.
    Test data may change. The stored options of an older version have no checksums of files.
    """
    data, free = _paths(options, *_DATA), _paths(options, "test", "gold")
    within = {file for file in files for path in data if file.is_relative_to(path)}
    of_tests = {file for file in within if file in free or file.name.startswith(PARTS["test"])} - data
    checksums = {str(file): _checksum(file) for file in sorted(within - of_tests)}
    before = stored.get("contents", {}).get("files", checksums)
    if sorted(checksums.values()) != sorted(before.values()):
        others = [file for file, checksum in checksums.items() if checksum not in before.values()]
        what = f"{others[0]} has other contents than" if others else "fewer files are read than"
        use = "at its start; put them back, or train in another directory"
        raise runs.TrainingError(f"{directory}: a resumed run keeps its data: {what} {use}")
    return {"contents": {"files": checksums}}


def require_same_settings(
    directory: Path, stored: Mapping[str, Any], options: argparse.Namespace, job: Job
) -> dict[str, Change]:
    """Return the settings that change; TrainingError, with the options that set them, if one of them may not change."""
    new_names = [name for name, text in _by_name(options.set).items() if text not in stored.get("set", ())]
    names = {name: f"--set {name}" for name in new_names}
    names |= {name: _option(name) for name in _OF_SETTINGS[:-1] if getattr(options, name) is not None}
    different = resumed_settings.changes(read_state(directory / NEWEST), job.config, job.training)
    refused = {
        names.get(name, name): (_shown(old), _shown(new))
        for name, (old, new) in different.items()
        if not resumed_settings.may_change(name, different) or (name in new_names and name not in resumed_settings.FREE)
    }
    runs.require_same(directory, refused)
    if "restart_after" in different and (at := job.training.restart_after):
        n_results = len(resumed_settings.results(read_state(directory / NEWEST), job.training))
        if at <= n_results:
            raise refusal("restart_after", at, f"validation {n_results} is over", f"{n_results + 1} or more, or 0")
    return different


def why_ended(results: Sequence[float], training: TrainingConfig) -> tuple[str, str]:
    """Return why these validation results end a training, in words, and the setting that ends it; "" and "" if none."""
    if has_ended(results, after=training.stop_after, highest=training.select != "loss"):
        return f"{training.stop_after} validations were not better", "stop_after"
    at = training.restart_after
    if ends_after_restart(results, nonmonotone=training.nonmonotone, at=at):
        return f"the losses of the average after validation {at} stalled", "restart_after"
    return "", ""


def note_on_steps(directory: Path, training: TrainingConfig, different: Mapping[str, Change]) -> str | None:
    """Return in words how a new number of steps changes the learning rate, or why a run has ended; None if neither."""
    state = read_state(directory / NEWEST)
    step: int = state["step"]
    reason, setting = why_ended(resumed_settings.results(state, training), training)
    if setting:
        return f"ended at step {step:,}, where {reason} ({setting}); --set {setting}=0 continues"
    if "steps" not in different:
        return f"all {step:,} steps are made; a larger --steps lengthens the run" if step == training.steps else None
    settings = {f.name for f in fields(training)}
    before = replace(training, **{name: old for name, (old, _) in different.items() if name in settings})
    text = f"{step:,} steps are made; {training.steps:,} are to be made in all, before it was {before.steps:,}"
    if training.may_go_on and training.rate(step) == before.rate(step):
        return f"{text}; the learning rate does not depend on it"
    text = f"{text}: the {training.schedule} schedule is now that of {training.steps:,} steps"
    if not 0 < step < training.steps:
        return text
    return f"{text}; the learning rate goes from {before.rate(step - 1):.3g} to {training.rate(step):.3g}"


def lengthened(directory: Path, stored: Mapping[str, Any], different: Mapping[str, Change]) -> dict[str, Any]:
    """Return the option that records each change of a run's number of steps: when it came, and the number before."""
    changes = list(stored.get("lengthened", []))
    if "steps" in different:
        change = [read_state(directory / NEWEST)["step"], different["steps"][0]]
        changes += [change] * (change not in changes)  # a run that stopped before its next checkpoint has it
    return {"lengthened": changes} if changes else {}


def _plain(value: Any) -> Any:
    """Return a path as text, and a list of paths as a list of texts, or as the text of its only path."""
    if isinstance(value, list):
        texts = [str(Path(path).resolve()) for path in value]
        return texts[0] if len(texts) == 1 else texts
    return _plain_path(value)


def _plain_path(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain_path(item) for item in value]
    return str(value.resolve()) if isinstance(value, Path) else value


def _paths(options: argparse.Namespace, *names: str) -> set[Path]:
    """Return the paths that these options have."""
    values = [getattr(options, name, None) for name in names]
    paths = [path for value in values for path in (value if isinstance(value, list) else [value])]
    return {Path(os.path.abspath(path)) for path in paths if isinstance(path, str | Path)}


def _checksum(path: Path) -> int:
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            checksum = crc32(block, checksum)
    return checksum


def _by_name(texts: list[str]) -> dict[str, str]:
    """Return the texts NAME=VALUE by name; the last one counts."""
    return {text.partition("=")[0]: text for text in texts}


def _are_moved(option: Any, old: Any, value: Any) -> bool:
    """Return whether an option names several files, each of which was moved or is unchanged."""
    if not (isinstance(option, list) and isinstance(old, list) and isinstance(value, list) and len(old) == len(value)):
        return False
    are_paths = all(isinstance(path, Path) for path in option)
    return are_paths and all(one == other or _same_file(one, other) for one, other in zip(old, value, strict=True))


def _same_file(old: str, new: str) -> bool:
    """Return whether a file was moved: nothing is at its former path, or both files have the same bytes."""
    if not Path(old).exists():
        return True
    return Path(old).is_file() and Path(new).is_file() and filecmp.cmp(old, new, shallow=False)


def _option(name: str) -> str:
    return "--model" if name == "kind" else typed(name)


def _shown(value: Any) -> str:
    return "none" if value is None else str(value)
