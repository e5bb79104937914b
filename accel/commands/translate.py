"""`grove translate`: the translation of every line of a file, by beam search.

A translation without an end within its limit is printed up to the limit, and reported by an error after all others.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

import accel
from accel.commands.opened import line_by_line
from accel.data.files.lines import LineError, errors_at, read_word_lines
from accel.search.translations import SEARCH, Translation, translations
from accel.tasks.numbers import at_least, length_penalty
from accel.trained.average import averaged
from accel.trained.kinds import TRANSLATIONS, require
from accel.trained.opening import Model, open_model
from accel.trained.words import encode_words, joined, line_reader


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--checkpoint", type=Path, required=True, metavar="PATH", help="a run's directory, or a file")
    parser.add_argument("file", type=Path, metavar="FILE", help="a sentence a line, words between blanks")
    add_search(parser)


def add_search(parser: argparse.ArgumentParser) -> None:
    """Add the options of the search, and of what it runs with."""
    parser.add_argument("--average", type=at_least(1), metavar="K", help="use the mean of the run's last K checkpoints")
    parser.add_argument("--beam", type=at_least(1), default=4, help="unfinished sequences kept (4)")
    parser.add_argument("--length-penalty", type=length_penalty, default=0.6, help="exponent of (5 + length) / 6 (0.6)")
    parser.add_argument(
        "--extra-length", type=int, default=50, help="tokens that a target may have more than its source (50)"
    )
    parser.add_argument("--batch-size", type=at_least(1), default=32, help="sentences translated side by side")
    parser.add_argument("--backend", default="cpu", choices=accel.BACKENDS)


def run(options: argparse.Namespace) -> int:
    ops = accel.load(options.backend)
    model = open_translator(ops, options.checkpoint, options.average)
    lines = read_word_lines(options.file, line_reader(model))
    numbers = [number for number, words in enumerate(lines, 1) if words]
    check_sources(model, options.file, {number: lines[number - 1] for number in numbers}, options.extra_length)
    search = {name: getattr(options, name) for name in SEARCH}
    targets = translations(ops, model, list(filter(None, lines)), **search)
    for translation in line_by_line(lines, map(str, targets)):
        print(translation)
    sys.stdout.flush()
    _check_ends(options.file, numbers, targets, options.extra_length)
    return 0


def open_translator(ops: ModuleType, path: Path, average: int | None) -> Model:
    """Return a model that translates, or the mean of the last checkpoints of its run."""
    model = open_model(ops, path)
    require(model, TRANSLATIONS)
    return model if average is None else averaged(ops, model, average)


def check_sources(model: Model, path: str | Path, sources: Mapping[int, Sequence[str]], extra: int) -> None:
    """Raise LineError at the first source, by its line, that a model cannot read or whose target has no room."""
    for number, words in sources.items():
        with errors_at(path, number):
            n_tokens = len(joined(encode_words(model, words)))
        if n_tokens + extra < 0:
            reason = f"--extra-length {extra}: leaves nothing of {n_tokens} tokens: use at least 0"
            raise LineError(path, number, reason)


def _check_ends(path: Path, lines: Sequence[int], targets: Sequence[Translation], extra: int) -> None:
    """Raise LineError at the first translation without an end."""
    cut_rows = [i for i, target in enumerate(targets) if target.limit is not None]
    if cut_rows:
        others = f" ({len(cut_rows)} translations have none)" if len(cut_rows) > 1 else ""
        reason = f"the translation has no end within its limit of {targets[cut_rows[0]].limit} tokens{others}"
        raise LineError(path, lines[cut_rows[0]], f"{reason}: raise --extra-length ({extra})")
