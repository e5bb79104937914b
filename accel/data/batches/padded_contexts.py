"""Batches of contexts padded to few sizes: batches of the same sizes share the CUDA graph of a training step.

The padding consists of sentences of one or two words, after all other sentences and in separate contexts. It changes
nothing for the other sentences: it has no loss, and a chart of so few words has no more steps than other charts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from accel.autodiff.arrays import offsets_of

LENGTH = 2  # words of a sentence of the padding, at most


def padded(arrays: Mapping[str, np.ndarray], size_of: Callable[[int], int]) -> dict[str, np.ndarray]:
    """Return the host arrays of a batch, padded so that its numbers of words, sentences and contexts are sizes.

    `size_of(n)` returns a size of n or more. The result also has the `sizes` of `SentencesBatch`.
    """
    offsets, contexts = arrays["offsets"], arrays["contexts"]
    n_words, n_sentences, n_contexts = int(offsets[-1]), len(offsets) - 1, len(contexts) - 1
    lengths = _lengths(n_words, n_sentences, size_of)
    most = max(LENGTH, int(np.diff(offsets[contexts]).max(initial=0))) // LENGTH  # sentences of a context
    least = -(-len(lengths) // most)
    rest = size_of(n_contexts + least) - n_contexts
    ends = n_sentences + np.minimum(most * np.arange(1, rest + 1), len(lengths))
    n_more = int(lengths.sum())
    return dict(arrays) | {
        "ids": np.concatenate([arrays["ids"], np.zeros(n_more, np.int32)]),
        "begins_word": np.concatenate([arrays["begins_word"], np.ones(n_more, bool)]),
        "offsets": np.concatenate([offsets, n_words + offsets_of(lengths)[1:]]),
        "contexts": np.concatenate([contexts, ends]),
        "sizes": np.array([n_words, n_sentences]),
    }


def _lengths(n_words: int, n_sentences: int, size_of: Callable[[int], int]) -> np.ndarray:
    """Return the number of words of each sentence of the padding, so that both totals are sizes of `size_of`.

    >>> _lengths(30, 3, lambda n: -(-n // 4) * 4)
    array([2])
    >>> _lengths(31, 4, lambda n: -(-n // 4) * 4).tolist()
    [1, 1, 1, 2]
    """
    least = 0
    while True:
        more_words = size_of(n_words + least) - n_words
        more_sentences = size_of(n_sentences + -(-more_words // LENGTH)) - n_sentences
        if more_sentences <= more_words:
            return np.diff(np.arange(more_sentences + 1) * more_words // max(1, more_sentences))
        least = more_sentences
