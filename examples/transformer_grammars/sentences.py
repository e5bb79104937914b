"""Sentences of the analyses, for training and for test: generated English, or the real trees that --data names."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from statistics import mean

from accel.data.corpora.proposals import Proposals, read_proposals
from accel.data.corpora.sequences import encode_sentences, read_whole
from accel.data.corpora.treebank import Corpus, Reading, Sentence, encode_trees, load_corpus, survey
from accel.data.generated.grammar import CONSTRUCTIONS, ENGLISH, minimal_pairs, proposals
from accel.data.vocabularies.building import build
from accel.data.vocabularies.vocabulary import Vocabulary, VocabularyError
from examples.findings import digest_of
from examples.provenance import digests
from examples.transformer_grammars.train import reading_of, split_files
from refimpl.transformer_grammars.marginal import perplexity, sentence_logp
from refimpl.trees import Tree, actions, words

HELD_OUT = tuple(name for name, held_out in CONSTRUCTIONS.items() if held_out)
GENERATED = "generated English"
PAIRS_SEED = 3


@dataclass(frozen=True)
class Data:
    """The data for training and test."""

    name: str  # the source that an error names if a tree cannot be read
    reading: Reading
    vocabulary: Vocabulary
    train: Corpus
    valid: Corpus
    proposals: Proposals  # of every test sentence
    pairs: list[Tree]  # a tree that agrees, one that does not, ...
    sources: dict[str, str]  # digests


@dataclass(frozen=True)
class Judge:
    """Test sentences with their proposals, and pairs, as one corpus for both measures."""

    groups: Proposals
    corpus: Corpus
    sizes: list[int]  # of the groups and the pairs, whose trees have common prefixes

    @property
    def digest(self) -> str:
        """The digest of the trees and of the sizes of their groups."""
        return digest_of(map(str, [*self.corpus.actions.tolist(), *self.sizes]))

    def found(self, logps: Sequence[float]) -> dict[str, float]:
        """Return the perplexity (of models of trees an upper bound), and the share of pairs whose right tree wins."""
        ends = list(accumulate(map(len, self.groups)))
        groups = zip(self.groups, ends, strict=True)
        sentences = [sentence_logp(logps[end - len(group) : end]) for group, end in groups]
        n_words = sum(len(words(group[0].tree)) for group in self.groups)
        right = [a > b for a, b in zip(logps[ends[-1] :: 2], logps[ends[-1] + 1 :: 2], strict=True)]
        return {"perplexity": perplexity(sentences, n_words)} | ({"agreement": mean(right)} if right else {})


def read_data(options: argparse.Namespace) -> Data:
    """Return generated English, or the real trees that --data names."""
    return _real(options) if options.data else _generated(options)


def _generated(options: argparse.Namespace) -> Data:
    sizes = (("train", options.sentences), ("valid", 300), ("test", generated_test(options)))
    trees = {name: list(ENGLISH.sample(size, seed)) for seed, (name, size) in enumerate(sizes, 1)}
    pairs = pair_trees(options.pairs)
    vocabulary = build([*trees["train"], *trees["valid"], *trees["test"], *pairs])  # no word is unknown
    groups = [proposals(tree, options.changed, seed=number) for number, tree in enumerate(trees["test"])]
    return Data(
        GENERATED,
        Reading(),
        vocabulary,
        encode_trees(trees["train"], vocabulary),
        encode_trees(trees["valid"], vocabulary),
        [[Sentence(tree, 0, number) for tree in group] for number, group in enumerate(groups)],
        pairs,
        {f"generated {name}": digest_of(map(str, part)) for name, part in trees.items()},
    )


def generated_test(options: argparse.Namespace) -> int:
    """Return the number of generated test sentences; the program ends if it is 0, which means all real ones."""
    if not options.test:
        raise SystemExit("--test 0: means all real sentences, and these are generated: give a number of at least 1")
    return int(options.test)


def _real(options: argparse.Namespace) -> Data:
    files = split_files(options.data)
    reading = reading_of(options)
    trees = (sentence.tree for sentence in read_whole(files["train"], reading))
    vocabulary = build(trees, "unknown_classes", options.vocabulary_size)
    train_corpus, valid = (
        load_corpus(files[split], vocabulary, options.out / "cache", reading) for split in ("train", "valid")
    )
    path, groups = test_proposals(files["test"], options, reading)
    sources = digests([*files.values(), *([options.proposals] if options.proposals else [])])
    pairs = readable_pairs(vocabulary, options.pairs)
    return Data(str(path), reading, vocabulary, train_corpus, valid, groups, pairs, sources)


def test_proposals(path: Path, options: argparse.Namespace, reading: Reading) -> tuple[Path, Proposals]:
    """Return the file and the trees of the first test sentences: those of --proposals, or the gold trees alone."""
    if options.proposals is not None:
        path = options.proposals
        has_tags = survey(path, reading).tagged == 1  # trees of our parser have no tags
        reading = replace(reading, drop_preterminals=reading.drop_preterminals and has_tags)
        groups = read_proposals(path, reading)
    else:
        groups = [[sentence] for sentence in read_whole(path, reading)]
    return path, groups[: options.test or None]


def pair_trees(count: int) -> list[Tree]:
    """Return `count` pairs of every held-out construction: the tree that agrees, the one that does not, ..."""
    pairs = [pair for name in HELD_OUT if count for pair in minimal_pairs(name, count, seed=PAIRS_SEED)]
    return [tree for pair in pairs for tree in (pair.tree, pair.wrong_tree)]


def readable_pairs(vocabulary: Vocabulary, count: int) -> list[Tree]:
    """Return the pairs whose words and labels are all in a vocabulary of other trees; print their number."""
    trees = pair_trees(count)
    pairs = zip(trees[::2], trees[1::2], strict=True)
    readable = [pair for pair in pairs if all(_has(vocabulary, tree) for tree in pair)]
    print(f"agreement: the vocabulary has all words and labels of {len(readable)} of {len(trees) // 2} pairs")
    return [tree for pair in readable for tree in pair]


def _has(vocabulary: Vocabulary, tree: Tree) -> bool:
    try:
        return vocabulary.decode(vocabulary.encode(tree)) == actions(tree)
    except VocabularyError:
        return False


def judge(data: Data, terminals: bool) -> Judge:
    """Return the corpus for models of trees, or for models of terminals, which need one tree per sentence."""
    groups = [group[:1] for group in data.proposals] if terminals else data.proposals
    flat = [sentence for group in groups for sentence in group]
    flat += [Sentence(tree, 0, 0) for tree in data.pairs]
    sizes = [*map(len, groups), *[2] * (len(data.pairs) // 2)]
    return Judge(groups, encode_sentences(data.name, flat, data.vocabulary), sizes)
