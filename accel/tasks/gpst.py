"""GPST on running text, and GPT-2 of the same size beside it; its induced trees are compared with gold trees.

Adam has a second learning rate for the parser. Both rates rise linearly for 1 % of the steps and then fall linearly.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from math import exp
from pathlib import Path
from types import ModuleType
from typing import Any

from accel.data.batches.contexts import ContextBatches, cut_contexts
from accel.data.corpora.documents import Documents, load_documents, read_documents
from accel.data.files.lines import LineError
from accel.data.published.wsj import CONVENTIONS, GoldSentence, read_gold
from accel.data.vocabularies.vocabulary import Vocabulary, build_of_words
from accel.evaluation.induced_f1 import PRESETS, score, score_baselines, score_oracle
from accel.models.gpst import model as gpst
from accel.models.gpst.config import MODELS
from accel.parsing.spans import find_spans
from accel.tasks.job import (
    Job,
    add_files,
    add_tokens,
    configured,
    configured_in_epochs,
    count,
    count_or_zero,
    in_tokens,
    require_data,
)
from accel.tasks.vocabulary import add_vocabulary, described, open_to_words, size_of
from accel.trained.kinds import GPST_TREES, can
from accel.trained.opening import Model
from accel.trained.words import encode_words
from accel.training.communicator import Communicator
from accel.training.directory import VOCABULARY, load_vocabulary
from accel.training.loop import evaluate as evaluate_batches
from accel.training.settings import TrainingConfig

_DEMO = TrainingConfig(
    batch_size=2,
    warmup_steps=0,
    initial_rate=0.0,
    maximum_rate=1e-3,
    final_rate=0.0,
    own_rate_of="parser.",
    own_rate=1e-3,
    schedule="linear",
    clip_norm=1.0,
    epsilon=1e-6,
)
_SMALL = replace(_DEMO, batch_size=256, maximum_rate=5e-5)
_MEDIUM = replace(_SMALL, maximum_rate=1e-4, own_rate=2e-3)
# "demo" is ours, the others are the paper's: GPST, and GPT-2 with a layer more, which has more parameters.
CONFIGURATIONS: dict[str, tuple[dict[str, int], TrainingConfig]] = {
    "demo": ({}, _DEMO),
    "small": (gpst.SMALL, _SMALL),
    "medium": (gpst.MEDIUM, _MEDIUM),
    "small_13": (gpst.SMALL | {"token_layers": 10}, _SMALL),
    "medium_25": (gpst.MEDIUM | {"token_layers": 22}, _MEDIUM),
}
OF_GPT2 = {"small_13": "small", "medium_25": "medium"}
"""The configurations of a GPT-2 alone, each with that of the GPST beside it."""
BEAM = 20  # the paper's
_FROM_DATA = ("model", "vocabulary_size", "n_positions")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_files(parser, "TEXT", "text whose documents end with blank lines")
    parser.add_argument("--model", choices=MODELS, default="gpst")
    parser.add_argument("--configuration", choices=tuple(CONFIGURATIONS), default="demo")
    parser.add_argument(
        "--sentence-a-line", action="store_true", help="one sentence a line; else . ? or ! before a capital ends one"
    )
    add_vocabulary(parser, "sentencepiece")
    parser.add_argument("--max-tokens", type=count, default=1024, metavar="N", help="of a context of whole sentences")
    parser.add_argument("--one-document", action="store_true", help="end every context with its document")
    parser.add_argument("--epochs", type=count, default=10)
    add_tokens(parser)
    parser.add_argument("--cache", type=Path, help="where encoded text is kept (default: DIRECTORY/cache)")
    parser.add_argument("--gold", type=Path, metavar="TREEBANK", help="gold trees to compare the induced trees with")
    parser.add_argument("--convention", choices=CONVENTIONS, default="wsj", help="words of the gold trees")
    parser.add_argument("--preset", choices=tuple(PRESETS), default="gpst", help="the spans that count for F1")
    help_text = f"parses kept of a gold sentence in the search from left to right ({BEAM}; 0: no such trees)"
    parser.add_argument("--beam", type=count_or_zero, default=BEAM, metavar="N", help=help_text)


def build(options: argparse.Namespace, ops: ModuleType, group: Communicator) -> Job:
    """Return the job that the options ask for."""
    sizes, recipe = CONFIGURATIONS[options.configuration]
    if options.model != "gpt2" and options.configuration in OF_GPT2:
        beside = OF_GPT2[options.configuration]
        raise ValueError(f"--configuration: {options.configuration} is for gpt2; use --model gpt2, or {beside}")
    if options.model == "gpt2":
        recipe = replace(recipe, own_rate_of="", own_rate=None)
    config = gpst.Config(1, options.model, n_positions=options.max_tokens + 1, **sizes)
    configured(config, recipe, options, _FROM_DATA)
    require_data(options)
    vocabulary, across = _vocabulary(options), not options.one_document
    config = replace(config, vocabulary_size=len(vocabulary))
    text, *others = (_text(path, vocabulary, options) for path in (options.data, options.validation, options.test))
    held_out = others[0]
    assert text is not None
    n_contexts = len(cut_contexts(text, options.max_tokens, across_documents=across)) - 1
    config, training = configured_in_epochs(
        config, recipe, options, _FROM_DATA, options.epochs, lambda t: -(-n_contexts // t.batch_size), len(text.ids)
    )
    if not any(setting.startswith("warmup_steps=") for setting in options.set):
        training = replace(training, warmup_steps=training.steps // 100)
    reading: dict[str, Any] = {"ops": ops, "max_tokens": options.max_tokens, "across_documents": across}
    reading |= {"rank": group.rank, "ranks": group.size, "micro_batch": training.micro_batch}
    size = training.batch_size
    if options.gold is not None and config.model == "gpst":  # reports bad trees before the training
        with open_to_words():
            _read_gold(Model(options.out, config, {}, vocabulary, None, gpst), vars(options))
    return Job(
        gpst,
        config,
        training,
        vocabulary,
        ContextBatches(text, size, seed=training.seed, epochs=None, **reading),
        None if held_out is None else lambda: ContextBatches(held_out, size, **reading),
        f"{len(text.ids):,} tokens of {len(text.lines):,} sentences in {n_contexts:,} contexts",
        notes=(described(vocabulary), _sentences(text, options), *in_tokens(options, training, len(text.ids))),
    )


def _sentences(text: Documents, options: argparse.Namespace) -> str:
    """Return a line about the sentences of a text, and the option that reads them otherwise."""
    mean = f"sentences: {text.begins_word.sum() / len(text.lines):.0f} words on average"
    if options.sentence_a_line:
        return f"{mean}, one a line"
    return f"{mean}; each ends at . ? or ! before a capital, or with --sentence-a-line at the end of its line"


def _vocabulary(options: argparse.Namespace) -> Vocabulary:
    """Return the run's vocabulary: the stored one, or a new one from the training text."""
    if options.resume and (options.out / VOCABULARY).exists():
        stored: Vocabulary = load_vocabulary(options.out)
        return stored
    size = size_of(options.vocabulary, options.vocabulary_size)
    sentences = read_documents(options.data, sentence_a_line=options.sentence_a_line)
    return build_of_words((sentence.words for sentence in sentences), options.vocabulary, **size)


