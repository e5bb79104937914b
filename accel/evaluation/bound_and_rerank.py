"""Uses of proposal trees: a bound on a language model's perplexity, and parsing by choosing the best of them.

A sentence without proposals is skipped. Models of documents read each sentence after the most probable trees of the
sentences before it (clause MARG-6).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from accel.autodiff.arrays import offsets_of
from accel.data.corpora.proposals import Draw, ProposalFile, Proposals, counts_of, read_proposals, read_single
from accel.data.corpora.sequences import encode_sentences, require_known
from accel.data.corpora.treebank import DOCUMENT, Corpus, Sentence, tags
from accel.data.vocabularies.vocabulary import Vocabulary
from accel.evaluation.evalb import EvalbParameters, Score, evalb, with_tags
from accel.evaluation.importance import perplexity_estimate, sentence_estimate
from accel.scoring.perplexity import Perplexity
from accel.scoring.trees import event_logps, of_words, tree_logps
from accel.trained.opening import Model
from refimpl.transformer_grammars.marginal import perplexity, sentence_logp
from refimpl.trees import ActionType, Tree, words

__all__ = ["Perplexity", "Proposals", "bracket_score", "choose", "proposal_logps", "read_proposals", "read_single"]
__all__ += ["word_perplexity"]


TREES = 4096
"""How many trees of a file are in memory at a time, or those of one sentence."""
Progress = Callable[[Iterable[Any], int], Iterable[Any]]  # shows the progress through an iterable of known length


def word_perplexity(
    ops: ModuleType,
    models: Sequence[Model],
    path: object,
    proposals: Proposals,
    *,
    documents: Sequence[int] | None = None,
    **options: Any,
) -> Perplexity:
    """Return the perplexity per word of the sentences that have proposals (clauses MARG-1, MARG-2 and MARG-6).

    A model of trees is summed over each sentence's proposals, which bounds its perplexity from above. A model of words
    needs no trees; its end-of-sequence event counts in log p, but not as a word. The options are those of
    `scored`.
    """
    exact = of_words(models[0])
    n_words, ranked = 0, list[tuple[float, ...]]()
    for group, of_trees in scored(ops, models, path, proposals, documents=documents, **options):
        n_words += len(words(group[0].tree)) if group else 0
        ranked.append(tuple(of_trees))
    logps = tuple(sentence_logp(of_trees) if of_trees else None for of_trees in ranked)
    counts = _counts(models[0], proposals)
    total = perplexity([logp for logp in logps if logp is not None], n_words)
    meaning = "exact" if exact else "upper bound" if documents is None else "after greedy trees"
    mean_proposals = sum(counts) / sum(count > 0 for count in counts)
    n_ends = _n_ends(logps, documents) if exact else 0
    result = sum(filter(None, logps)), n_words, logps, mean_proposals, n_ends, tuple(ranked)
    return Perplexity(total, meaning, *result)


def _n_ends(logps: Sequence[float | None], documents: Sequence[int] | None) -> int:
    """Return how many sequences are read to their end: sentences, or documents without a gap."""
    bounds = offsets_of(documents or [1] * len(logps)).tolist()
    return sum(None not in logps[begin:end] for begin, end in pairwise(bounds))


def estimate(result: Perplexity, draws: Sequence[Sequence[Draw]], *, with_replacement: bool) -> tuple[float, float]:
    """Return the perplexity that drawn trees estimate, and its standard error (IS-3).

    Parameters
    ----------
    result : Perplexity
        Of the same proposals: it holds their log-probabilities.
    draws : [S] lists of Draw
        Of every sentence, none where it is skipped.

    Raises
    ------
    ValueError
        If the perplexity is no bound from proposals: that of a model of words, or of documents.
    """
    if not result.is_bound:
        raise ValueError(f"a perplexity that is {result.meaning!r} has no estimate from drawn trees")
    estimates = [
        sentence_estimate([logps[x.tree] for x in drawn], [x.logp for x in drawn], with_replacement=with_replacement)
        for logps, drawn in zip(result.tree_logps, draws, strict=True)
        if drawn
    ]
    return perplexity_estimate(estimates, result.n_words)


def choose(
    ops: ModuleType, models: Sequence[Model], path: object, proposals: Proposals, **options: Any
) -> list[tuple[Tree, float] | None]:
    """Return every sentence's most probable proposal with its log p; ties: the first; None without proposals.

    The options are those of `scored`.
    """
    if of_words(models[0]):
        raise ValueError(
            f"{models[0].path}: a txl_terminals gives all trees of a sentence the same probability: give a tg or txl_cc"
        )
    best: list[tuple[Tree, float] | None] = []
    for group, logps in scored(ops, models, path, proposals, **options):
        number = int(np.argmax(logps)) if logps else -1
        best.append((group[number].tree, logps[number]) if logps else None)
    return best


def proposal_logps(
    ops: ModuleType, models: Sequence[Model], path: object, proposals: Proposals, **options: Any
) -> list[list[float]]:
    """Return log p of every proposal, nats; the options are those of `scored`."""
    return [logps for _, logps in scored(ops, models, path, proposals, **options)]


def scored(
    ops: ModuleType,
    models: Sequence[Model],
    path: object,
    proposals: Proposals,
    *,
    documents: Sequence[int] | None = None,
    progress: Progress = lambda results, _: results,
    **options: Any,
) -> Iterator[tuple[list[Sentence], list[float]]]:
    """Yield the proposals of every sentence with their log p, nats; common prefixes of proposals are read once.

    Those of a file are read as they are needed, a few thousand at a time, but for documents. A model of words reads the
    first proposal alone.

    Parameters
    ----------
    path
        The file that an error names if a tree cannot be encoded.
    documents : sequence of int or None
        How many sentences each document has. Then log p is that of a proposal after the most probable trees of the
        sentences before it. A document ends before its first sentence without proposals.
    options
        Those of `accel.scoring.trees.event_logps`.
    """
    exact, counts = of_words(models[0]), _counts(models[0], proposals)
    groups = (group[:1] if exact else group for group in proposals)
    if documents is not None:
        all_groups = list(groups)
        corpus = encode_sentences(path, [sentence for group in all_groups for sentence in group], models[0].vocabulary)
        places = _Places(counts, list(documents))
        parts = (_words_of_documents if exact else _greedy)(ops, models, corpus, places, **options)
        logps_of = dict(progress(parts, sum(map(len, places.sentences))))
        yield from ((group, logps_of.get(number, [])) for number, group in enumerate(all_groups))
        return
    waiting, logps = deque[list[Sentence]](), list[float]()

    def of_trees() -> Iterator[float]:
        for chunk in _chunks(groups, TREES if isinstance(proposals, ProposalFile) else sum(counts)):
            waiting.extend(chunk)
            corpus = encode_sentences(path, [sentence for group in chunk for sentence in group], models[0].vocabulary)
            if len(corpus):
                yield from tree_logps(ops, models, corpus, groups=[len(group) for group in chunk], **options)

    for logp in progress(of_trees(), sum(counts)):
        while not waiting[0]:
            yield waiting.popleft(), []
        logps.append(logp)
        if len(logps) == len(waiting[0]):
            yield waiting.popleft(), logps
            logps = []
    yield from ((group, []) for group in waiting)


def known_to(model: Model, path: Path) -> Callable[[list[Sentence]], None]:
    """Return a function that raises TreebankError for proposals that the model cannot read, as `scored` takes them."""

    def check(group: list[Sentence]) -> None:
        require_known(path, group[:1] if of_words(model) else group, model.vocabulary)

    return check


def _counts(model: Model, proposals: Proposals) -> list[int]:
    """Return how many proposals of every sentence the model reads."""
    return [min(count, 1) if of_words(model) else count for count in counts_of(proposals)]


def _chunks(groups: Iterable[list[Sentence]], most: int) -> Iterator[list[list[Sentence]]]:
    """Yield groups, several together, until they have so many trees."""
    chunk, size = list[list[Sentence]](), 0
    for group in groups:
        chunk.append(group)
        size += len(group)
        if size >= most:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


class _Places:
    """The places of the trees of sentence s, `trees[s]`, and the sentences of document d before its first gap."""

    def __init__(self, sizes: list[int], documents: list[int]) -> None:
        if sum(documents) != len(sizes):
            raise ValueError(f"documents of {sum(documents)} sentences, but there are {len(sizes)}")
        self.trees = [range(end - size, end) for size, end in zip(sizes, accumulate(sizes), strict=True)]
        self.documents = documents
        self.sentences = []
        for size, end in zip(documents, accumulate(documents), strict=True):
            document = range(end - size, end)
            self.sentences.append(document[: next((i for i, s in enumerate(document) if not self.trees[s]), size)])


def _greedy(
    ops: ModuleType, models: Sequence[Model], corpus: Corpus, places: _Places, **options: Any
) -> Iterator[tuple[int, list[float]]]:
    """Yield every sentence with log p of its proposals, the n-th sentences of all documents side by side.

    The action that opens a document counts with its first sentence, the one that closes it with its last.
    """
    vocabulary = models[0].vocabulary
    opening, closing = vocabulary.wrap(DOCUMENT, [])
    contexts = [[opening] for _ in places.documents]
    for n in range(max(map(len, places.sentences))):
        documents = [d for d, sentences in enumerate(places.sentences) if n < len(sentences)]
        groups = [places.trees[places.sentences[d][n]] for d in documents]
        ends = [[closing] if n + 1 == places.documents[d] else [] for d in documents]
        parts = [
            np.array([*contexts[d], *corpus[tree], *end], np.int32)
            for d, trees, end in zip(documents, groups, ends, strict=True)
            for tree in trees
        ]
        events = event_logps(
            ops, models, _corpus(parts, vocabulary), groups=[len(trees) for trees in groups], **options
        )
        for d, trees in zip(documents, groups, strict=True):
            begin = len(contexts[d]) if n else 0
            logps = [float(next(events)[begin:].sum()) for _ in trees]
            yield places.sentences[d][n], logps
            contexts[d] += corpus[trees[int(np.argmax(logps))]].tolist()


def _words_of_documents(
    ops: ModuleType, models: Sequence[Model], corpus: Corpus, places: _Places, **options: Any
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


def bracket_score(chosen: Sequence[Tree | None], gold: list[Tree], parameters: EvalbParameters) -> Score:
    """Return EVALB's score of the chosen trees; a sentence without one is skipped, as EVALB skips an empty line.

    EVALB needs a part-of-speech tag over every word. If the gold trees have tags, chosen trees without tags take them.
    If not, every word gets the same tag, and punctuation counts as words do.
    """
    gold_tags = [tags(tree) for tree in gold]
    if any(word_tags is None for word_tags in gold_tags):
        gold_tags = [["WORD"] * len(words(tree)) for tree in gold]
        gold = [with_tags(tree, word_tags) for tree, word_tags in zip(gold, gold_tags, strict=True)]
    if any(tree is not None and tags(tree) is None for tree in chosen):
        pairs = zip(chosen, gold_tags, strict=True)
        chosen = [None if tree is None else _tagged(tree, word_tags or []) for tree, word_tags in pairs]
    return evalb(gold, chosen, parameters)


def _tagged(tree: Tree, gold_tags: list[str]) -> Tree:
    """Return the tree with the gold tags; if the numbers of words differ, with any, so that EVALB sees the error."""
    n_words = len(words(tree))
    return with_tags(tree, gold_tags if len(gold_tags) == n_words else ["WORD"] * n_words)
