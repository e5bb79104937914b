"""Sentences with masked tokens, for an ALBERT: each between its first and its last symbol."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from accel.autodiff.arrays import joined, offsets_of
from accel.data.batches.sentences import Examples, SentenceBatch, sentence_batch
from accel.data.batches.sized import SizedBatches
from accel.data.files.lines import LineError, read_text_lines
from accel.data.vocabularies.albert import FIRST, MASK, SEPARATOR, AlbertPieces

SHARE, READ_AS_MASK, READ_AS_OTHER = 0.15, 0.8, 0.1
"""The share of the tokens that are predicted; of these, the shares that are read as MASK and as a random token."""


def read_masked_text(path: str | Path, pieces: AlbertPieces, most: int) -> tuple[list[np.ndarray], int]:
    """Return the ids of every line that has words, with its symbols, cut to `most` tokens, and how many lines were cut.

    Raises
    ------
    LineError
        As `read_text_lines` does; if no line has tokens.
    """
    first, separator = pieces.ids[FIRST], pieces.ids[SEPARATOR]
    encoded = [ids for _, line in read_text_lines(path) if (ids := pieces.encode_words(line.split()))]
    if not encoded:
        raise LineError(path, 0, "no tokens in this file")
    sentences = [np.array([first, *ids[: most - 2], separator], np.int32) for ids in encoded]
    return sentences, sum(len(ids) > most - 2 for ids in encoded)


def masked_batches(
    sentences: list[np.ndarray], max_tokens: int, pieces: AlbertPieces, mask_seed: int, *, ops: ModuleType, **order: Any
) -> SizedBatches:
    """Return batches of at most `max_tokens` tokens; the masks depend on the seed, the epoch and the sentence.

    So they are new in every epoch, and do not depend on how a batch is divided into micro-batches or among processes.
    `order` are the options of `SizedBatches`. A batch is a `SentenceBatch` with a label for every token, -1 for those
    that are not predicted.
    """

    def assemble(indices: np.ndarray, epoch: int) -> SentenceBatch:
        rows = [_masked(sentences[i], pieces, np.random.default_rng([mask_seed, epoch, i])) for i in indices.tolist()]
        ids, labels = (joined([row[side] for row in rows], np.int32) for side in (0, 1))
        arrays = {"ids": ids, "offsets": offsets_of([len(row) for row, _ in rows]), "labels": labels}
        return sentence_batch(ops, arrays, int((labels >= 0).sum()))

    return SizedBatches(
        len(sentences), max_tokens, lambda i: len(sentences[i]), assemble, names=("sentence", "tokens"), **order
    )


def _masked(ids: np.ndarray, pieces: AlbertPieces, draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the tokens of a sentence as the model reads them, and the labels.

    On average, the share SHARE of the tokens has labels; at least one token has one.
    """
    of_text = np.flatnonzero(~np.isin(ids, [pieces.ids[FIRST], pieces.ids[SEPARATOR]]))
    predicted = draw.permutation(of_text)[: max(1, int(SHARE * len(of_text) + draw.random()))]
    labels, inputs = np.full_like(ids, -1), ids.copy()
    labels[predicted] = ids[predicted]
    how = draw.random(len(predicted))
    inputs[predicted[how < READ_AS_MASK]] = pieces.ids[MASK]
    other = predicted[(how >= READ_AS_MASK) & (how < READ_AS_MASK + READ_AS_OTHER)]
    inputs[other] = draw.integers(max(pieces.ids.values()) + 1, len(pieces), len(other))
    return inputs, labels


def between_symbols(examples: Examples, pieces: AlbertPieces) -> Examples:
    """Return examples with FIRST before each, and SEPARATOR after each of their sentences."""
    begin, end = examples.offsets[: -1 : examples.width], examples.offsets[1:]
    symbols = [pieces.ids[SEPARATOR]] * len(end) + [pieces.ids[FIRST]] * len(begin)
    ids = np.insert(examples.ids, np.concatenate([end, begin]), symbols)
    lengths = examples.lengths + 1
    lengths[:, 0] += 1
    return Examples(ids, offsets_of(lengths.ravel()), examples.labels, examples.width)


def words_of(examples: Iterable[Any]) -> Iterable[str]:
    """Yield every sentence of examples as a line, to train pieces on."""
    return (" ".join(sentence) for example in examples for sentence in example.sentences)
