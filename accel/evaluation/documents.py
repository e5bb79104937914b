"""Log-probabilities of the proposals of documents: each sentence is read after the best trees of those before it.

Mirrors clause MARG-6. A document ends before its first sentence without proposals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, groupby
from types import ModuleType
from typing import Any

import numpy as np

from accel.autodiff.arrays import offsets_of
from accel.data.corpora.treebank import DOCUMENT, Corpus
from accel.data.vocabularies.vocabulary import Vocabulary
from accel.scoring.trees import event_logps
from accel.trained.opening import Model
from refimpl.trees import ActionType


class Places:
    """Where the trees of each sentence are in a corpus, and which sentences of each document are read.

    `trees[s]` are the places of the trees of sentence s. `sentences[d]` are the sentences of document d that precede
    its first sentence without trees. `runs[d]` are the same sentences in lists: neighbours with one tree each are one
    run, and every other sentence is a run of its own.
    """

    def __init__(self, sizes: list[int], documents: list[int]) -> None:
        self.trees = [range(end - size, end) for size, end in zip(sizes, accumulate(sizes), strict=True)]
        self.documents, self.ends = documents, list(accumulate(documents))
        self.sentences = []
        for size, end in zip(documents, self.ends, strict=True):
            document = range(end - size, end)
            self.sentences.append(document[: next((i for i, s in enumerate(document) if not self.trees[s]), size)])
        self.runs = [list(self._runs(sentences)) for sentences in self.sentences]

    def _runs(self, sentences: Iterable[int]) -> Iterator[list[int]]:
        for is_single, group in groupby(sentences, lambda s: len(self.trees[s]) == 1):
            run = list(group)
            yield from [run] if is_single else ([s] for s in run)


def greedy(
    ops: ModuleType, models: Sequence[Model], corpus: Corpus, places: Places, **options: Any
) -> Iterator[tuple[int, list[float]]]:
    """Yield every sentence with log p of its proposals; the n-th runs of all documents are read side by side.

    The action that opens a document counts with its first sentence, the action that closes it with its last.
    """
    vocabulary = models[0].vocabulary
    opening, closing = vocabulary.wrap(DOCUMENT, [])
    contexts = [[opening] for _ in places.documents]
    for n in range(max(map(len, places.runs))):
        pairs = [(d, runs[n]) for d, runs in enumerate(places.runs) if n < len(runs)]
        groups = [list(zip(*(places.trees[s] for s in run), strict=True)) for _, run in pairs]
        ends = [[closing] if run[-1] + 1 == places.ends[d] else [] for d, run in pairs]
        parts = [
            np.array([*contexts[d], *chain.from_iterable(corpus[tree] for tree in trees), *end], np.int32)
            for (d, _), group, end in zip(pairs, groups, ends, strict=True)
            for trees in group  # one tree of every sentence of the run
        ]
        events = event_logps(
            ops, models, _corpus(parts, vocabulary), groups=[len(group) for group in groups], **options
        )
        for (d, run), group in zip(pairs, groups, strict=True):
            begin = len(contexts[d]) if n else 0
            cuts = len(contexts[d]) - begin + np.cumsum([len(corpus[tree]) for tree in group[0][:-1]], dtype=np.int64)
            logps = [[float(part.sum()) for part in np.split(next(events)[begin:], cuts)] for _ in group]
            yield from zip(run, map(list, zip(*logps, strict=True)), strict=True)
            for tree in group[int(np.argmax([sum(of_trees) for of_trees in logps]))]:
                contexts[d] += corpus[tree].tolist()


def words_of_documents(
    ops: ModuleType, models: Sequence[Model], corpus: Corpus, places: Places, **options: Any
) -> Iterator[tuple[int, list[float]]]:
    """Yield every sentence with log p of its words after those of the sentences before it.

    The end of the document counts with its last sentence; the end of a document that was cut is no event.
    """
    vocabulary = models[0].vocabulary
    sequences = [
        np.concatenate([np.zeros(0, np.int32), *(corpus[places.trees[s][0]] for s in sentences)])
        for sentences in places.sentences
    ]
    documents = [d for d, sentences in enumerate(places.sentences) if sentences]
    if not documents:
        return
    events = event_logps(ops, models, _corpus([sequences[d] for d in documents], vocabulary), **options)
    for d, logps in zip(documents, events, strict=True):
        sentences = places.sentences[d]
        cuts = np.cumsum([corpus.terminals[places.trees[s][0]] for s in sentences])
        ends = [*cuts[:-1], len(logps) if len(sentences) == places.documents[d] else cuts[-1]]
        for sentence, begin, end in zip(sentences, [0, *ends], ends, strict=False):
            yield sentence, [float(logps[begin:end].sum())]


def _corpus(parts: list[np.ndarray], vocabulary: Vocabulary) -> Corpus:
    """Return the corpus of sequences of actions; its counts of words are its counts of terminals."""
    terminals = np.array([np.count_nonzero(vocabulary.type_of[part] == ActionType.T) for part in parts], np.int32)
    return Corpus(np.concatenate(parts), offsets_of(map(len, parts)), terminals, terminals)
