"""GLUE (Wang et al., 2018): the training and development files of eight of its sets.

The files are those of the benchmark: columns between tabs, with a header that names them (CoLA has none). Quotation
marks are ordinary characters, and need not come in pairs. CoLA is also read from its own archive (``raw/``), SST-2 from
the trees of the treebank. Test files have no labels and are not read. Blanks separate words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from sys import intern
from typing import NamedTuple

from accel.data.batches.sentences import Example
from accel.data.files.lines import LineError, find_file, read_lines
from accel.data.published.sentiment import BINARY, read_sentiment

MOST_BROKEN = 10  # lines of a file; the training file of QQP has three
_BINARY = ("0", "1")
_OF_TWO = ("entailment", "not_entailment")
_COLUMNS_OF_COLA = ("source", "label", "mark", "sentence")


@dataclass(frozen=True)
class GlueSet:
    """One of the sets: its columns, and its classes as its files name them; without classes it has scores."""

    folder: str  # its name in the benchmark
    texts: tuple[str, ...]  # the columns of the one sentence, or of the two
    label: str  # the column of the class or the score
    classes: tuple[str, ...]
    development: tuple[str, ...] = ("dev.tsv",)
    columns: tuple[str, ...] | None = None  # None: the first line names them


SETS = {
    "cola": GlueSet("CoLA", ("sentence",), "label", _BINARY, columns=_COLUMNS_OF_COLA),
    "sst2": GlueSet("SST-2", ("sentence",), "label", _BINARY),
    "mrpc": GlueSet("MRPC", ("#1 String", "#2 String"), "Quality", _BINARY),
    "stsb": GlueSet("STS-B", ("sentence1", "sentence2"), "score", ()),
    "qqp": GlueSet("QQP", ("question1", "question2"), "is_duplicate", _BINARY),
    "mnli": GlueSet(
        "MNLI", ("sentence1", "sentence2"), "gold_label", ("entailment", "neutral", "contradiction"),
        ("dev_matched.tsv", "dev_mismatched.tsv"),
    ),
    "qnli": GlueSet("QNLI", ("question", "sentence"), "label", _OF_TWO),
    "rte": GlueSet("RTE", ("sentence1", "sentence2"), "label", _OF_TWO),
}  # fmt: skip
BEST_SCORE = 5.0  # of STS-B; the least is 0

_PUBLISHED = {  # the files of a set outside the benchmark: for training, for development
    "cola": ("raw/in_domain_train.tsv", ("raw/in_domain_dev.tsv", "raw/out_of_domain_dev.tsv")),
    "sst2": ("train.txt", ("dev.txt",)),
}


class Part(NamedTuple):
    """The examples of a file, and its lines that are broken and left out."""

    path: Path
    examples: list[Example]
    broken: list[int]


def read_training(name: str, folder: str | Path) -> Part:
    """Return the training examples of a set; `folder` is that of the set, or of all sets.

    The label of an `Example` is the name of its class as the file has it, or its score in digits. A line with more
    or fewer columns than the header, or without words, is broken: the questions of QQP have line feeds.

    Raises
    ------
    LineError
        At the faulty line: a column that the header lacks, an unknown label, more than `MOST_BROKEN` broken lines.
    FileNotFoundError, ValueError
        If a file is missing or there are several; as `read_lines` does.
    """
    return read_file(name, _files(name, folder)[0], training=True)


def read_development(name: str, folder: str | Path) -> list[Part]:
    """Return the development examples of a set, file by file; raises as `read_training`.

    MNLI has the matched and the mismatched ones. CoLA's own archive has the in-domain and the out-of-domain ones, which
    are one file in the benchmark.
    """
    return [read_file(name, path) for path in _files(name, folder)[1:]]


def _files(name: str, folder: str | Path) -> list[Path]:
    """Return the training file of a set and its development files."""
    corpus = SETS[name]
    inner = Path(folder) / corpus.folder
    folder = inner if inner.is_dir() else Path(folder)
    try:
        return [find_file(folder, file) for file in ("train.tsv", *corpus.development)]
    except FileNotFoundError:
        if name not in _PUBLISHED or _has(folder, "train.tsv"):
            raise
        training, development = _PUBLISHED[name]
        if not _has(folder, training):
            raise
        return [find_file(folder, file) for file in (training, *development)]


def _has(folder: Path, file: str) -> bool:
    try:
        return bool(find_file(folder, file))
    except FileNotFoundError:
        return False


def read_file(name: str, path: Path, *, training: bool = False) -> Part:
    """Return the examples of one file of a set.

    With `training`, the trees of SST-2's treebank also give their phrases. Raises as `read_training`.
    """
    if ".tsv" not in path.suffixes:
        examples = read_sentiment(path, BINARY, phrases=training)
        return Part(path, [x._replace(label=_BINARY[BINARY.index(x.label)]) for x in examples], [])
    corpus, examples, broken = SETS[name], list[Example](), list[int]()
    columns: Sequence[str] | None = corpus.columns
    for number, line in read_lines(path):
        cells = line.split("\t")
        if columns is None:
            columns = _header(path, cells, corpus)
            continue
        values = dict(zip(columns, cells, strict=False))
        sentences = tuple([intern(word) for word in values.get(text, "").split()] for text in corpus.texts)
        if len(cells) != len(columns) or not all(sentences):
            broken.append(number)
            continue
        _check_label(path, number, values[corpus.label], corpus.classes)
        examples.append(Example(values[corpus.label], sentences, number))
    if len(broken) > MOST_BROKEN:
        reason = f"one of {len(broken)} lines without {len(columns or ())} columns or without words"
        raise LineError(path, broken[0], f"{reason}; at most {MOST_BROKEN} are left out; check the file")
    if not examples:
        raise LineError(path, 0, "no examples in this file")
    return Part(path, examples, broken)


def _header(path: Path, names: list[str], corpus: GlueSet) -> list[str]:
    """Return the names of the columns; raise LineError if one is missing."""
    for name in (*corpus.texts, corpus.label):
        if name not in names:
            raise LineError(path, 1, f"no column {name!r} in the header of {corpus.folder}: {', '.join(names)}")
    return names


def _check_label(path: Path, line: int, label: str, classes: tuple[str, ...]) -> None:
    """Raise LineError if a label is none of the classes, or no score."""
    if classes and label not in classes:
        raise LineError(path, line, f"unknown label {label!r}: it must be one of {' '.join(classes)}")
    if not classes:
        try:
            is_score = 0 <= float(label) <= BEST_SCORE
        except ValueError:
            is_score = False
        if not is_score:
            raise LineError(path, line, f"score {label!r}: it must be a number from 0 to {BEST_SCORE:g}")
