"""Text for language models: one stream of words with `<eos>` after every line, and batches that read it in columns.

The vocabulary is that of the training text alone (the released code adds the words of the other texts). A word outside
is read as `<unk>` if the vocabulary has it, and is an error otherwise. A blank line is an `<eos>`, as in the texts of
WikiText.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import erfc
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from accel.autodiff.arrays import Array, joined, offsets_of, on_device
from accel.data.batches.order import State, check_rank, check_state, in_parts
from accel.data.files.lines import LineError, errors_at, read_text_lines
from accel.data.vocabularies.vocabulary import UNKNOWN, VocabularyError
from accel.data.vocabularies.words import Words, build_words

EOS = "<eos>"
_EOS_WORD = re.compile(rf"(?<!\S){EOS}(?!\S)")
_TWICE = f"{EOS} is the end of a line, which is added here: remove it"
_REMOVE = f"""awk '{{sub(/ *{EOS} *$/, ""); gsub(/ *{EOS} */, "\\n")}} 1' FILE > NEW"""
SHORTEST, SPREAD, HALVED = 5, 5.0, 0.05  # of the lengths of training batches; see `TextBatches`


@dataclass(frozen=True)
class TextBatch:
    """The next T words of each of B columns, one column after the other; the last batch may be ragged by one.

    Attributes
    ----------
    ids, labels : [N] int32
        Words, and for each the next word.
    offsets : [B+1] int64
        Where each column begins.
    n_labels : int
        N.
    rate_scale : float
        T divided by the usual length: a factor of the learning rate.
    fresh : bool
        Whether the columns begin here, so that no state is carried into this batch.
    """

    ids: Array
    labels: Array
    offsets: Array
    n_labels: int
    rate_scale: float
    fresh: bool


def read_text(path: str | Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of every line, and its words followed by `<eos>`.

    Raises
    ------
    LineError
        As `read_text_lines` does; at an `<eos>` in the text, which would be counted twice.
    """
    for number, line in read_text_lines(path):
        if EOS in line and (word := _EOS_WORD.search(line)):
            raise LineError(path, number, f"{_TWICE}: {_REMOVE}", word.start() + 1)
        yield number, [*line.split(), EOS]


