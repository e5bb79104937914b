"""The labelled trees of a TG or a TXL (CC), which its word-level search finds from left to right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from types import ModuleType
from typing import Any

from accel.data.corpora.constituents import without_brackets
from accel.data.vocabularies.vocabulary import Vocabulary
from accel.parsing.spans import OPTIONS as SPAN_OPTIONS
from accel.search.options import check_search
from accel.search.pools import Limits
from accel.search.word_level import word_level_search
from accel.trained.kinds import LABELLED_TREES, require
from accel.trained.opening import Model
from accel.trained.options import OptionError, check_number
from accel.trained.processes import results
from accel.trained.words import encode_words, joined
from refimpl.trees import ActionType, Tree


def labelled_trees(
    ops: ModuleType, model: Model, sentences: Sequence[Sequence[str]], limits: Limits, **side_by_side: int
) -> Iterator[Tree | None]:
    """Yield for every sentence the best tree over its words, without tags; None where the search finds none.

    Options and errors are those of `searched_trees`.
    """
    for trees in searched_trees(ops, model, sentences, limits, **side_by_side):
        yield trees[0][0] if trees else None


def searched_trees(
    ops: ModuleType,
    model: Model,
    sentences: Sequence[Sequence[str]],
    limits: Limits,
    *,
    batch_size: int = 8,
    processes: int = 1,
) -> Iterator[list[tuple[Tree, float]]]:
    """Yield for every sentence the trees that the search ends with, without tags, and their log p, the best first.

    For a model of documents, every sentence is the first of a document (MARG-6, point g). `processes` processes search,
    with one thread each.

    Raises
    ------
    ValueError
        If the model gives no labelled trees, and as `encode_words` and `word_level_search`.
    """
    require(model, LABELLED_TREES)
    check_number("batch_size", batch_size)

    def parsed(batch: Sequence[Sequence[str]]) -> list[list[tuple[tuple[int, ...], float]]]:
        tokens = [joined(encode_words(model, words)) for words in batch]
        hypotheses = (ranked for ranked, _ in word_level_search(ops, model, tokens, limits))
        return [[(hypothesis.actions, hypothesis.logp) for hypothesis in ranked] for ranked in hypotheses]

    batches = (sentences[start : start + batch_size] for start in range(0, len(sentences), batch_size))
    every = chain.from_iterable(results(parsed, batches, ops, processes))
    for words, ranked in zip(sentences, every, strict=True):
        yield [(tree_of(model.vocabulary, actions, words), logp) for actions, logp in ranked]


def check_options(model: Model, options: Mapping[str, Any]) -> None:
    """Raise OptionError for an option that a search for labelled trees does not take, or whose value is too small."""
    require(model, LABELLED_TREES)
    for name in options:
        if name in SPAN_OPTIONS and name != "beam":
            raise OptionError(name, f"is for trees without labels, and {model.path} has labelled ones")
    check_search(model, options)


def tree_of(vocabulary: Vocabulary, actions: Sequence[int], words: Sequence[str]) -> Tree:
    """Return the tree that the actions build over the words, with -LRB- and -RRB- for brackets within them."""
    levels: list[list[Tree | str]] = [[]]
    remaining_words = map(without_brackets, words)
    for action in actions:
        action_type = vocabulary.type_of[action]
        if action_type == ActionType.ONT:
            levels.append([])
        elif action_type == ActionType.CNT1:
            children = tuple(levels.pop())
            levels[-1].append(Tree(vocabulary.symbols[action][:-1], children))
        elif vocabulary.begins_word[action]:
            levels[-1].append(next(remaining_words))
    root = levels[0][0]
    assert isinstance(root, Tree)
    return root
