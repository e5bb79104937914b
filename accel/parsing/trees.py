"""The tree of every sentence, from every kind of model that has one: labelled if the model knows labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from accel.data.corpora.constituents import tree_of
from accel.parsing import labelled, spans
from accel.parsing.distances import induced_tree
from accel.parsing.propose import parses
from accel.search.word_level import limits_of
from accel.trained.kinds import LABELLED_TREES, PROPOSALS, TREE_LOGPS, can
from accel.trained.opening import Model
from accel.trained.options import OptionError, check_number
from refimpl.trees import Tree


def check_options(model: Model, options: Mapping[str, Any]) -> None:
    """Raise ValueError if the model gives no trees of sentences, or OptionError for an option that it does not take."""
    if can(model, PROPOSALS):
        for name in options:
            raise OptionError(name, f"{model.path} is a span parser, which has no options")
    elif can(model, TREE_LOGPS):
        labelled.check_options(model, options)
    else:
        spans.check_options(model, options)


def parse(
    ops: ModuleType, model: Model, sentences: Sequence[Sequence[str]], *, batch_size: int | None = None, **options: Any
) -> Iterator[Tree | None]:
    """Yield for every sentence its best tree; None where the search of a TG or a TXL (CC) finds none.

    Parameters
    ----------
    batch_size : int or None
        How many sentences are read side by side; None: as many as the function of the model takes by default.
    options
        Those of `accel.parsing.spans.find_spans` or, for labelled trees, of `accel.search.word_level.limits_of`.

    Raises
    ------
    ValueError
        As `check_options` and the functions of the models.
    """
    check_options(model, options)
    if batch_size is not None:
        check_number("batch_size", batch_size)
    side_by_side = {} if batch_size is None else {"batch_size": batch_size}
    if can(model, PROPOSALS):
        ranked = parses(ops, model, sentences, 1, **side_by_side)
        return (tree_of(best, words) for words, [(best, _)] in zip(sentences, ranked, strict=True))
    if can(model, LABELLED_TREES):
        return labelled.labelled_trees(ops, model, sentences, limits_of(**options), **side_by_side)
    spans_of_sentences = spans.find_spans(ops, model, sentences, **options, **side_by_side)
    return (induced_tree(tree, words) for words, tree in zip(sentences, spans_of_sentences, strict=True))
