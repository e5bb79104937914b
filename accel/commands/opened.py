"""Options and helpers of the commands that use trained models: the models, the backend, the output, the progress."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, TypeVar

import accel
from accel.data.corpora.treebank import Reading
from accel.data.files import progress as shown
from accel.data.files import written
from accel.data.files.archive import archive_of
from accel.data.files.lines import is_standard
from accel.tasks.numbers import at_least
from accel.tasks.reading import add_reading, changed, refuse_reading
from accel.trained.ensembles import ENSEMBLES, check_ensemble
from accel.trained.kinds import TEXT_LOGPS, TREE_LOGPS, can, kind_of, require, with_article
from accel.trained.opening import Model, open_model
from accel.trained.options import OptionError, typed
from accel.training.directory import SETTINGS, VOCABULARY, write_text
from accel.training.run import METRICS

T = TypeVar("T")
_RUNS = ("checkpoint", "runs")  # options whose texts are [NAME=]RUN


@dataclass(frozen=True)
class Opened:
    """The models of a command, ready to be used."""

    ops: ModuleType
    models: list[Model]
    reading: Reading
    scoring: dict[str, Any]  # options of `accel.scoring.trees.event_logps`


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--checkpoint",
        action="append",
        required=True,
        metavar="PATH",
        help="a run's directory or a checkpoint in it; repeat it for an ensemble",
    )
    add_ensemble(parser)
    parser.add_argument("--backend", default="cpu", choices=accel.BACKENDS)
    parser.add_argument("--batch-size", type=at_least(1), default=64, help="how many trees are read side by side")
    add_reading(parser, default=None, otherwise="as the model was trained")


def add_ensemble(parser: argparse.ArgumentParser) -> None:
    """Add --ensemble."""
    parser.add_argument("--ensemble", choices=ENSEMBLES, help=f"how several models are combined ({ENSEMBLES[0]})")


def open_models(options: argparse.Namespace) -> Opened:
    """Load the models that the options name."""
    ops = accel.load(options.backend)
    models = [open_model(ops, path) for path in options.checkpoint]
    for model in models:
        if hasattr(options, "text") and can(model, TEXT_LOGPS):
            kind = with_article(kind_of(model))
            raise ValueError(f"{model.path}: holds {kind}, which gives {TEXT_LOGPS}, not of trees: use --text")
        require(model, TREE_LOGPS)
    require_several(options)
    ensemble = options.ensemble or ENSEMBLES[0]
    check_ensemble(models, ensemble)
    for model in models[1:]:
        if model.reading != models[0].reading:
            others = f"was trained with other options for reading trees than {models[0].path}"
            raise ValueError(f"{model.path}: {others}: score each by itself")
    scoring = {"ensemble": ensemble, "batch_size": options.batch_size}
    return Opened(ops, models, changed(models[0].reading or Reading(), options), scoring)


def require_several(options: argparse.Namespace) -> None:
    """Raise OptionError if --ensemble is given, and one model only."""
    if options.ensemble is not None and len(options.checkpoint) == 1:
        raise OptionError("ensemble", "is for several models: repeat --checkpoint, or leave it out")


def open_language_model(options: argparse.Namespace, of_trees: str) -> tuple[ModuleType, Model]:
    """Load the one language model of words that --text is for; `of_trees` is the advice to give for a model of trees.

    Raises
    ------
    ValueError
        If there are several models, or a model of another kind; if options for trees are given.
    """
    if len(options.checkpoint) > 1:
        raise ValueError("--checkpoint: give one language model of words: they make no ensemble")
    reason = "is for trees, and --text has none: leave it out"
    if options.ensemble is not None:
        raise OptionError("ensemble", reason)
    refuse_reading(options, reason)
    ops = accel.load(options.backend)
    model = open_model(ops, options.checkpoint[0])
    if can(model, TREE_LOGPS):
        kind = with_article(kind_of(model))
        raise ValueError(f"--text: {model.path} holds {kind}, which gives {TREE_LOGPS}: {of_trees}")
    require(model, TEXT_LOGPS)
    return ops, model


def named(text: str) -> tuple[str, str]:
    """Return the name and the path of ``[NAME=]RUN``; if it has no name, "" and the text itself."""
    name, separator, path = text.partition("=")
    is_named = bool(separator) and "/" not in name and not Path(text).exists()
    return (name, path) if is_named else ("", text)


def add_max_height(parser: argparse.ArgumentParser) -> None:
    """Add the option for the height of a chart."""
    parser.add_argument(
        "--max-height",
        type=_height,
        metavar="N",
        help="length of a chart's longest phrase, and so of a sentence, in tokens; none: no limit (default)",
    )


def _height(text: str) -> int | None:
    """Return the value of --max-height."""
    return None if text == "none" else at_least(1)(text)


def check_outs(options: argparse.Namespace, *names: str, reads: Iterable[Path] = ()) -> None:
    """Raise ValueError if a file that one of these options names cannot be written, or if the command also uses it.

    The command uses every file that another option names, to be read or written, and the files in `reads`, which no
    option names.
    """
    others: dict[str, str] = {}  # the option of every file to write
    for name in names:
        path, option = getattr(options, name), typed(name)
        check_out(path, option)
        if path is not None and not is_standard(path) and not written.is_special(path):
            other = others.setdefault(os.path.realpath(path), option)
            if other != option:
                raise ValueError(f"{option} {path}: is also the name of {other}: name another file")
        check_unread(path, option, chain(_inputs(options, names), reads))
        check_unread(path, option, _figures(options, names), "holds figures of a run")


def check_unread(path: Path | None, option: str, reads: Iterable[Path], reason: str = "this command reads it") -> None:
    """Raise ValueError if a file to write is one of those that are read, or that the reason is for."""
    if path is not None and any(_is_same(path, one) for one in reads):
        raise ValueError(f"{option} {path}: {reason}: name another file")


def _inputs(options: argparse.Namespace, written_to: Sequence[str]) -> Iterator[Path]:
    """Yield the files that options name to be read, and the files of the runs that they name."""
    for path in _paths(options, written_to):
        yield Path("/dev/stdin") if is_standard(path) else archive_of(path) or path
        folder = _folder(path)
        yield from (folder / SETTINGS, folder / VOCABULARY, *folder.glob("*.safetensors"))


def _figures(options: argparse.Namespace, written_to: Sequence[str]) -> Iterator[Path]:
    """Yield the metrics and the evaluations of the runs that options name."""
    for folder in map(_folder, _paths(options, written_to)):
        if (folder / SETTINGS).exists():
            yield from (folder / METRICS, *folder.glob("evaluation*.json"), *folder.glob("*.evaluation*.json"))


def _paths(options: argparse.Namespace, written_to: Sequence[str]) -> Iterator[Path]:
    """Yield the paths that options name, but those of files to write."""
    for name, value in vars(options).items():
        for one in value if isinstance(value, list) else [value]:
            path = Path(named(one)[1]) if name in _RUNS and isinstance(one, str) else one
            if name not in written_to and isinstance(path, Path):
                yield path


def _folder(path: Path) -> Path:
    """Return the folder of a run that is given by its folder, or by a checkpoint in it."""
    return path.parent if path.suffix == ".safetensors" else path


def _is_same(one: Path, other: Path) -> bool:
    """Return whether two paths name one file, which is neither a device nor a pipe."""
    return os.path.isfile(one) and os.path.isfile(other) and os.path.samefile(one, other)


def check_out(path: Path | None, option: str = "--out") -> None:
    """Raise ValueError if a file cannot be written."""
    if path is None or is_standard(path):
        return
    if path.is_dir():
        raise ValueError(f"{option} {path}: a directory: name a file in it")
    if path.suffix in (".gz", ".xz"):
        raise ValueError(f"{option} {path}: is written unpacked: leave out {path.suffix}")
    if path.parent.is_file():
        raise ValueError(f"{option} {path}: {path.parent} is a file, not a directory: choose another")
    if not path.parent.is_dir():
        raise ValueError(f"{option} {path}: no directory {path.parent}: make it first")
    folder = Path(os.path.realpath(path)).parent  # for a link, the folder of the file that it names
    if not written.is_special(path) and not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError(f"{option} {path}: nothing can be written in {folder}: choose another directory")


def check_folder(path: Path, option: str = "--out") -> None:
    """Raise ValueError if the name of a directory to write is that of standard output."""
    if is_standard(path):
        raise ValueError(f"{option} {path}: standard output, but a directory is written: name a directory")


def write_out(path: Path, text: str) -> None:
    """Write a file in one step, or to standard output if its name is "-"."""
    if is_standard(path):
        print(text, end="")
    else:
        write_text(path, text)


def replaced(path: Path) -> AbstractContextManager[BinaryIO]:
    """Return a file to write as `accel.data.files.written.replaced` does; standard output for "-"."""
    return _standard_output() if is_standard(path) else written.replaced(path)


def growing(path: Path) -> AbstractContextManager[BinaryIO]:
    """Return a file to write as `accel.data.files.written.growing` does; standard output for "-"."""
    return _standard_output() if is_standard(path) else written.growing(path)


@contextmanager
def _standard_output() -> Iterator[BinaryIO]:
    with written.named("standard output"):
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()


def written_line_by_line(
    path: Path, lines: Iterable[Sequence[str]], results: Iterable[T], text: Callable[[T], str]
) -> list[T]:
    """Write the result of every line with words when it is there, a blank line for others; return all results."""
    all_results = []

    def texts() -> Iterator[str]:
        for result in results:
            all_results.append(result)
            yield text(result)

    with growing(path) as file:
        for line in line_by_line(lines, texts()):
            file.write(f"{line}\n".encode())
            file.flush()
    all_results.extend(results)  # nothing is left: this ends the progress display
    return all_results


def figures(*paths: Path | None) -> AbstractContextManager[Any]:
    """Return a context whose output goes to stderr if one of the files that are written is standard output."""
    return redirect_stdout(sys.stderr) if any(is_standard(path) for path in paths) else nullcontext()


def line_by_line(lines: Iterable[Sequence[str]], results: Iterable[str]) -> Iterator[str]:
    """Yield a result for every line that has words, and "" for every blank line.

    Examples
    --------
    >>> list(line_by_line([["a", "dog"], [], ["it"]], ["(S a dog)", "(S it)"]))
    ['(S a dog)', '', '(S it)']
    """
    remaining = iter(results)
    return (next(remaining) if words else "" for words in lines)


def progress(
    results: Iterable[T], count: int, unit: str = "tree", label: str = "", printed: bool = False
) -> Iterator[T]:
    """Return the results, and show their number as they come, unless they are printed on a terminal."""
    return shown.progress(results, count, unit, label=label, quiet=printed and sys.stdout.isatty())
