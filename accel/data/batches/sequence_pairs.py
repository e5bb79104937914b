"""Pairs of a source and a target sequence: parallel text read from two files, and the batches of an encoder-decoder.

Both sides share one `Vocabulary` without labels. A source ends with the end symbol. A target is read after the start
symbol, and its last label is the end symbol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from accel.autodiff.arrays import Array, joined, offsets_of, on_device
from accel.data.batches.sized import SizedBatches
from accel.data.files.json_lines import Field, read_texts
from accel.data.files.lines import LineError, errors_at
from accel.data.vocabularies.bpe import CONTINUES
from accel.data.vocabularies.vocabulary import BPE, END_ID, START_ID, Vocabulary, VocabularyError

Pair = tuple[np.ndarray, np.ndarray]  # ids of source and target, without start and end
UNKNOWN = "UNK"
_JOIN = "the text is cut already: join it (sed 's/@@ //g' FILE > NEW), or use --vocabulary words"


class Pairs(Protocol):
    """A list of pairs, or an object that computes pair number i on request."""

    def __len__(self) -> int: ...

    def __getitem__(self, i: int) -> Pair: ...


@dataclass(frozen=True)
class TextPair:
    """The words of a source and of its target, and their line in a file; results are grouped by `kind`."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    line: int
    kind: str | int = ""


@dataclass(frozen=True)
class PairBatch:
    """B pairs, each side joined: S source tokens, N target tokens.

    Attributes
    ----------
    source_ids : [S] int32
        Every source, followed by the end symbol.
    source_offsets : [B+1] int64
    ids : [N] int32
        Every target, after the start symbol.
    target_offsets : [B+1] int64
    labels : [N] int32
        The next token of every target; its last label is the end symbol.
    n_labels : int
        N.
    """

    source_ids: Array
    source_offsets: Array
    ids: Array
    target_offsets: Array
    labels: Array
    n_labels: int


Split = Callable[[str], list[str]]
Column = str | Path | Field
"""One side of parallel text: a file with a sentence a line, or a field of a file of JSON objects."""


def read_parallel(source: Column, target: Column, split: Split = str.split) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the words of each pair of lines of two files, split by `split`.

    Raises
    ------
    LineError
        At the faulty line: an empty sentence; a line that only one of the files has; as `read_texts` does.
    """
    for left, right in zip_longest(read_texts(source), read_texts(target)):
        if left is None or right is None:
            longer, shorter, number = (source, target, left[0]) if right is None else (target, source, right[0])
            raise LineError(str(longer), number, f"{shorter} ends before this line")
        sides = split(left[1]), split(right[1])
        for path, words in zip((source, target), sides, strict=True):
            if not words:
                where = f" in the field {path.name}" if isinstance(path, Field) else ""
                raise LineError(str(path), left[0], f"an empty sentence{where}")
        yield sides


def load_parallel(
    source: Column,
    target: Column,
    vocabulary: Vocabulary,
    max_tokens: int | None = None,
    split: Split = str.split,
    *,
    longer: bool = False,
) -> list[Pair]:
    """Return the pairs of two files as ids; `longer` as in `pair_batches`.

    Raises
    ------
    LineError
        As `read_parallel` does; a word outside a closed vocabulary; for bpe, a word that ends with "@@"; a pair of
        more than `max_tokens` ids, its two end symbols included.
    """
    pairs = enumerate(read_parallel(source, target, split), 1)
    return [_encode((source, target), line, sides, vocabulary, max_tokens, longer) for line, sides in pairs]


def size_of_pair(pair: Pair, longer: bool = False) -> int:
    """Return the number of ids of both sides with their end symbols, or of the longer side.

    >>> size_of_pair((np.arange(3), np.arange(5))), size_of_pair((np.arange(3), np.arange(5)), longer=True)
    (10, 6)
    """
    sizes = [len(side) + 1 for side in pair]
    return max(sizes) if longer else sum(sizes)


def encode_pairs(
    path: str | Path, pairs: Iterable[TextPair], vocabulary: Vocabulary, max_tokens: int | None = None
) -> list[Pair]:
    """Return the pairs read from a file as ids; raises LineError as `load_parallel` does."""
    return [_encode((path, path), x.line, (x.source, x.target), vocabulary, max_tokens) for x in pairs]


def _encode(
    paths: tuple[Column, Column],
    line: int,
    sides: tuple[Sequence[str], Sequence[str]],
    vocabulary: Vocabulary,
    max_tokens: int | None,
    longer: bool = False,
) -> Pair:
    encoded = []
    for path, words in zip(paths, sides, strict=True):
        with errors_at(path, line):
            pieces = [word for word in words if word.endswith(CONTINUES)]
            if pieces and vocabulary.kind == BPE:
                raise VocabularyError(f"the word {pieces[0]!r} ends with {CONTINUES}: {_JOIN}")
            encoded.append(np.array(vocabulary.encode_words(words), np.int32))
    size = size_of_pair((encoded[0], encoded[1]), longer)
    if max_tokens is not None and size > max_tokens:
        sides = "the longer of source and target has" if longer else "source and target have"
        reason = f"{sides} {size} tokens, more than a batch may have, {max_tokens}; use --batch-size {size} or more"
        raise LineError(str(paths[1]), line, reason)
    return encoded[0], encoded[1]


def build_of_all_words(pairs: Iterable[TextPair]) -> Vocabulary:
    """Return the vocabulary of all words, with UNKNOWN for every other word."""
    words = {word for pair in pairs for side in (pair.source, pair.target) for word in side}
    return Vocabulary("unknown_classes", tuple(sorted(words | {UNKNOWN})), ())


def pair_batches(pairs: Pairs, max_tokens: int, *, ops: ModuleType, longer: bool = False, **order: Any) -> SizedBatches:
    """Return batches of at most `max_tokens` tokens, sources and targets together, each pair with its two end symbols.

    With `longer` only the longer side of each pair counts, as in Tensor2Tensor. `order` are the options of
    `SizedBatches`.
    """
    return SizedBatches(
        len(pairs),
        max_tokens,
        lambda i: size_of_pair(pairs[i], longer),
        lambda indices, _: assemble_pairs([pairs[i] for i in indices.tolist()], ops),
        names=("pair", "tokens"),
        **order,
    )


def assemble_pairs(pairs: list[Pair], ops: ModuleType) -> PairBatch:
    """Return the batch of some pairs, or of none."""
    start, end = np.array([START_ID], np.int32), np.array([END_ID], np.int32)
    arrays = {
        "source_ids": joined([x for source, _ in pairs for x in (source, end)], np.int32),
        "source_offsets": offsets_of([len(source) + 1 for source, _ in pairs]),
        "ids": joined([x for _, target in pairs for x in (start, target)], np.int32),
        "target_offsets": offsets_of([len(target) + 1 for _, target in pairs]),
        "labels": joined([x for _, target in pairs for x in (target, end)], np.int32),
    }
    of_sources, of_targets = "source_offsets", "target_offsets"
    attention = [(of_sources, of_sources), (of_targets, of_targets), (of_targets, of_sources)]
    there = on_device(ops, arrays, attention=attention, groups=["source_ids", "ids"], labels=["labels"])
    return PairBatch(**there, n_labels=len(arrays["labels"]))
