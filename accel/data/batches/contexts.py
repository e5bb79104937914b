"""Contexts, which hold as many whole sentences in a row as a number of tokens allows, and their batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from accel.autodiff.arrays import Array, joined, offsets_of, on_device
from accel.data.batches.order import Order, State, in_parts
from accel.data.batches.padded_contexts import padded
from accel.data.corpora.documents import Documents
from accel.data.files.lines import LineError


@dataclass(frozen=True)
class SentencesBatch:
    """R contexts of B sentences, N tokens, all joined.

    Attributes
    ----------
    ids : [N] int32
    begins_word : [N] bool
        False for the second and later pieces of a word, before which no constituent may end.
    offsets : [B+1] int64
        Where each sentence begins.
    contexts : [R+1] int64
        The first sentence of each context, and B.
    n_labels : int
        N, without the padding of a padded batch.
    words, actions : [R+1] int64, or None
        Where the words and the actions of each context begin; a sentence of n words has 2 n - 1 actions.
    sizes : [2] int64, or None
        How many words and sentences are not padding; None if the batch is not padded.
    """

    ids: Array
    begins_word: Array
    offsets: Array
    contexts: Array
    n_labels: int
    words: Array | None = None
    actions: Array | None = None
    sizes: Array | None = None

    @property
    def n_tokens(self) -> int:
        """N without the padding."""
        return self.n_labels


def sent(ops: ModuleType, arrays: Mapping[str, np.ndarray]) -> dict[str, Array]:
    """Return the arrays of a batch of contexts in a backend's memory, with `words` and `actions` of `SentencesBatch`.

    Raises ValueError if `contexts` does not rise from 0 to the number of sentences.
    """
    offsets, contexts = arrays["offsets"], arrays["contexts"]
    if contexts[0] or contexts[-1] != len(offsets) - 1 or (np.diff(contexts) < 0).any():
        raise ValueError(f"contexts: do not rise from 0 to the number of sentences, {len(offsets) - 1}")
    starts = {"words": offsets[contexts], "actions": (2 * offsets - np.arange(len(offsets)))[contexts]}
    attention = [(name, name) for name in ("offsets", "words", "actions")]
    return on_device(ops, {**arrays, **starts}, groups=["ids"], labels=["ids"], attention=attention)


def cut_contexts(
    text: Documents, max_tokens: int = 1024, *, across_documents: bool = True, one_sentence: bool = False
) -> np.ndarray:
    """Return [R+1] int64: the first sentence of each context, and the number of sentences.

    A context takes sentences as long as they fit. Unless `across_documents`, it ends with its document; with
    `one_sentence`, with its sentence.

    Raises
    ------
    LineError
        At the line of a sentence of more than `max_tokens` tokens.
    """
    if max_tokens < 1:
        raise ValueError(f"max_tokens must be at least 1, not {max_tokens}")
    begins, n_sentences = [0], len(text.lines)
    while begins[-1] < n_sentences:
        begin = begins[-1]
        limit = text.sentences[begin] + max_tokens
        end = int(np.searchsorted(text.sentences, limit, side="right")) - 1
        if end == begin:
            size = text.sentences[begin + 1] - text.sentences[begin]
            reason = f"a sentence of {size} tokens, more than a context may have, {max_tokens}"
            raise LineError(*text.place(begin), reason)
        if one_sentence:
            end = begin + 1
        elif not across_documents:
            end = min(end, int(text.documents[np.searchsorted(text.documents, begin, side="right")]))
        begins.append(end)
    return np.array(begins, np.int64)


class ContextBatches:
    """The batches of a text cut into contexts; iterate over it.

    Parameters
    ----------
    text : Documents
    batch_size : int
        Contexts of a global batch; process `rank` of `ranks` gets contexts rank, rank + ranks, ... of it.
    ops : module
        The backend that holds the arrays.
    max_tokens : int
    across_documents, one_sentence : bool
        See `cut_contexts`.
    seed : int or None
        A new order of the contexts for each epoch, drawn from (seed, epoch); None keeps the order of the text.
    epochs : int or None
        How often each context comes; None: for ever.
    micro_batch : int or None
        With a number, every batch is a list of micro-batches of at most so many contexts.
    shares_graphs : bool
        Whether batches are padded to few shapes where the backend captures training steps as CUDA graphs.
    """

    def __init__(
        self,
        text: Documents,
        batch_size: int,
        *,
        ops: ModuleType,
        max_tokens: int = 1024,
        across_documents: bool = True,
        one_sentence: bool = False,
        seed: int | None = None,
        epochs: int | None = 1,
        rank: int = 0,
        ranks: int = 1,
        micro_batch: int | None = None,
        shares_graphs: bool = False,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, not {batch_size}")
        options = {"across_documents": across_documents, "one_sentence": one_sentence}
        self._begins = cut_contexts(text, max_tokens, **options)
        self._text, self._batch_size, self._ops, self._micro_batch = text, batch_size, ops, micro_batch
        self._shares_graphs = shares_graphs and ops.xp is not np
        data = [len(self._begins) - 1, batch_size, max_tokens, int(across_documents), len(text.ids)]
        self._order = Order(data, seed, epochs, rank, ranks)

    def __len__(self) -> int:
        """Return how many batches an epoch has."""
        return -(-(len(self._begins) - 1) // self._batch_size)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        examples = self._order.take(self._batch_size)
        if examples is None:
            raise StopIteration
        return in_parts(self._order.share(examples), self._micro_batch, self._batch)

    def state(self) -> State:
        """Return the position after the last batch given, as a JSON object."""
        return self._order.state()

    def restore(self, state: State) -> None:
        """Continue at the position `state`; ValueError if it is of another seed or other data."""
        self._order.restore(state)

    def _batch(self, contexts: np.ndarray) -> SentencesBatch:
        text, firsts, ends = self._text, self._begins[contexts], self._begins[contexts + 1]
        tokens = [slice(text.sentences[a], text.sentences[b]) for a, b in zip(firsts, ends, strict=True)]
        lengths = [np.diff(text.sentences[a : b + 1]) for a, b in zip(firsts, ends, strict=True)]
        arrays = {
            "ids": joined([text.ids[part] for part in tokens], np.int32),
            "begins_word": joined([text.begins_word[part] for part in tokens], bool),
            "offsets": offsets_of(joined(lengths, np.int64)),
            "contexts": offsets_of(ends - firsts),
        }
        n_labels = len(arrays["ids"])
        if self._shares_graphs and self._ops.wants_graphs():  # known only when training begins
            arrays = padded(arrays, self._ops.padded_size)
        return SentencesBatch(**sent(self._ops, arrays), n_labels=n_labels)
