"""The directory of a run: its vocabulary and its options, beside its checkpoints.

Beside `checkpoint.safetensors` and `best.safetensors` are `vocabulary.json` and `config.json`. `tables.safetensors`
holds arrays that a model reads and does not learn, such as word vectors. A checkpoint and the tables hold the digest of
their vocabulary, so that files of different vocabularies cannot be mixed up.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from accel.data.corpora.treebank import Reading
from accel.data.files.written import replaced
from accel.data.vocabularies.vocabulary import Vocabulary
from accel.data.vocabularies.words import Words
from accel.training.checkpoint import FORMAT, Checkpoint, CheckpointError, load, read_state, save
from accel.training.last_checkpoints import kept_checkpoints
from accel.training.run import BEST, METRICS, NEWEST, TrainingError

VOCABULARY, SETTINGS, TABLES = "vocabulary.json", "config.json", "tables.safetensors"
EXPORTED = "model.safetensors"
"""The weights in a folder that `grove export` wrote, or `accel.trained.weights.write_weights`."""
_UNFINISHED = re.compile(  # the names that a training gives to files until they are complete
    r"((checkpoint(-\d+)?|best|tables)\.safetensors(\.\d+)?|\.(config|vocabulary)\.json\.\d+)\.partial|metrics\.temporary"
)


def digest(vocabulary: Vocabulary | Words) -> str:
    """Return the digest by which a checkpoint names its vocabulary: 16 hexadecimal digits."""
    return hashlib.sha256(vocabulary.to_json().encode()).hexdigest()[:16]


def write_text(path: Path, text: str) -> None:
    """Write a file in one step: afterwards it is complete, or as it was before.

    Raises
    ------
    OSError
        If the file cannot be written, as on a full disk; the error names the file.
    """
    with replaced(path) as file:
        file.write(text.encode())


@contextmanager
def unchanged_if_refused(directory: Path) -> Iterator[Callable[[], None]]:
    """Yield a function; if an error comes before it is called, remove what was added to the cache of the directory.

    Before that call a training writes nothing else there. The directory, too, is removed if it is new, and empty.
    """
    is_new, before = not directory.exists(), _cached(directory)
    has_begun: list[bool] = []
    try:
        yield lambda: has_begun.append(True)
    except Exception:
        if not has_begun:
            for path in sorted(_cached(directory) - before, reverse=True):  # files before their folders
                path.rmdir() if path.is_dir() else path.unlink()
            if is_new and directory.exists() and not any(directory.iterdir()):
                directory.rmdir()
        raise


def _cached(directory: Path) -> set[Path]:
    """Return the cache of a directory, which may be missing, and all files and folders in it."""
    return {*directory.glob("cache"), *directory.glob("cache/**/*")}


@contextmanager
def new_folder(directory: Path) -> Iterator[Path]:
    """Yield a folder to write to, which gets its name only when it is complete; an error leaves nothing.

    Raises
    ------
    FileExistsError
        If `directory` exists and is not an empty directory; if it is a link, or the current directory.
    OSError
        If the folder cannot be written; the error names `directory`.
    """
    is_empty = directory.is_dir() and not any(directory.iterdir()) and not directory.samefile(".")
    if directory.is_symlink() or (directory.exists() and not is_empty):
        raise FileExistsError(17, "exists already; name a new folder", str(directory))
    temporary = directory.with_name(f".{directory.name}.{os.getpid()}.partial")
    try:
        temporary.mkdir(parents=True)
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}; name a folder elsewhere", str(directory)) from error
    try:
        yield temporary
        os.replace(temporary, directory)
    except CheckpointError as error:
        raise CheckpointError(str(error).replace(str(temporary), str(directory))) from error
    except OSError as error:
        name = str(error.filename or temporary)
        if error.errno is None or not name.startswith(str(temporary)):  # the error is about another file
            raise
        raise OSError(error.errno, error.strerror, name.replace(str(temporary), str(directory))) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def remove_unfinished(directory: Path) -> None:
    """Remove what a killed training has left unfinished: files that have no name yet, and folders of the cache."""
    for path in [path for path in directory.iterdir() if path.is_file()]:
        if _UNFINISHED.fullmatch(path.name) or _is_unnamed(path):
            path.unlink()
    for path in directory.glob("cache/.encoding-*"):
        shutil.rmtree(path)


def _is_unnamed(path: Path) -> bool:
    """Return whether a file is a checkpoint, or the empty beginning of one, to which safetensors gives a name last."""
    if re.fullmatch(r"\.tmp[A-Za-z0-9]{6}", path.name) is None or not os.access(path, os.R_OK):
        return False
    with open(path, "rb") as file:
        beginning = file.read(100)
    return not beginning or FORMAT.encode() in beginning


def require_free(directory: Path, *, resume: bool) -> None:
    """Raise TrainingError if a training in a directory would replace the files of a run, or of something else.

    A run has metrics from its first step on. If only the settings of a run are there, which a training writes first,
    the run ended before its first step, and its files may be replaced. Weights without a run are refused: exported,
    imported, or written by a user. A resumed run reads the vocabulary of the directory, and does not replace it.
    """
    if any((directory / name).exists() for name in (METRICS, NEWEST)):
        if not resume:
            use = "resume it with --resume, or choose another directory"
            raise TrainingError(f"{directory}: holds a run already: {use}")
        return
    vocabulary = () if resume else (VOCABULARY,)
    settings = () if _has_begun(directory) else (SETTINGS, *vocabulary, TABLES)
    names = (*settings, BEST, EXPORTED)
    for name in names:
        if (directory / name).exists():
            but = f"is there already, and {directory} holds no run that can be resumed"
            raise TrainingError(f"{directory / name}: {but}: choose another directory")


def _has_begun(directory: Path) -> bool:
    """Return whether the settings in a directory are those that a training writes."""
    try:
        return set(json.loads(_read_text(directory / SETTINGS))) == {"reading", "options"}
    except (CheckpointError, TypeError, ValueError):  # missing, or of another form
        return False


def require_checkpoint(directory: Path, checkpoint_every: int) -> None:
    """Raise TrainingError if a run to be resumed has lost its checkpoint.

    A run without one that has metrics of at most `checkpoint_every` steps, and no other parameters, may have been
    killed before its first checkpoint, and can begin anew. The step that first saves any parameters also saves a
    checkpoint, see `accel.training.loop`. So a run that has only other parameters was killed within that step if the
    incomplete file of the checkpoint is there, which is made before them (in older versions, if the metrics have no
    line of the step). Otherwise its checkpoint is lost. `checkpoint_every` is that of the training which resumes the
    run.
    """
    if (directory / NEWEST).exists():
        return
    lines = (directory / METRICS).read_bytes().count(b"\n") if (directory / METRICS).exists() else 0
    is_incomplete = (directory / f"{NEWEST}.partial").exists()
    has_best = (directory / BEST).exists() and not is_incomplete
    most = read_state(directory / BEST).get("step", 0) - 1 if has_best else checkpoint_every
    if lines <= most and (is_incomplete or not kept_checkpoints(directory)):
        return
    raise TrainingError(
        f"{directory / NEWEST}: is missing, and a run cannot be resumed without it: put it back, choose another "
        f"directory with --out, or remove {directory} to train from the start"
    )


def save_settings(directory: Path, reading: Reading | None, options: dict[str, Any]) -> None:
    """Write the reading of a run's trees, if it has trees, and the options of the run."""
    text = json.dumps({"reading": None if reading is None else asdict(reading), "options": options}, indent=2)
    write_text(directory / SETTINGS, text + "\n")


