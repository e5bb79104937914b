"""Surprisals of words from the trees that a parser proposes, as Transformer Grammars takes them (section 3.3).

They need no search, but they look ahead: the parser has read the whole sentence. Sums over prefixes of proposals are
lower bounds of the prefix probabilities, as the sums of a search are (WS-6, MARG-5).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log
from types import ModuleType

import numpy as np

from accel.data.corpora.treebank import encode_trees
from accel.data.vocabularies.vocabulary import VocabularyError
from accel.parsing.propose import propose
from accel.scoring.prefix_tree import word_prefix_logps
from accel.trained.opening import Model
from accel.trained.options import check_number
from accel.trained.words import before_sentence


def proposal_surprisals(
    ops: ModuleType,
    model: Model,
    parser: Model,
    sentences: Sequence[Sequence[str]],
    count: int,
    *,
    batch_size: int = 8,
    others: Sequence[Model] = (),
    ensemble: str = "mixture",
) -> Iterator[list[float]]:
    """Yield for every sentence the surprisals of its words, in bits, from its `count` most probable trees.

    With `others` the models are an ensemble. For a model of documents, every sentence is the first of a document
    (MARG-6, point g). A tree with a label that the model does not have has probability 0 and is left out.

    Raises
    ------
    ValueError
        As `accel.parsing.propose.propose` and `word_prefix_logps`; if every tree of a sentence has a label that the
        model does not have.
    """
    check_number("batch_size", batch_size)
    for start in range(0, len(sentences), batch_size):
        chunk = sentences[start : start + batch_size]
        ranked = propose(ops, parser, chunk, count, batch_size=batch_size)
        groups = [model.vocabulary.with_known_labels([tree for tree, _ in group]) for group in ranked]
        try:
            trees = (tree for group in groups for tree in group)
            corpus = encode_trees(trees, model.vocabulary, before_sentence(model))
        except VocabularyError as error:
            raise ValueError(f"{parser.path}: proposes trees that {model.path} cannot read: {error}") from error
        sizes = [len(group) for group in groups]
        for logps in word_prefix_logps(ops, [model, *others], corpus, sizes, ensemble=ensemble):
            yield (np.diff([0.0, *logps]) / -log(2)).tolist()
