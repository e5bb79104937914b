"""Functions that the programs here share: train small models of generated English once, and measure their perplexity.

Sentences have no full stops, since scores of induced trees leave out punctuation.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from math import exp
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from accel.data.batches.contexts import SentencesBatch
from accel.data.generated.grammar import ENGLISH
from accel.models.gpst import model as gpst
from accel.search.pools import Limits
from accel.search.word_level import surprisals
from accel.tasks.numbers import at_least
from accel.trained.opening import Model
from accel.trained.words import encode_words, joined
from examples.commands import grove, set_options, write_sentences

SETTINGS = (
    *("d_model=128", "n_heads=4", "type_layers=1", "token_layers=2", "d_compose=64", "dropout=0", "network_dropout=0"),
    *("maximum_rate=2e-3", "keep_checkpoints=0"),
)


def read_options(program: str, description: str, arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of a program; the programs share the models in --out."""
    parser = argparse.ArgumentParser(prog=f"python -m examples.gpst.{program}", description=description)
    parser.add_argument("--out", type=Path, default=Path("runs/gpst"))
    parser.add_argument("--sentences", type=at_least(1), default=20_000, help="sentences to train on")
    parser.add_argument("--test", type=at_least(1), default=500, help="sentences to measure perplexity and trees on")
    parser.add_argument("--steps", type=at_least(1), default=1500, help="training steps of every model")
    parser.add_argument("--batch-size", type=at_least(1), default=8, help="contexts of up to 128 words in a step")
    parser.add_argument(
        "--beam", type=at_least(1), default=20, help="parses kept while a sentence is read from left to right"
    )
    help_text = "seed of the models; the sentences are always the same"
    parser.add_argument("--seed", type=at_least(0), default=0, help=help_text)
    return parser.parse_args(arguments)


def train(options: argparse.Namespace, name: str, *extra: object) -> dict[str, Any]:
    """Train the model of this name, or resume it, and return the scores of `grove evaluate` on the test text."""
    files = write_sentences(options.out, options.sentences, options.test)
    gold = ("--gold", options.out / "test.trees", "--convention", "plain", "--beam", options.beam)
    text = ("--sentence-a-line", "--vocabulary", "words", "--max-tokens", 128)
    sizes = ("--steps", options.steps, "--batch-size", options.batch_size, "--seed", options.seed)
    run = ("--out", options.out / name, "--resume")
    grove("train", "--task", "gpst", *files, *gold, *text, *run, *sizes, *set_options(SETTINGS), *extra)
    scores: dict[str, Any] = json.loads((options.out / name / "evaluation.json").read_text(encoding="utf-8"))
    return scores


def test_sentences(options: argparse.Namespace) -> list[list[str]]:
    """Return the words of the test sentences."""
    return [line.split() for line in (options.out / "test.txt").read_text(encoding="utf-8").splitlines()]


def best_perplexity(sentences: Sequence[Sequence[str]]) -> float:
    """Return the perplexity of the words of a text under the grammar, which also predicts the ends of sentences."""
    return exp(-sum(ENGLISH.sentence_logp([*words, "."]) for words in sentences) / sum(map(len, sentences)))


def longer_left(trees: Iterable[Sequence[tuple[int, int]]]) -> float:
    """Return how many splits of binary trees are longer on the left, in % of those whose parts differ in length.

    A tree is given by the spans of its constituents of two words or more, first and last word.

    >>> longer_left([[(0, 3), (0, 2), (0, 1)]]), longer_left([[(0, 3), (1, 3), (2, 3)]]), longer_left([])
    (100.0, 0.0, 0.0)
    """
    longer = {True: 0, False: 0}
    for spans in trees:
        for i, j in spans:
            split = max((k for first, k in spans if first == i and k < j), default=i)
            if split - i + 1 != j - split:
                longer[split - i + 1 > j - split] += 1
    return 100.0 * longer[True] / max(1, sum(longer.values()))


def apart(ops: ModuleType, model: Model, sentences: Sequence[Sequence[str]], beam: int) -> dict[str, float]:
    """Return the perplexity of the words of sentences, each read by itself.

    For GPST there are two bounds: one of the induced trees alone, and a lower one, summed over the parses of a search.
    """
    pieces = [encode_words(model, words, generated=True) for words in sentences]
    ids, n_words = [joined(sentence) for sentence in pieces], sum(map(len, sentences))
    begins_word = np.array([not k for sentence in pieces for word in sentence for k in range(len(word))])
    offsets, tokens = np.cumsum([0, *map(len, ids)]), np.concatenate(ids).astype(np.int32)
    xp, contexts = ops.xp, np.arange(len(offsets))
    arrays = (xp.asarray(x) for x in (tokens, begins_word, offsets))
    batch = SentencesBatch(*arrays, contexts, len(tokens))
    logps, _ = gpst.token_logps(ops, model.config, model.parameters, batch)
    bound = exp(-float(logps.sum(dtype=np.float64)) / n_words)
    if model.config.model != "gpst":
        return {"apart": bound}
    bits = surprisals(ops, model, ids, Limits(beam, one_pool=True), batch_size=16)
    return {"apart": bound, "apart, summed": 2.0 ** (sum(map(sum, bits)) / n_words)}