def load_settings(directory: Path) -> tuple[Reading | None, dict[str, Any]]:
    """Return the reading and the options that `save_settings` wrote."""
    path = directory / SETTINGS
    try:
        settings = json.loads(_read_text(path))
        reading = settings["reading"]
        return None if reading is None else Reading(**reading), dict(settings["options"])
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: not the settings of a run: {error}") from error


def load_vocabulary(directory: Path, form: Any) -> Any:
    """Return the vocabulary of a run, an instance of the class `form`."""
    path = directory / VOCABULARY
    try:
        return form.from_json(_read_text(path))
    except ValueError as error:
        raise CheckpointError(f"{path}: {error}") from error


def save_tables(directory: Path, tables: Mapping[str, Any], vocabulary: Vocabulary | Words) -> None:
    """Write the arrays that a model reads and does not learn, if there are any and the file is not there yet."""
    path = directory / TABLES
    if tables and not path.exists():
        shapes = {name: list(table.shape) for name, table in tables.items()}
        save(path, Checkpoint(dict(tables), {"vocabulary": digest(vocabulary), "shapes": shapes}))


def load_tables(directory: Path, vocabulary: Vocabulary | Words) -> dict[str, Any]:
    """Return the arrays that `save_tables` wrote; CheckpointError if they belong to another vocabulary."""
    path = directory / TABLES
    state = read_state(path)
    if state.get("vocabulary") != digest(vocabulary):
        raise CheckpointError(f"{path}: is of another vocabulary than {directory / VOCABULARY}")
    return load(path, {name: tuple(shape) for name, shape in state["shapes"].items()}).parameters


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path}: not UTF-8: {error.reason} at byte {error.start}") from error
