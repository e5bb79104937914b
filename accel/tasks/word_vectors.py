"""The options for word vectors trained elsewhere, and the vocabulary and tables that they give."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from accel.data.vocabularies.vectors import read_tables
from accel.data.vocabularies.words import Words
from accel.models.checks import refusal
from accel.tasks.numbers import at_least
from accel.trained.kinds import with_article
from accel.training.directory import TABLES, load_tables, load_vocabulary

Tables = dict[str, np.ndarray]


def add_vectors(parser: argparse.ArgumentParser) -> None:
    """Add the options for word vectors."""
    help_text = "word vectors, such as GloVe's, which stay as they are; again for a second table"
    parser.add_argument("--vectors", type=Path, action=_Files, metavar="FILE", help=help_text)
    parser.add_argument("--learn-vectors", action="store_true", help="start from the vectors of one file, and learn")
    parser.add_argument(
        "--vector-words", type=at_least(1), metavar="N", help="read the first N words of each file (all)"
    )


class _Files(argparse._AppendAction):
    """Collects the files of an option; files on the command line replace the files stored at a run's start."""

    def __call__(self, parser: Any, options: Any, value: Any, name: str | None = None) -> None:
        self.files = [*getattr(self, "files", []), value]
        setattr(options, self.dest, self.files)


def vector_files(options: argparse.Namespace, kinds: Sequence[str]) -> tuple[list[Path], bool]:
    """Return the files of word vectors, and whether they are learned; `kinds` are the models that take them.

    An older run stored one file, which was learned. Raises ValueError for options that contradict each other.
    """
    is_older = isinstance(options.vectors, str | Path)
    files = [Path(file) for file in ([options.vectors] if is_older else options.vectors or [])]
    if options.kind not in kinds and files:
        raise ValueError(f"--vectors: is for {', '.join(kinds)}; {with_article(options.kind)} takes none")
    if options.learn_vectors and len(files) != 1:
        raise ValueError(f"--learn-vectors: is for one file of --vectors, not for {len(files)}; name one")
    is_learned = is_older or options.learn_vectors
    if options.vector_words is not None and (is_learned or not files) and not options.resume:
        raise ValueError("--vector-words: is for --vectors that are not learned; leave it out")
    return files, is_learned


def words_and_tables(options: argparse.Namespace, files: Sequence[Path]) -> tuple[Words, Tables]:
    """Return all words that have a vector, and their tables: those of the resumed run, or of the files."""
    if options.resume and (options.out / TABLES).exists():
        words = load_vocabulary(options.out, Words)
        return words, load_tables(options.out, words)
    words, tables = read_tables(files, options.vector_words)
    return words, {f"tables.{k}": table for k, table in enumerate(tables)}


def check_tables(tables: Tables, size: int, files: Sequence[Path]) -> None:
    """Raise ValueError unless each vector has `size` numbers."""
    width = tables["tables.0"].shape[1]
    if width != size:
        raise refusal("embedding_size", size, f"the vectors of {files[0]} have {width} numbers", f"{width}, or none")
