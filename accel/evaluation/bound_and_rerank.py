"""Uses of proposal trees: a bound on a language model's perplexity, and parsing by choosing the best of them.

A sentence without proposals is skipped. Models of documents read each sentence after the most probable trees of the
sentences before it (clause MARG-6).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from accel.autodiff.arrays import offsets_of
from accel.data.corpora.gathered import Draw
from accel.data.corpora.proposals import Proposals, counts_of
from accel.data.corpora.sequences import encode_sentences, require_known
from accel.data.corpora.treebank import Corpus, Sentence, tags
from accel.data.files.brackets import without_preterminals
from accel.evaluation.documents import Places, greedy, words_of_documents
from accel.evaluation.evalb import Score, evalb
from accel.evaluation.evalb_input import EvalbParameters, with_tags
from accel.evaluation.importance import perplexity_estimate, sentence_estimate
from accel.scoring.perplexity import Perplexity
from accel.scoring.trees import tree_logps
from accel.trained.ensembles import of_words
from accel.trained.opening import Model
from accel.trained.processes import results
from refimpl.transformer_grammars.marginal import perplexity, sentence_logp
from refimpl.trees import Tree, spans, words

TREES = 512
"""Sentences or documents are scored in groups of at least this many trees; of a file, only one group is in memory."""
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
        n_words += len(words(group[0].tree)) if of_trees else 0
        ranked.append(tuple(of_trees))
    logps = tuple(sentence_logp(of_trees) if of_trees else None for of_trees in ranked)
    counts = list(map(len, ranked))
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
        The perplexity over the same proposals, with their log-probabilities.
    draws : [S] lists of Draw
        The draws of every sentence; an empty list for a skipped sentence.

    Raises
    ------
    ValueError
        If the perplexity is no bound from proposals, but that of a model of words or of documents.
    """
    if not result.is_bound:
        raise ValueError(f"a perplexity that is {result.meaning!r} has no estimate from drawn trees")
    estimates = [
        sentence_estimate([logps[x.tree] for x in sample], [x.logp for x in sample], with_replacement=with_replacement)
        for logps, sample in zip(result.tree_logps, draws, strict=True)
        if sample
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
    processes: int = 1,
    **options: Any,
) -> Iterator[tuple[list[Sentence], list[float]]]:
    """Yield the proposals of every sentence with their log p, nats; common prefixes of proposals are read once.

    The proposals of a file are read when they are needed, a few hundred at a time, or those of a whole document. A
    model of words reads the first proposal alone.

    Parameters
    ----------
    path
        The file that the error names if a tree cannot be encoded.
    documents : sequence of int or None
        How many sentences each document has. Then a proposal's log p is that after the most probable trees of the
        sentences before it. A document ends before its first sentence without proposals.
    progress : function
        Takes the results and the number of sentences, and returns the results.
    processes : int
        How many processes score, with one thread each; this changes no result.
    options
        Those of `accel.scoring.trees.event_logps`.
    """
    exact, counts = of_words(models[0]), _counts(models[0], proposals)
    if documents is not None and sum(documents) != len(counts):
        raise ValueError(f"documents of {sum(documents)} sentences, but there are {len(counts)}")
    groups = (group[:1] if exact else group for group in proposals)
    waiting = deque[list[Sentence]]()

    def jobs() -> Iterator[_Job]:
        for sizes, chunk in _chunks(groups, [1] * len(counts) if documents is None else documents):
            waiting.extend(chunk)
            corpus = encode_sentences(path, [sentence for group in chunk for sentence in group], models[0].vocabulary)
            yield _Job(corpus, [len(group) for group in chunk], None if documents is None else sizes)

    def logps(job: _Job) -> list[list[float]]:
        return _job_logps(ops, models, job, **options)

    of_sentences = chain.from_iterable(results(logps, jobs(), ops, processes))
    for of_sentence in progress(of_sentences, len(counts)):
        yield waiting.popleft(), of_sentence


class _Job(NamedTuple):
    """Sentences that are scored together: their proposals, how many each has, and the lengths of their documents."""

    corpus: Corpus
    counts: list[int]
    documents: list[int] | None


def _job_logps(ops: ModuleType, models: Sequence[Model], job: _Job, **options: Any) -> list[list[float]]:
    """Return log p of the proposals of every sentence."""
    if not len(job.corpus):
        return [[] for _ in job.counts]
    if job.documents is None:
        logps = tree_logps(ops, models, job.corpus, groups=job.counts, **options)
        return [list(islice(logps, count)) for count in job.counts]
    scorer = words_of_documents if of_words(models[0]) else greedy
    logps_of = dict(scorer(ops, models, job.corpus, Places(job.counts, job.documents), **options))
    return [logps_of.get(number, []) for number in range(len(job.counts))]


def known_to(model: Model, path: Path) -> Callable[[list[Sentence]], None]:
    """Return a function that raises LineError for proposals that the model cannot read, as `scored` takes them."""

    def check(group: list[Sentence]) -> None:
        require_known(path, group[:1] if of_words(model) else group, model.vocabulary)

    return check


