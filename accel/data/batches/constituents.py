"""The input of the span parser: sentences as pieces with their gold constituents, and batches of them.

The spans of a batch are in the order of the sentences; within a sentence they are ordered by length, then by position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from accel.autodiff.arrays import Array, joined, offsets_of, on_device
from accel.data.batches.sized import SizedBatches
from accel.data.corpora.constituents import Bracketed
from accel.data.files.lines import errors_at
from accel.data.vocabularies.affixes import AFFIXES, affixes_of
from accel.data.vocabularies.vocabulary import END_ID, START_ID, Vocabulary


class Encoded(NamedTuple):
    """A sentence: the ids of each word's pieces, the numbers of its affixes [n, AFFIXES], the numbers of its gold
    constituents' spans and labels, and those of its tags, -1 where a tag is unknown."""

    pieces: list[list[int]]
    affixes: np.ndarray
    spans: np.ndarray
    labels: np.ndarray
    tags: list[int] | None = None  # None: no sentence of the batch has them


@dataclass(frozen=True)
class ParserBatch:
    """B sentences of W words and S spans; each is read between a start and an end symbol, P pieces in all.

    Attributes
    ----------
    ids, words, places : [P] int32
        Every piece, the number of its word in the sentence (the start symbol has 0) and the piece's number in the word.
    bounds : [B+1] int64
        Where the pieces of each sentence begin.
    reverse : [P] int32
        The pieces of each sentence from the last to the first.
    affixes : [P, AFFIXES] int32
        The affixes of the word of every piece; 0 for the start and the end symbol.
    before, after : [W + B] int32
        For every place between two words or symbols, the last piece before it and the first piece after it.
    begins, ends : [S] int32
        The places where every span begins and ends.
    offsets : [B+1] int64
        Where the words of each sentence begin.
    spans, labels, owners : [K] int32
        The gold constituents: their spans, labels and sentences.
    n_labels : int
        B.
    tags : [P] int32, or None
        The tag of the word that ends with each piece, -1 where no word ends; None without tags.
    """

    ids: Array
    words: Array
    places: Array
    bounds: Array
    reverse: Array
    affixes: Array
    before: Array
    after: Array
    begins: Array
    ends: Array
    offsets: Array
    spans: Array
    labels: Array
    owners: Array
    n_labels: int
    tags: Array | None = None


def span_number(n: int, i: Any, j: Any) -> Any:
    """Return the number of the span (i, j), of the words i to j inclusive, in a sentence of n words.

    Examples
    --------
    >>> [span_number(3, i, j) for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (1, 2), (0, 2))]
    [0, 1, 2, 3, 4, 5]
    """
    return (j - i) * n - (j - i) * (j - i - 1) // 2 + i


def encode_bracketed(
    path: str | Path, sentences: Iterable[Bracketed], vocabulary: Vocabulary, tags: Sequence[str] = ()
) -> tuple[list[Encoded], int]:
    """Return the encoded sentences of a treebank, and the number of sentences that are left out.

    A sentence is left out if the vocabulary lacks one of its chains of labels. `tags` are the tags to learn.

    Raises
    ------
    LineError
        At the line of a tree with a word outside a closed vocabulary.
    """
    numbers = {chain: number for number, chain in enumerate(vocabulary.labels)}
    tag_numbers = {tag: number for number, tag in enumerate(tags)}
    encoded, unreachable = [], 0
    for sentence, constituents, line, of_words in sentences:
        if not all(chain in numbers for chain, _, _ in constituents):
            unreachable += 1
            continue
        with errors_at(path, line):
            pieces = [vocabulary.encode_words([word]) for word in sentence]
        spans = np.array([span_number(len(sentence), i, j) for _, i, j in constituents], np.int32)
        labels = np.array([numbers[chain] for chain, _, _ in constituents], np.int32)
        tag_ids = [tag_numbers.get(tag, -1) for tag in of_words or ()] if tags else None
        encoded.append(Encoded(pieces, affixes_of(sentence), spans, labels, tag_ids))
    return encoded, unreachable


