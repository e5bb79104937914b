"""Sentences and pairs of sentences with a class: their encoding and their batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite, nan
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from accel.autodiff.arrays import Array, joined, offsets_of, on_device
from accel.data.batches.contexts import sent
from accel.data.batches.order import Order, State, in_parts
from accel.data.files.lines import LineError, errors_at
from accel.data.vocabularies.vocabulary import END_ID, START_ID


class Example(NamedTuple):
    """The words of one sentence, or of two, with the name of their class or their score, and the line in the file."""

    label: str
    sentences: tuple[list[str], ...]
    line: int


@dataclass(frozen=True)
class Examples:
    """Encoded examples, each of `width` sentences (1, or 2 for pairs).

    Attributes
    ----------
    ids : [N] int32
        Words of all sentences, those of one example one after the other.
    offsets : [n * width + 1] int64
        Where each sentence begins.
    labels : [n] int32
        Classes; float32 where they are scores.
    """

    ids: np.ndarray
    offsets: np.ndarray
    labels: np.ndarray
    width: int

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def lengths(self) -> np.ndarray:
        """The words of every sentence [n, width]."""
        return np.diff(self.offsets).reshape(len(self), self.width)

    @property
    def sizes(self) -> np.ndarray:
        """The tokens of every example [n] with the symbols of a model: one for each sentence, and one more."""
        return self.lengths.sum(axis=1) + self.width + 1


@dataclass(frozen=True)
class SentenceBatch:
    """B examples: S sentences joined, S = B, or 2 B for pairs: first all left ones, then all right ones.

    Attributes
    ----------
    ids : [N] int32
    offsets : [S+1] int64
        Where each sentence begins.
    labels : [B] int32, or float32
    n_labels : int
        B.
    """

    ids: Array
    offsets: Array
    labels: Array
    n_labels: int


@dataclass(frozen=True)
class ContextsBatch:
    """B examples, each a separate context: N tokens of S sentences, joined.

    `<s>` stands between the two sentences of a pair; `</s>` follows the last sentence, and the class is read off the
    state at `</s>`. A final `<s>` is the token that follows `</s>`. Each of these symbols is a sentence of one token.

    Attributes
    ----------
    ids : [N] int32
    offsets : [S+1] int64
        Where each sentence begins.
    contexts : [B+1] int64
        The first sentence of each context, and S.
    labels : [B] int32, or float32
    n_labels : int
        B.
    words, actions : [B+1] int64, or None
        See `SentencesBatch`.
    """

    ids: Array
    offsets: Array
    contexts: Array
    labels: Array
    n_labels: int
    words: Array | None = None
    actions: Array | None = None


def encode_examples(
    path: str | Path,
    examples: Iterable[Example],
    encode: Callable[[list[str]], Sequence[int]],
    classes: tuple[str, ...],
    width: int,
) -> Examples:
    """Return the examples read from `path` with words and classes as numbers; `classes` are in order of number.

    Without `classes` the labels are scores.

    Raises
    ------
    LineError
        At the faulty line: an empty sentence, a class that is none of `classes`, a label that is no score, a word
        outside a closed vocabulary; and if there are no examples.
    """
    numbers = {name: i for i, name in enumerate(classes)}
    ids: list[int] = []
    lengths: list[int] = []
    labels: list[float] = []
    for label, sentences, line in examples:
        if classes and label not in numbers:
            raise LineError(path, line, f"unknown label {label!r}: it must be one of {' '.join(classes)}")
        labels.append(numbers[label] if classes else _score(path, line, label))
        for sentence in sentences:
            if not sentence:
                raise LineError(path, line, "an empty sentence")
            with errors_at(path, line):
                encoded = encode(sentence)
            ids += encoded
            lengths.append(len(encoded))
    if not labels:
        raise LineError(path, 0, "no examples in this file")
    kind = np.int32 if classes else np.float32
    return Examples(np.array(ids, np.int32), offsets_of(lengths), np.array(labels, kind), width)


def _score(path: str | Path, line: int, label: str) -> float:
    try:
        score = float(label)
    except ValueError:
        score = nan
    if not isfinite(score):
        raise LineError(path, line, f"score {label!r}: it must be a number")
    return score


def without_long(examples: Examples, most: int) -> Examples:
    """Return the examples of at most `most` tokens, the symbols of a model included."""
    is_short = examples.sizes <= most
    lengths = examples.lengths
    ids = examples.ids[np.repeat(is_short, lengths.sum(axis=1))]
    return replace(examples, ids=ids, offsets=offsets_of(lengths[is_short].ravel()), labels=examples.labels[is_short])


def cut_long(examples: Examples, most: int) -> tuple[Examples, int]:
    """Return the examples, cut to at most `most` tokens with the symbols of a model, and how many were cut.

    Words are cut one by one from the end of an example's longest sentence. Raises ValueError if `most` has no room for
    a word of every sentence.
    """
    lengths, room = examples.lengths, most - examples.width - 1
    if room < examples.width:
        raise ValueError(f"{most} tokens have no room for {examples.width + 1} symbols and a word of every sentence")
    is_long = examples.sizes > most
    for row in np.flatnonzero(is_long):
        while lengths[row].sum() > room:
            lengths[row, lengths[row].argmax()] -= 1
    sizes = lengths.ravel()
    offsets = offsets_of(sizes)
    source = np.arange(offsets[-1]) + np.repeat(examples.offsets[:-1] - offsets[:-1], sizes)
    return replace(examples, ids=examples.ids[source], offsets=offsets), int(is_long.sum())


def joined_examples(parts: Sequence[Examples]) -> Examples:
    """Return the examples of all parts, one part after the other."""
    ids, labels = (np.concatenate([getattr(part, name) for part in parts]) for name in ("ids", "labels"))
    return Examples(ids, offsets_of(np.concatenate([part.lengths.ravel() for part in parts])), labels, parts[0].width)


class SentenceBatches:
    """The batches of labelled sentences; iterate over it. The last batch of an epoch may be smaller.

    Parameters
    ----------
    examples : Examples
    batch_size : int
        Examples of a global batch; process `rank` of `ranks` gets examples rank, rank + ranks, ... of it.
    ops : module
        The backend that holds the arrays.
    seed : int or None
        A new order for each epoch, drawn from (seed, epoch); None keeps the order of the file.
    epochs : int or None
        How often each example comes; None: for ever.
    in_contexts : bool
        Whether a batch is a `ContextsBatch` instead of a `SentenceBatch`.
    micro_batch : int or None
        With a number, every batch is a list of micro-batches of at most so many examples.
    charts : sequence of int or None
        The heights of the charts that a model builds over the sentences; None: a whole chart. A GPU gets the layout of
        these charts with the batch.
    """

    def __init__(
        self,
        examples: Examples,
        batch_size: int,
        *,
        ops: ModuleType,
        seed: int | None = None,
        epochs: int | None = 1,
        rank: int = 0,
        ranks: int = 1,
        in_contexts: bool = False,
        micro_batch: int | None = None,
        charts: Sequence[int | None] = (),
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, not {batch_size}")
        self._order = Order([len(examples), len(examples.ids)], seed, epochs, rank, ranks)
        self._examples, self._batch_size, self._ops = examples, batch_size, ops
        side_by_side = partial(_side_by_side, charts=charts)
        self._assemble, self._micro_batch = _in_contexts if in_contexts else side_by_side, micro_batch

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        numbers = self._order.take(self._batch_size)
        if numbers is None:
            raise StopIteration
        assemble = partial(self._assemble, self._examples, self._ops)
        return in_parts(self._order.share(numbers), self._micro_batch, assemble)

    def state(self) -> State:
        """Return the position after the last batch given, as a JSON object."""
        return self._order.state()

    def restore(self, state: State) -> None:
        """Continue at the position `state`; ValueError if it is of another seed or other data."""
        self._order.restore(state)


def _side_by_side(
    examples: Examples, ops: ModuleType, indices: np.ndarray, charts: Sequence[int | None]
) -> SentenceBatch:
    sentences = np.concatenate([indices * examples.width + side for side in range(examples.width)])
    begin = examples.offsets[sentences]
    lengths = examples.offsets[sentences + 1] - begin
    offsets = offsets_of(lengths)
    source = np.arange(offsets[-1]) + np.repeat(begin - offsets[:-1], lengths)
    arrays = {"ids": examples.ids[source], "offsets": offsets, "labels": examples.labels[indices]}
    return sentence_batch(ops, arrays, len(indices), charts)


def sentence_batch(
    ops: ModuleType, arrays: dict[str, np.ndarray], n_labels: int, charts: Sequence[int | None] = ()
) -> SentenceBatch:
    """Return the batch of these arrays in the memory of a backend; `charts` as in `SentenceBatches`."""
    labels = ["labels"] if arrays["labels"].dtype == np.int32 else []  # otherwise scores
    is_class = bool(labels) and int(arrays["labels"].min(initial=0)) >= 0
    uses: dict[str, Any] = {"attention": [("offsets", "offsets")], "recurrence": ["offsets"]}
    uses |= {"groups": ["ids", *labels] if is_class else ["ids"], "charts": [("offsets", height) for height in charts]}
    return SentenceBatch(**on_device(ops, arrays, **uses, labels=labels), n_labels=n_labels)


def _in_contexts(examples: Examples, ops: ModuleType, indices: np.ndarray) -> ContextsBatch:
    separator, closing = np.array([START_ID], np.int32), np.array([END_ID], np.int32)
    parts: list[np.ndarray] = []
    for number in indices.tolist():
        for sentence in range(number * examples.width, (number + 1) * examples.width):
            parts += [examples.ids[slice(*examples.offsets[sentence : sentence + 2])], separator]
        parts[-1:] = [closing, separator]
    ids = joined(parts, np.int32)
    contexts = np.arange(len(indices) + 1) * (2 * examples.width + 1)
    offsets, labels = offsets_of([len(part) for part in parts]), examples.labels[indices]
    arrays = {"ids": ids, "offsets": offsets, "contexts": contexts, "labels": labels}
    return ContextsBatch(**sent(ops, arrays), n_labels=len(indices))