def _counts(model: Model, proposals: Proposals) -> list[int]:
    """Return how many proposals of every sentence the model reads."""
    return [min(count, 1) if of_words(model) else count for count in counts_of(proposals)]


def _chunks(
    groups: Iterable[list[Sentence]], documents: Sequence[int]
) -> Iterator[tuple[list[int], list[list[Sentence]]]]:
    """Yield documents, several together until they have `TREES` trees: their numbers of sentences, and proposals.

    A sentence without proposals counts as one tree.
    """
    stream, sizes, chunk, n_trees = iter(groups), list[int](), list[list[Sentence]](), 0
    for size in documents:
        sizes.append(size)
        chunk += (document := list(islice(stream, size)))
        n_trees += sum(max(len(group), 1) for group in document)
        if n_trees >= TREES:
            yield sizes, chunk
            sizes, chunk, n_trees = [], [], 0
    if chunk:
        yield sizes, chunk


def bracket_score(parses: Sequence[Tree | None], gold: list[Tree], parameters: EvalbParameters) -> Score:
    """Return EVALB's score of the parses; a sentence without one is skipped, as EVALB skips an empty line.

    EVALB needs a part-of-speech tag over every word. If the gold trees have tags, words of parses without a tag
    take the gold tags (EVIN-5). If not, every word gets the tag "WORD", in place of the tags of parses, and
    punctuation counts as words do. If gold trees have tags (`has_tags`), but a word has none, it gets "WORD".
    """
    if any(tags(tree) is None for tree in gold) and has_tags(gold):
        tag_labels = _tag_labels(gold)
        gold = [_completed(tree, tag_labels) for tree in gold]
    gold_tags = [word_tags for tree in gold if (word_tags := tags(tree)) is not None]
    if len(gold_tags) < len(gold):
        gold_tags = [["WORD"] * len(words(tree)) for tree in gold]
        trees = [tree for tree in parses if tree is not None]
        over = {label for tree in trees for label in _over_single_words(tree).values()}
        tag_labels = over - {label for tree in gold for label, _, _ in spans(tree)}
        if _is_tagged(trees, tag_labels) and all(tags(tree) is not None for tree in trees):
            parses = [tree and without_preterminals(tree) for tree in parses]
        gold = [with_tags(tree, word_tags) for tree, word_tags in zip(gold, gold_tags, strict=True)]
    phrases = {label for tree in gold for label, _, _ in spans(without_preterminals(tree))} - _tag_labels(gold)
    trees = [tree for tree in parses if tree is not None]
    is_tagged = _is_tagged(trees, set(chain(*gold_tags)) - phrases)  # or else a bracket over one word is a phrase
    pairs = zip(parses, gold_tags, strict=True)
    tagged = [tree and _tagged(tree, word_tags, phrases if is_tagged else None) for tree, word_tags in pairs]
    return evalb(gold, tagged, parameters)


def has_tags(trees: Sequence[Tree]) -> bool:
    """Return whether gold trees have part-of-speech tags: three quarters of the words do, or half and a chain is there.

    In trees with tags, a phrase of one word and its tag are a chain. In others, such a phrase looks like a tag.
    """
    has_chain = any(len(_over_single_words(tree)) < sum(i == j for _, i, j in spans(tree)) for tree in trees)
    return _is_tagged(trees, _tag_labels(trees), 0.5 if has_chain else 0.75)


def _tag_labels(trees: Sequence[Tree]) -> set[str]:
    """Return the labels that are more often the innermost one over a single word than anything else."""
    innermost = Counter(label for tree in trees for label in _over_single_words(tree).values())
    every = Counter(label for tree in trees for label, _, _ in spans(tree))
    return {label for label, count in innermost.items() if 2 * count > every[label]}


def _completed(tree: Tree, tag_labels: Container[str]) -> Tree:
    """Return a gold tree in which the words without a tag have the tag "WORD"."""
    over = _over_single_words(tree)
    return with_tags(tree, [None if over.get(n) in tag_labels else "WORD" for n in range(len(words(tree)))])


def _is_tagged(trees: Sequence[Tree], tag_labels: Container[str], share: float = 0.5) -> bool:
    """Return whether more than this share of the words have a tag with one of the labels."""
    n_tagged = sum(label in tag_labels for tree in trees for label in _over_single_words(tree).values())
    return n_tagged > share * sum(len(words(tree)) for tree in trees)


def _tagged(tree: Tree, gold_tags: list[str], phrases: Container[str] | None) -> Tree:
    """Return the tree with the gold tags; with `phrases`, the labels of phrases, a word that has a tag keeps it.

    If the numbers of words differ, the tag "WORD" replaces the gold tags, so that EVALB reports the error.
    """
    n_words = len(words(tree))
    word_tags: list[str | None] = [*gold_tags] if len(gold_tags) == n_words else ["WORD"] * n_words
    for number, label in _over_single_words(tree).items():
        if phrases is not None and label not in phrases:
            word_tags[number] = None
    return with_tags(tree, word_tags)


def _over_single_words(tree: Tree) -> dict[int, str]:
    """Return the labels of the innermost brackets over single words."""
    return {begin: label for label, begin, end in spans(tree) if begin == end}