def read_sentences(path: str | Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the words of every line that has words, for a parser."""
    for number, line in read_text_lines(path):
        if words := line.split():
            yield number, words


def build_text_words(path: str | Path, least: int | None = None, size: int | None = None) -> Words:
    """Return the words that the training text has `least` times or more, in the order of their first occurrence.

    By default, a text with `<unk>` gives all its words; any other text gives the words that occur twice or more, and an
    `<unk>` for the rest. With 1 and no `size`, a text without `<unk>` has a closed vocabulary. `size` is the most words
    to have.
    """
    words = build_words(words for _, words in read_text(path))
    least = least or (1 if words.unknown else 2)
    if least == 1 and size is None:
        return words
    text = (words for _, words in read_text(path))
    return build_words(text, size=size, least=least, extra=(UNKNOWN, EOS))


def encode_text(path: str | Path, words: Words) -> np.ndarray:
    """Return [n] int32: the text as ids, line after line.

    Raises
    ------
    LineError
        At the faulty line: a word outside the vocabulary of a training text without `<unk>`; as `read_text` does.
    """
    ids = array("i")
    for number, line in read_text(path):
        with errors_at(path, number):
            ids.extend(words.encode(line))
    return np.array(ids, np.int32)


def refuse_end(words: Sequence[str]) -> None:
    """Raise VocabularyError for an `<eos>` in a line, which would be counted twice."""
    if EOS in words:
        raise VocabularyError(_TWICE)


def encode_lines(lines: Iterable[Sequence[str]], words: Words) -> np.ndarray:
    """Return [n] int32: the ids of the words of every line, with that of `<eos>` after each line.

    Raises
    ------
    VocabularyError
        A word outside the vocabulary of a training text without `<unk>`; an `<eos>` in a line.
    """
    ids = array("i")
    for line in lines:
        refuse_end(line)
        ids.extend(words.encode([*line, EOS]))
    return np.array(ids, np.int32)


def mean_steps(length: int) -> float:
    """Return the mean number of steps of a training batch, whose usual length is `length`; see `TextBatches`.

    >>> [round(mean_steps(length), 2) for length in (1, 10, 70)]
    [5.5, 9.84, 67.75]
    """
    means = ((HALVED, length / 2), (1.0 - HALVED, float(length)))
    return SHORTEST + sum(
        share * 0.5 * erfc((steps - mean) / (SPREAD * 2.0**0.5))  # the probability of so many steps or more
        for share, mean in means
        for steps in range(SHORTEST + 1, int(mean + 10 * SPREAD))
    )


class TextBatches:
    """The batches of a text, which is cut into columns; iterate over it. Each word but the first is predicted once.

    The n - 1 predictions are divided among the columns; the first columns have one more if need be. A column starts
    with an empty state.

    Parameters
    ----------
    ids : [n] int32
    columns : int
        B; process `rank` of `ranks` gets columns rank, rank + ranks, ....
    ops : module
        The backend that holds the arrays.
    length : int
        T, the steps of a batch.
    seed : int or None
        With a seed, batch number s has max(5, int(x)) steps; x is normal with standard deviation 5 and mean T, or T/2
        once in twenty times, drawn from (seed, s). None: T steps, as for evaluation.
    epochs : int or None
        How often the text is read; None: for ever.
    micro_batch : int or None
        With a number, every batch is a list of micro-batches of at most so many columns.
    """

    def __init__(
        self,
        ids: np.ndarray,
        columns: int,
        *,
        ops: ModuleType,
        length: int = 70,
        seed: int | None = None,
        epochs: int | None = 1,
        rank: int = 0,
        ranks: int = 1,
        micro_batch: int | None = None,
    ) -> None:
        for name, value in (("columns", columns), ("length", length)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        check_rank(rank, ranks)
        if len(ids) <= columns:
            purpose = f" for {columns} columns (--batch-size)" if columns > 1 else ""
            at_least = f"at least {columns + 1} are needed{purpose}"
            raise ValueError(f"a text of {len(ids)} words and ends of lines is too short: {at_least}")
        self._ids, self._length, self._epochs, self._ops = ids, length, epochs, ops
        self._columns, self._micro_batch = list(range(rank, columns, ranks)), micro_batch
        shortest, more = divmod(len(ids) - 1, columns)
        self._sizes = [shortest + (column < more) for column in range(columns)]
        self._begins = np.cumsum([0, *self._sizes]).tolist()
        data = [len(ids), columns, length]
        self._state: State = {"data": data, "seed": seed, "epoch": 0, "position": 0, "step": 0}

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        epoch, begin, step = (self._state[name] for name in ("epoch", "position", "step"))
        if self._epochs is not None and epoch >= self._epochs:
            raise StopIteration
        end = begin + self._steps(step)
        if (
            end >= self._sizes[-1]
        ):  # the end of the shortest column: this is the last batch, and every column has a step in it
            epoch, position = epoch + 1, 0
            end = self._sizes[0]
        else:
            position = end
        self._state = self._state | {"epoch": epoch, "position": position, "step": step + 1}
        return in_parts(self._columns, self._micro_batch, lambda columns: self._batch(columns, begin, end))

    def state(self) -> State:
        """Return the position after the last batch given, as a JSON object."""
        return self._state

    def restore(self, state: State) -> None:
        """Continue at the position `state`; ValueError if it is of another seed or other data."""
        check_state(state, self._state)
        self._state = state

    def _steps(self, step: int) -> int:
        seed = self._state["seed"]
        if seed is None:
            return self._length
        rng = np.random.Generator(np.random.Philox(key=np.array([seed, step], np.uint64)))
        mean = self._length / 2 if rng.random() < HALVED else self._length
        return max(SHORTEST, int(rng.normal(mean, SPREAD)))

    def _batch(self, columns: list[int], begin: int, end: int) -> TextBatch:
        parts = [(self._begins[c] + begin, self._begins[c] + min(end, self._sizes[c])) for c in columns]
        offsets = offsets_of(b - a for a, b in parts)
        ids = joined([self._ids[a:b] for a, b in parts], np.int32)
        labels = joined([self._ids[a + 1 : b + 1] for a, b in parts], np.int32)
        arrays = {"ids": ids, "labels": labels, "offsets": offsets}
        arrays = on_device(self._ops, arrays, recurrence=["offsets"], groups=["ids"], labels=["labels"])
        return TextBatch(**arrays, n_labels=len(ids), rate_scale=(end - begin) / self._length, fresh=begin == 0)
