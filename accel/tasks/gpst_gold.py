"""Scores of a GPST's trees against gold trees: in every validation, and of the best checkpoint."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from accel.data.files.lines import errors_at
from accel.data.published.wsj import CONVENTIONS, GoldSentence, read_gold
from accel.evaluation.induced_f1 import ORACLE, PRESETS, score, score_baselines, score_oracle
from accel.parsing.spans import find_spans
from accel.tasks.numbers import at_least
from accel.tasks.vocabulary import open_to_words
from accel.trained.kinds import with_article
from accel.trained.opening import Model
from accel.trained.options import OptionError, typed
from accel.trained.words import encode_words
from accel.training.loop import Measure

BEAM = 20  # the paper's
_DEFAULTS = {"convention": "wsj", "preset": "gpst", "beam": BEAM}


def add_gold(parser: argparse.ArgumentParser) -> None:
    """Add the options for gold trees."""
    parser.add_argument("--gold", type=Path, metavar="TREEBANK", help="gold trees to compare the induced trees with")
    help_text = "gold trees that are parsed in every validation (inside); the highest F1 is the best checkpoint"
    parser.add_argument("--validation-gold", type=Path, metavar="TREEBANK", help=help_text)
    parser.add_argument(
        "--convention", choices=CONVENTIONS, default=_DEFAULTS["convention"], help="words of the gold trees"
    )
    help_text = "the spans that count for F1"
    parser.add_argument("--preset", choices=tuple(PRESETS), default=_DEFAULTS["preset"], help=help_text)
    help_text = f"parses kept of a gold sentence in the search from left to right ({BEAM}; 0: no such trees)"
    parser.add_argument("--beam", type=at_least(0), default=BEAM, metavar="N", help=help_text)


def check_gold(options: argparse.Namespace) -> None:
    """Raise ValueError for gold trees of a model without trees, or without the text whose scores they join.

    Also for options that say how gold trees are read or searched, where there are none.
    """
    for name in ("validation_gold", *([] if options.resume else ["gold"])):  # an older GPT-2 may have stored --gold
        if getattr(options, name) is not None and options.model != "gpst":
            raise ValueError(f"{typed(name)}: is for gpst; {with_article(options.model)} has no trees")
    if options.validation_gold is not None and options.validation is None:
        raise ValueError("--validation-gold: there is no validation; use --validation TEXT")
    if options.gold is not None and options.test is None and not options.resume:
        raise ValueError(
            "--gold: is scored with the test text; use --test TEXT, or grove parse --gold after the training"
        )
    for name, default in () if options.resume else _DEFAULTS.items():  # an older run may have stored one of them
        trees = ["gold"] if name == "beam" else ["gold", "validation_gold"]  # validations search no parses
        if getattr(options, name) != default and all(getattr(options, file) is None for file in trees):
            raise OptionError(name, f"is for {' and '.join(map(typed, trees))}: give gold trees with it")


def measure_of(ops: ModuleType, model: Model, options: argparse.Namespace) -> Measure | None:
    """Return the measure of F1 on the validation's gold trees; None without --validation-gold."""
    if options.validation_gold is None:
        return None
    with open_to_words():
        gold = read_gold_of(model, options.validation_gold, options.convention)
    sentences = [sentence.words for sentence in gold]

    def f1(parameters: dict[str, Any]) -> float:
        now = replace(model, parameters=parameters)
        return score(gold, list(find_spans(ops, now, sentences, mode="inside")), options.preset).sentence_f1

    return Measure("f1", f1)


def match(ops: ModuleType, model: Model, settings: dict[str, Any]) -> dict[str, Any]:
    """Return sentence and corpus F1 of the model's trees, of trivial trees and of the best binary trees."""
    beam = settings.get("beam", BEAM)
    gold = read_gold_of(model, settings["gold"], settings["convention"], generated=beam > 0)
    sentences = [sentence.words for sentence in gold]
    preset = settings["preset"]
    modes: dict[str, dict[str, Any]] = {"inside": {"mode": "inside"}, "parser": {"mode": "parser"}}
    if beam:
        modes["left-to-right"] = {"mode": "left-to-right", "beam": beam}
        modes["left-to-right, no sync"] = modes["left-to-right"] | {"sync": False}
    rows = {name: score(gold, list(find_spans(ops, model, sentences, **mode)), preset) for name, mode in modes.items()}
    rows |= score_baselines(gold, preset=preset) | {ORACLE: score_oracle(gold, preset)}
    return {
        "sentence_f1": {name: row.sentence_f1 for name, row in rows.items()},
        "corpus_f1": {name: row.corpus_f1 for name, row in rows.items()},
    }


def read_gold_of(model: Model, path: Path, convention: str, *, generated: bool = False) -> list[GoldSentence]:
    """Return the gold sentences; with `generated`, for a search from left to right, each must fit into a context.

    Raises
    ------
    LineError
        At the line of a sentence that the model cannot read.
    """
    gold = list(read_gold(path, convention))
    for sentence in gold:
        with errors_at(path, sentence.line):
            encode_words(model, sentence.words, generated=generated)
    return gold
