"""What proposal trees are for: a bound on a language model's perplexity, and parsing by choosing the best of them.

A file of proposals holds one tree a line: blank lines lie between sentences or, in the numbered form, every line begins
with its sentence's number and a tab.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from pathlib import Path
from types import ModuleType

from accel.data.tagged import encode_sentences, read_tagged, read_whole, tags
from accel.data.treebank import Reading, Sentence, TreebankError
from accel.saved import Model
from accel.score import of_words, tree_logps
from refimpl.bracket_score import EvalbParameters, Score, evalb, with_tags
from refimpl.marginal import perplexity, sentence_logp
from refimpl.trees import Tree, words

Proposals = list[list[Sentence]]  # of every sentence, its different trees
Progress = Callable[[Iterable[float], int], Iterable[float]]  # shows how far an iterable of known length is


@dataclass(frozen=True)
class Perplexity:
    """A perplexity per word, and what it is made of; an upper bound unless the model is of words."""

    perplexity: float
    is_bound: bool
    n_words: int
    sentence_logps: tuple[float, ...]  # nats
    mean_proposals: float


def read_proposals(path: str | Path, reading: Reading, *, numbered: bool = False) -> Proposals:
    """Return the proposals of every sentence, each tree once.

    Raises
    ------
    TreebankError
        As `accel.data.tagged.read_tagged` does, and at the line of a tree over other words than the sentence's first.
    """
    reading = replace(reading, documents="column" if numbered else "blank")
    proposals: Proposals = []
    for _, group in groupby(read_tagged(path, reading), key=lambda sentence: sentence.document):
        first, *others = group
        different = {first.tree: first}
        for sentence in others:
            if words(sentence.tree) != words(first.tree):
                reason = f"other words than the sentence's first proposal has, line {first.line}"
                raise TreebankError(path, sentence.line, 0, reason)
            different.setdefault(sentence.tree, sentence)
        proposals.append(list(different.values()))
    return proposals


def read_single(path: str | Path, reading: Reading) -> Proposals:
    """Return the trees of a treebank, each the only proposal of its sentence or document."""
    return [[sentence] for sentence in read_whole(path, reading)]


def word_perplexity(
    ops: ModuleType,
    models: Sequence[Model],
    path: str | Path,
    proposals: Proposals,
    *,
    progress: Progress = lambda logps, _: logps,
    **options: object,
) -> Perplexity:
    """Return the perplexity per word of the sentences (clauses MARG-1 and MARG-2).

    A model of trees is summed over each sentence's proposals, which bounds its perplexity from above; a model of words
    needs no trees, and its end-of-sequence event counts in log p, but not as a word.
    """
    exact = of_words(models[0])
    used = [group[:1] for group in proposals] if exact else proposals
    logps = [sentence_logp(group) for group in proposal_logps(ops, models, path, used, progress=progress, **options)]
    n_words = sum(len(words(group[0].tree)) for group in proposals)
    mean = sum(map(len, used)) / len(used)
    return Perplexity(perplexity(logps, n_words), not exact, n_words, tuple(logps), mean)


def choose(
    ops: ModuleType,
    models: Sequence[Model],
    path: str | Path,
    proposals: Proposals,
    *,
    progress: Progress = lambda logps, _: logps,
    **options: object,
) -> list[Tree]:
    """Return every sentence's most probable proposal, the first of equals."""
    if of_words(models[0]):
        raise ValueError(f"{models[0].path}: a txl_terminals gives all trees of a sentence the same probability")
    ranked = proposal_logps(ops, models, path, proposals, progress=progress, **options)
    return [group[logps.index(max(logps))].tree for group, logps in zip(proposals, ranked, strict=True)]


def proposal_logps(
    ops: ModuleType,
    models: Sequence[Model],
    path: str | Path,
    proposals: Proposals,
    *,
    progress: Progress = lambda logps, _: logps,
    **options: object,
) -> list[list[float]]:
    """Return log p of every proposal, nats; what proposals of a sentence begin with alike is read once.

    `path` is named where a tree cannot be encoded; `options` are those of `accel.score.event_logps`.
    """
    flat = [sentence for group in proposals for sentence in group]
    corpus = encode_sentences(path, flat, models[0].vocabulary)
    found = tree_logps(ops, models, corpus, groups=[len(group) for group in proposals], **options)
    logps = list(progress(found, len(flat)))
    ends = list(accumulate(map(len, proposals)))
    return [logps[end - len(group) : end] for group, end in zip(proposals, ends, strict=True)]


def bracket_score(chosen: list[Tree], gold: list[Tree], parameters: EvalbParameters) -> Score:
    """Return EVALB's score of the chosen trees.

    EVALB wants a part-of-speech tag over every word. If the gold trees have them, chosen trees without take the gold
    ones; if not, every word gets the same tag, and punctuation counts as words do.
    """
    gold_tags = [tags(tree) for tree in gold]
    if any(found is None for found in gold_tags):
        gold_tags = [["WORD"] * len(words(tree)) for tree in gold]
        gold = [with_tags(tree, given) for tree, given in zip(gold, gold_tags, strict=True)]
    if any(tags(tree) is None for tree in chosen):
        chosen = [_tagged(tree, given or []) for tree, given in zip(chosen, gold_tags, strict=True)]
    return evalb(gold, chosen, parameters)


def _tagged(tree: Tree, gold_tags: list[str]) -> Tree:
    """Return the tree with tags; with other numbers of words EVALB has to see that, whatever the tags are."""
    n_words = len(words(tree))
    return with_tags(tree, gold_tags if len(gold_tags) == n_words else ["WORD"] * n_words)
