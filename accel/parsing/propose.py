"""Proposal trees of a trained span parser: the most probable trees of a sentence, or drawn ones, all different.

Other models sum over them or choose the best of them (Transformer Grammars, 3.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from accel.autodiff.arrays import Array, host
from accel.autodiff.seeds import mix
from accel.cpu.support.tree_sampling import sample_trees
from accel.data.batches.constituents import Encoded, assemble
from accel.data.corpora.constituents import Constituent, constituents, tree_of, without_brackets
from accel.data.corpora.treebank import Reading, read_sentences, without_tags
from accel.data.files.lines import read_word_lines
from accel.data.vocabularies.affixes import affixes_of
from accel.models.transformer_grammars import span_parser
from accel.trained.kinds import PROPOSALS, require
from accel.trained.opening import Model
from accel.trained.options import check_number
from accel.trained.processes import results
from accel.trained.words import as_in_trees, encode_words
from refimpl.trees import Tree, words

Parse = tuple[list[Constituent], float]  # a tree's constituents, and its log q


class Sentence(NamedTuple):
    """The words of a sentence and the number of its first line.

    A sentence of a treebank also has its tree, with tags, and its constituents.
    """

    words: list[str]
    line: int
    tree: Tree | None = None
    constituents: tuple[Constituent, ...] = ()


def propose(
    ops: ModuleType,
    model: Model,
    sentences: Sequence[Sequence[str]],
    count: int,
    *,
    batch_size: int = 16,
    processes: int = 1,
) -> Iterator[list[tuple[Tree, float]]]:
    """Yield for every sentence its `count` most probable trees with log q(tree | sentence), nats, best first.

    No tree comes twice; a sentence with fewer trees gets all of them. `batch_size` changes results by rounding alone;
    `processes`, which have one thread each, change no result.

    Raises
    ------
    ValueError
        If the model is no parser or `count` is below 1. With the number of the sentence, if a sentence is empty, longer
        than the model reads, or has a word outside a closed vocabulary.
    """
    ranked = parses(ops, model, sentences, count, batch_size=batch_size, processes=processes)
    for sentence, best in zip(sentences, ranked, strict=True):
        yield [(tree_of(tree, sentence), logq) for tree, logq in best]


def parses(
    ops: ModuleType, model: Model, sentences: Sequence[Sequence[str]], count: int, **side_by_side: int
) -> Iterator[list[Parse]]:
    """Yield the proposals of `propose`, each as the constituents of its tree; the options are those of `propose`."""
    chains = model.vocabulary.labels

    def best(batch: Any, scores: Array, _: int) -> Iterator[list[Parse]]:
        logz = host(ops.span_logz(scores, batch.offsets)[0]).tolist()
        best = ops.best_trees(scores, batch.offsets, count)
        first, values, bounds, spans, labels = (host(x).tolist() for x in best)
        all_constituents = [(chains[label], i, j) for (i, j), label in zip(spans, labels, strict=True)]
        for number, total in enumerate(logz):
            trees = range(first[number], first[number + 1])
            yield [(all_constituents[bounds[tree] : bounds[tree + 1]], values[tree] - total) for tree in trees]

    return _of_batches(best, ops, model, sentences, count, **side_by_side)


def sampled_parses(
    ops: ModuleType, model: Model, sentences: Sequence[Sequence[str]], count: int, seed: int, **side_by_side: int
) -> Iterator[list[Parse]]:
    """Yield for every sentence `count` trees drawn without replacement, in that order (SP-5).

    Each tree is given by its constituents and the log-probability, in nats, that it is among the drawn trees. The seed
    of a sentence follows from `seed` and its place. The CPU draws the trees, whatever the backend is. Options and
    errors are those of `propose`.
    """
    chains = model.vocabulary.labels

    def drawn(batch: Any, scores: Array, start: int) -> Iterator[list[Parse]]:
        offsets = host(batch.offsets)
        sentence_seeds = [mix(seed, start + number) for number in range(len(offsets) - 1)]
        for logps, sizes, triples in sample_trees(host(scores), offsets, count, np.array(sentence_seeds, np.uint64)):
            trees = np.split(triples, np.cumsum(sizes)[:-1])
            yield [
                ([(chains[label], i, j) for i, j, label in tree.tolist()], logp)
                for tree, logp in zip(trees, logps.tolist(), strict=True)
            ]

    return _of_batches(drawn, ops, model, sentences, count, **side_by_side)


def _of_batches(
    trees_of: Callable[[Any, Array, int], Iterable[list[Parse]]],
    ops: ModuleType,
    model: Model,
    sentences: Sequence[Sequence[str]],
    count: int,
    *,
    batch_size: int = 16,
    processes: int = 1,
) -> Iterator[list[Parse]]:
    """Yield the trees of every sentence; `trees_of` takes a batch, its scores and the number of its first sentence."""
    require(model, PROPOSALS)
    for name, value in (("count", count), ("batch_size", batch_size)):
        check_number(name, value)

    def of_batch(start: int) -> list[list[Parse]]:
        chunk = enumerate(sentences[start : start + batch_size], start + 1)
        batch = assemble([_encoded(model, sentence, number) for number, sentence in chunk], ops)
        scores = span_parser.span_scores(ops, model.config, model.parameters, batch)
        return list(trees_of(batch, scores, start))

    starts = range(0, len(sentences), batch_size)
    yield from chain.from_iterable(results(of_batch, starts, ops, processes))


def _encoded(model: Model, sentence: Sequence[str], number: int) -> Encoded:
    no_constituents = np.zeros(0, np.int32)
    try:
        return Encoded(
            encode_words(model, sentence), affixes_of(as_in_trees(model, sentence)), no_constituents, no_constituents
        )
    except ValueError as error:
        raise ValueError(f"sentence {number}: {error}") from error


def read_words(path: str | Path) -> Iterator[Sentence]:
    """Return the words of every line; brackets within them become -LRB- and -RRB-, as in the Penn Treebank.

    A blank line has no words. Raises LineError as `read_word_lines` does.
    """
    return (Sentence(words, number) for number, words in enumerate(read_word_lines(path, words_of), 1))


def words_of(line: str) -> list[str]:
    """Return the words of a line, with -LRB- and -RRB- for brackets within them.

    Examples
    --------
    >>> words_of("a (b) c")
    ['a', '-LRB-b-RRB-', 'c']
    """
    return without_brackets(line).split()


def read_gold(path: str | Path, reading: Reading) -> Iterator[Sentence]:
    """Yield every tree of a treebank with its words and constituents; without words if the reading leaves the tree out.

    Raises
    ------
    LineError
        As `accel.data.corpora.treebank.read_sentences` does.
    """
    for tagged in read_sentences(path, replace(reading, drop_preterminals=False)):
        bare = without_tags(path, tagged, reading)
        if bare is None:
            yield Sentence([], tagged.line)
        else:
            yield Sentence(words(tagged.tree), tagged.line, tagged.tree, tuple(constituents(bare.tree)))


def closest(trees: Sequence[Parse], gold: Sequence[Constituent]) -> int:
    """Return the index of the tree with the highest F1 against a gold tree, over all constituents; ties: the first."""
    gold_constituents = set(_single(gold))

    def f1(tree: Sequence[Constituent]) -> float:
        proposed = set(_single(tree))
        return 2 * len(proposed & gold_constituents) / (len(proposed) + len(gold_constituents))

    values = [f1(tree) for tree, _ in trees]
    return values.index(max(values))


def _single(chains: Sequence[Constituent]) -> Iterator[Constituent]:
    """Yield the constituents of chains, one for each label."""
    return ((label, i, j) for chain, i, j in chains for label in chain.split(" "))
