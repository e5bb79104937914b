"""Log-probabilities of the beginnings of sentences, summed over proposal trees: surprisals without a search.

Mirrors `refimpl.transformer_grammars.marginal.word_prefix_logps` (clause MARG-5). Trees with a common prefix of actions
share its rows, see `accel.data.batches.prefixes`; in the sum, too, a common prefix counts once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, islice
from types import ModuleType
from typing import Any

import numpy as np

from accel.data.batches.prefixes import alike_first
from accel.data.corpora.treebank import Corpus
from accel.data.vocabularies.vocabulary import Vocabulary
from accel.scoring.trees import event_logps
from accel.trained.ensembles import of_words
from accel.trained.opening import Model
from refimpl.trees import ActionType


def word_prefix_logps(
    ops: ModuleType, models: Sequence[Model], corpus: Corpus, groups: Sequence[int], **options: Any
) -> Iterator[np.ndarray]:
    """Yield log p of the first 1, 2, ... words [n_words] of every sentence, nats, from its proposals.

    Parameters
    ----------
    corpus, groups
        The proposals of all sentences, all different, and how many each sentence has.
    options
        Those of `accel.scoring.trees.event_logps`.

    Raises
    ------
    ValueError
        If the models are of words, a sentence has no proposals, or two proposals of a sentence have different words.
    """
    if of_words(models[0]):
        raise ValueError(f"{models[0].path}: a model of words needs no proposals")
    events = event_logps(ops, models, corpus, groups=groups, **options)
    for number, (end, count) in enumerate(zip(accumulate(groups), groups, strict=True), 1):
        if not count:
            raise ValueError(f"sentence {number}: no proposals")
        logps = dict(enumerate(islice(events, count), end - count))
        order, shared = alike_first(corpus, list(logps))
        word_ends = [_word_ends(models[0].vocabulary, corpus[tree]) for tree in order]
        if len({_words_of(models[0].vocabulary, corpus[tree]) for tree in order}) > 1:
            raise ValueError(f"sentence {number}: proposals over different words")
        totals = np.stack([np.cumsum(logps[tree])[ends] for tree, ends in zip(order, word_ends, strict=True)])
        totals[np.stack(word_ends) < np.array(shared)[:, None]] = -np.inf  # the proposal before has this prefix, too
        yield np.logaddexp.reduce(totals, axis=0)


def _words_of(vocabulary: Vocabulary, actions: np.ndarray) -> bytes:
    ids: bytes = actions[vocabulary.type_of[actions] == ActionType.T].tobytes()
    return ids


def _word_ends(vocabulary: Vocabulary, actions: np.ndarray) -> np.ndarray:
    """Return the places of the actions that are the last pieces of words."""
    pieces = np.flatnonzero(vocabulary.type_of[actions] == ActionType.T)
    ends: np.ndarray = pieces[np.append(vocabulary.begins_word[actions[pieces[1:]]], True)]
    return ends
