"""`grove parse` with a TG or a TXL (CC): labelled trees from left to right, and EVALB's score of them."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from accel.commands.brackets import print_score
from accel.commands.opened import figures, progress, written_line_by_line
from accel.commands.search_options import search_of
from accel.commands.threads import processes
from accel.data.corpora.treebank import Reading, read_sentences
from accel.data.files.lines import errors_at, is_standard, place
from accel.evaluation.bound_and_rerank import bracket_score
from accel.evaluation.evalb_input import COLLINS
from accel.parsing.labelled import labelled_trees
from accel.parsing.propose import Sentence, read_words
from accel.search.word_level import limits_of
from accel.trained.kinds import LABELLED_TREES, require
from accel.trained.opening import Model
from accel.trained.options import OptionError
from accel.trained.words import encode_words, refuse_start
from refimpl.trees import Tree, words

UNUSED = ("layer", "split", "max_height", "mode", "sync", "convention", "preset", "picture", "number", "by_sentence")
"""The options of `grove parse` that are only for trees without labels."""


def run(ops: ModuleType, model: Model, options: argparse.Namespace) -> int:
    require(model, LABELLED_TREES)
    for name in UNUSED:
        if getattr(options, name) is not None:
            raise OptionError(name, f"is for trees without labels, and {model.path} has labelled ones: leave it out")
    limits = limits_of(**search_of(model, options))
    path = options.sentences if options.gold is None else options.gold
    lines = list(read_words(path)) if options.gold is None else _read_gold(path, model.reading or Reading())
    sentences = [sentence for sentence in lines if sentence.words]
    for sentence in sentences:
        with errors_at(path, sentence.line):
            refuse_start(sentence.words)
            encode_words(model, sentence.words)
    words_of = [sentence.words for sentence in sentences]
    side_by_side = {"batch_size": options.batch_size or 8, "processes": processes(ops, model)}
    search = labelled_trees(ops, model, words_of, limits, **side_by_side)
    out = options.out or (Path("-") if options.gold is None else None)
    search = progress(search, len(sentences), printed=out is not None and is_standard(out))
    if out is None:
        trees = list(search)
    else:
        texts = (sentence.words for sentence in lines)
        trees = written_line_by_line(out, texts, search, lambda tree: "" if tree is None else str(tree))
    parsed = [(sentence, tree) for sentence, tree in zip(sentences, trees, strict=True) if tree is not None]
    for sentence in (sentence for sentence, tree in zip(sentences, trees, strict=True) if tree is None):
        print(
            f"grove: {place(path, sentence.line)}: no tree: the search ends before the sentence does", file=sys.stderr
        )
    if options.gold is not None:
        with figures(options.out):
            _print_score(parsed, len(sentences))
    return 0


def _print_score(parsed: list[tuple[Sentence, Tree]], n_sentences: int) -> None:
    """Print EVALB's scores of the sentences that have a tree, and their share."""
    gold = [sentence.tree for sentence, _ in parsed if sentence.tree is not None]
    print_score(bracket_score([tree for _, tree in parsed], gold, COLLINS), gold)
    print(f"coverage        {len(parsed) / n_sentences:.4f} ({len(parsed)} of {n_sentences} sentences)")


def _read_gold(path: Path, reading: Reading) -> list[Sentence]:
    """Return the sentences of a treebank; their trees keep all tags."""
    tagged_trees = read_sentences(path, replace(reading, drop_preterminals=False))
    return [Sentence(words(sentence.tree), sentence.line, sentence.tree) for sentence in tagged_trees]