def parser_batches(sentences: Sequence[Encoded], max_words: int, *, ops: ModuleType, **order: Any) -> SizedBatches:
    """Return batches of at most `max_words` words; `order` are the options of `SizedBatches`."""

    def assembled(indices: np.ndarray, _: int) -> ParserBatch:
        return assemble([sentences[i] for i in indices.tolist()], ops)

    return _sized(sentences, max_words, assembled, order)


def n_batches(sentences: Sequence[Encoded], max_words: int, seed: int) -> int:
    """Return how many batches of `parser_batches` the first epoch has."""
    return sum(1 for _ in _sized(sentences, max_words, lambda indices, _: None, {"seed": seed}))


def _sized(sentences: Sequence[Encoded], max_words: int, assembled: Callable[..., Any], order: Any) -> SizedBatches:
    size_of, names = lambda i: len(sentences[i].pieces), ("sentence", "words")
    return SizedBatches(len(sentences), max_words, size_of, assembled, names=names, **order)


def assemble(sentences: Sequence[Encoded], ops: ModuleType) -> ParserBatch:
    """Return the batch of some sentences, or of none."""
    words = [[[START_ID], *sentence.pieces, [END_ID]] for sentence in sentences]
    sizes = [[len(pieces) for pieces in sentence] for sentence in words]
    ends = np.cumsum([0, *(size for sentence in sizes for size in sentence)], dtype=np.int32)
    first = offsets_of(map(len, words))  # where every sentence begins among all words, at its start symbol
    is_last = np.zeros(first[-1], bool)
    is_last[first[1:] - 1] = True
    counts = np.array([len(sentence.pieces) for sentence in sentences], np.int64)
    numbers = np.arange(first[-1]) - np.repeat(first[:-1], np.diff(first))  # of every word in its sentence
    charts = [_chart(n) for n in counts.tolist()]
    spans = offsets_of(len(chart[0]) for chart in charts)
    place_starts = offsets_of(counts + 1)
    bounds, symbol, none = (
        ends[first].astype(np.int64),
        np.zeros((1, AFFIXES), np.int32),
        np.zeros((0, AFFIXES), np.int32),
    )
    affixes = [part for x in sentences for part in (symbol, x.affixes, symbol)]
    host: dict[str, Any] = {
        "ids": joined([pieces for sentence in words for pieces in sentence], np.int32),
        "words": np.repeat(numbers.astype(np.int32), np.diff(ends)),
        "places": np.arange(ends[-1], dtype=np.int32) - np.repeat(ends[:-1], np.diff(ends)),
        "bounds": bounds,
        "reverse": (np.repeat(bounds[:-1] + bounds[1:] - 1, np.diff(bounds)) - np.arange(ends[-1])).astype(np.int32),
        "affixes": np.repeat(np.concatenate([*affixes, none]), np.diff(ends), axis=0),
        "before": ends[1:][~is_last] - 1,
        "after": ends[1:][~is_last],
        "begins": joined([chart[0] + start for chart, start in zip(charts, place_starts, strict=False)], np.int32),
        "ends": joined([chart[1] + start for chart, start in zip(charts, place_starts, strict=False)], np.int32),
        "offsets": offsets_of(counts),
        "spans": joined([x.spans + first for x, first in zip(sentences, spans, strict=False)], np.int32),
        "labels": joined([x.labels for x in sentences], np.int32),
        "owners": np.repeat(np.arange(len(sentences), dtype=np.int32), [len(x.spans) for x in sentences]),
    }
    if sentences and sentences[0].tags is not None:
        host["tags"] = np.full(ends[-1], -1, np.int32)
        host["tags"][host["before"]] = joined([[-1, *(x.tags or ())] for x in sentences], np.int32)
    uses = {"attention": [("bounds", "bounds")], "groups": ["ids", "words", "begins", "ends", "owners"]}
    return ParserBatch(**on_device(ops, host, **uses, recurrence=["bounds"]), n_labels=len(sentences))


@lru_cache(maxsize=256)
def _chart(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the places where every span of n words begins and ends, in the order of spans."""
    lengths = np.repeat(np.arange(1, n + 1), np.arange(n, 0, -1))
    begins = np.concatenate([np.arange(n - length) for length in range(n)])
    return begins, begins + lengths
