"""`grove generate`: text drawn from a model word by word, by top-k sampling of parses and words together.

A GPT-2 and a TXL (terminals) have no parses: each word is drawn from the K most probable words. The text of a TG or a
TXL (CC) ends with its tree, at the latest.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import accel
from accel.data.batches.text import read_sentences
from accel.data.files.lines import LineError
from accel.data.vocabularies.vocabulary import END_ID, VocabularyError
from accel.search.word_level import Limits, sample
from accel.trained.kinds import CONTEXTS, TEXTS, can, require
from accel.trained.opening import Model, open_model
from refimpl.trees import ActionType


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--checkpoint", type=Path, required=True, metavar="RUN", help="a run's directory, or a file")
    parser.add_argument("--prefix", default="", metavar="TEXT", help="words that come first, between blanks")
    parser.add_argument("--context", type=Path, metavar="FILE", help="sentences before those words, one a line")
    parser.add_argument("--words", type=int, default=50, metavar="N", help="how many words to draw (50)")
    parser.add_argument("--top-k", type=int, default=2, metavar="K", help="hypotheses that each word is drawn from (2)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backend", default="cpu", choices=accel.BACKENDS)


def run(options: argparse.Namespace) -> int:
    ops = accel.load(options.backend)
    model = open_model(ops, options.checkpoint)
    require(model, TEXTS)
    if options.words < 1:
        raise ValueError(f"--words {options.words}: at least 1 is needed")
    if options.top_k < 1:
        raise ValueError(f"--top-k {options.top_k}: at least 1 is needed")
    prefix_words = options.prefix.split()
    try:
        prefix = model.vocabulary.encode_words(prefix_words)
    except VocabularyError as error:
        raise ValueError(f"--prefix: {error}") from error
    print(" ".join((_text if can(model, CONTEXTS) else _text_of_trees)(ops, model, options, prefix_words, prefix)))
    return 0


def _text(
    ops: ModuleType, model: Model, options: argparse.Namespace, prefix_words: list[str], prefix: list[int]
) -> list[str]:
    """Return the words of a GPST or a GPT-2."""
    context = [] if options.context is None else list(_encoded(model, options.context))
    n_context, room = sum(map(len, context)), model.config.n_positions - 1
    if n_context + len(prefix) + options.words > room:
        counts = f"{len(prefix)} tokens and --words {options.words}"
        before_prefix = f" after {n_context} of --context" if context else ""
        raise ValueError(f"--prefix: {counts}{before_prefix} are more than a context of the model has, {room}")
    limits = Limits(options.top_k, one_pool=True)
    texts = sample(ops, model, limits, seed=options.seed, prefix=prefix, end=END_ID, context=context)
    n_words = len(prefix_words) + options.words
    words = prefix_words
    for actions in texts:
        tokens = [i for i in actions if i >= 0]
        words = model.vocabulary.decode(i for i in tokens if i != END_ID)
        if len(words) == n_words + bool(model.vocabulary.model):  # pieces: a word ends when the next one begins
            break
        if n_context + len(tokens) == room:
            if len(words) < n_words:
                print(f"grove: after {room} tokens the context is full", file=sys.stderr)
            break
    return words[:n_words]


def _text_of_trees(
    ops: ModuleType, model: Model, options: argparse.Namespace, prefix_words: list[str], prefix: list[int]
) -> list[str]:
    """Return the words of a TG or a TXL."""
    if options.context is not None:
        raise ValueError(f"--context: {model.path} reads every sentence by itself")
    limits, n_words, words = Limits(options.top_k), len(prefix_words) + options.words, prefix_words
    for actions in sample(ops, model, limits, seed=options.seed, prefix=prefix):
        terminals = [i for i in actions if model.vocabulary.type_of[i] == ActionType.T and i != END_ID]
        words = model.vocabulary.decode(terminals)
        if len(words) == n_words + bool(model.vocabulary.model):
            break
    return words[:n_words]


def _encoded(model: Model, path: Path) -> Iterator[list[int]]:
    """Yield the tokens of every line that has words."""
    for number, words in read_sentences(path):
        try:
            yield model.vocabulary.encode_words(words)
        except VocabularyError as error:
            raise LineError(path, number, str(error)) from error