def _text(path: Path | None, vocabulary: Vocabulary, options: argparse.Namespace) -> Documents | None:
    """Return an encoded text, if there is one, whose every sentence fits into a context."""
    if path is None:
        return None
    cache = options.cache or options.out / "cache"
    with open_to_words():
        text = load_documents(path, vocabulary, cache, sentence_a_line=options.sentence_a_line)
    try:
        cut_contexts(text, options.max_tokens)
    except LineError as error:
        if options.sentence_a_line:
            raise ValueError(f"{error}; use a larger --max-tokens") from error
        use = "--sentence-a-line if every line is a sentence, or a larger --max-tokens"
        raise ValueError(f"{error}; use {use}") from error
    return text


def evaluate(ops: ModuleType, model: Model, data: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the perplexity of the words of a text (of GPST a bound), and F1 of its trees against those of --gold."""
    cache = Path(settings["cache"] or model.path.parent / "cache")
    text = load_documents(data, model.vocabulary, cache, sentence_a_line=settings["sentence_a_line"])
    reading = {"max_tokens": settings["max_tokens"], "across_documents": not settings["one_document"]}
    batches = ContextBatches(text, 1, ops=ops, **reading)
    loss = evaluate_batches(ops, model.module, model.config, model.parameters, batches)["loss"]
    n_words = int(text.begins_word.sum())
    results: dict[str, Any] = {"perplexity": exp(loss * len(text.ids) / n_words), "words": n_words}
    if settings["gold"] is not None and can(model, GPST_TREES):
        results |= _match(ops, model, settings)
    return results


def _match(ops: ModuleType, model: Model, settings: dict[str, Any]) -> dict[str, Any]:
    """Return sentence and corpus F1 of the model's trees, of trivial trees and of the best binary trees."""
    gold = _read_gold(model, settings)
    sentences = [sentence.words for sentence in gold]
    preset, beam = settings["preset"], settings.get("beam", BEAM)
    modes: dict[str, dict[str, Any]] = {"inside": {"mode": "inside"}, "parser": {"mode": "parser"}}
    if beam:
        modes["left-to-right"] = {"mode": "left-to-right", "beam": beam}
        modes["left-to-right, no sync"] = modes["left-to-right"] | {"sync": False}
    rows = {name: score(gold, list(find_spans(ops, model, sentences, **mode)), preset) for name, mode in modes.items()}
    rows |= score_baselines(gold, preset=preset) | {"oracle": score_oracle(gold, preset)}
    return {
        "sentence_f1": {name: row.sentence_f1 for name, row in rows.items()},
        "corpus_f1": {name: row.corpus_f1 for name, row in rows.items()},
    }


def _read_gold(model: Model, settings: dict[str, Any]) -> list[GoldSentence]:
    """Return the gold sentences; with a beam none has more pieces than a context."""
    path, beam = settings["gold"], settings.get("beam", BEAM)
    gold = list(read_gold(path, settings["convention"]))
    for sentence in gold:
        try:
            encode_words(model, sentence.words, generated=beam > 0)
        except ValueError as error:
            raise LineError(path, sentence.line, str(error)) from error
    return gold
