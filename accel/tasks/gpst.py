"""GPST on running text, or a GPT-2 of the same size to compare; GPST's induced trees are scored against gold trees.

Adam has a second learning rate for the parser. Both rates rise linearly for 1 % of the steps and then fall linearly.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from math import exp
from pathlib import Path
from types import ModuleType
from typing import Any

from accel.data.batches.contexts import ContextBatches, cut_contexts
from accel.models.gpst import model as gpst
from accel.models.gpst.config import MODELS
from accel.tasks.gpst_gold import add_gold, check_gold, match, measure_of, read_gold_of
from accel.tasks.gpst_text import (
    MAX_TOKENS,
    add_text,
    check_text,
    described_text,
    load_text,
    long_sentences,
    text_of,
    vocabulary_of,
)
from accel.tasks.job import (
    Job,
    add_tokens,
    configured,
    configured_in_epochs,
    in_tokens,
    require_data,
    shared,
    with_warmup,
)
from accel.tasks.numbers import at_least
from accel.tasks.pretrained import FIXED, open_pretrained, parameters_of
from accel.tasks.vocabulary import described, open_to_words
from accel.trained.kinds import GPST_TREES, can
from accel.trained.opening import Model
from accel.training.communicator import Communicator
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
_INDUCTION = replace(_SMALL, batch_size=32)
_MEDIUM = replace(_SMALL, maximum_rate=1e-4, own_rate=2e-3)
# "demo" is ours, the others are the paper's: GPST, and GPT-2 with one layer more. The paper counts more parameters for
# it than for GPST; our count has fewer (specs/gpst/parser.md).
CONFIGURATIONS: dict[str, tuple[dict[str, int], TrainingConfig]] = {
    "demo": ({}, _DEMO),
    "small": (gpst.SMALL, _SMALL),
    "medium": (gpst.MEDIUM, _MEDIUM),
    "small_13": (gpst.SMALL | {"token_layers": 10}, _SMALL),
    "medium_25": (gpst.MEDIUM | {"token_layers": 22}, _MEDIUM),
}
DEMO, INDUCTION = "demo", "induction"
"""The default, and the recipe of section 4.3: a pre-trained model, 32 sentences a step, trees that split no word."""
OF_GPT2 = {"small_13": "small", "medium_25": "medium"}
"""The configurations that only a GPT-2 has, each with the configuration of the GPST that it is compared with."""
_FROM_DATA = ("model", "vocabulary_size", "n_positions", "n_classes")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", choices=MODELS, default="gpst")
    help_text = f"sizes and recipe ({DEMO}); {INDUCTION}: the recipe for --checkpoint, whose sizes stay"
    parser.add_argument("--configuration", choices=(*CONFIGURATIONS, INDUCTION), help=help_text)
    help_text = "a pre-trained run, or a file in it, to train further; its vocabulary and its sizes stay"
    parser.add_argument("--checkpoint", type=Path, metavar="RUN", help=help_text)
    add_text(parser)
    parser.add_argument("--epochs", type=at_least(1), default=10)
    add_tokens(parser)
    add_gold(parser)


def build(options: argparse.Namespace, ops: ModuleType, group: Communicator) -> Job:
    """Return the job that the options ask for."""
    check_text(options)
    check_gold(options)
    config, recipe, from_data, pretrained = _start(options, ops)
    max_tokens = options.max_tokens or config.n_positions - 1
    if max_tokens > config.n_positions - 1:
        raise ValueError(
            f"--max-tokens: {max_tokens}, but {options.checkpoint} reads {config.n_positions - 1}; use that or fewer"
        )
    configured(config, recipe, options, from_data)
    require_data(options, folders=True)
    vocabulary, cut_options = vocabulary_of(options, pretrained), cut_of(vars(options))
    config = replace(config, vocabulary_size=len(vocabulary))
    cache = options.cache or options.out / "cache"
    text, held_out, tested = (
        None if path is None else text_of(path, vocabulary, vars(options), max_tokens, cache)
        for path in (options.data, options.validation, options.test)
    )
    assert text is not None
    n_contexts = len(cut_contexts(text, max_tokens, **cut_options)) - 1
    config, training = configured_in_epochs(
        config, recipe, options, from_data, options.epochs, lambda t: -(-n_contexts // t.batch_size), len(text.ids)
    )
    training = with_warmup(training, options)
    batching = shared(ops, group, training) | {"max_tokens": max_tokens, **cut_options}
    size = training.batch_size
    model = Model(options.out, config, {}, vocabulary, None, gpst)
    if options.gold is not None and config.model == "gpst":  # reports bad trees before the training
        with open_to_words():
            read_gold_of(model, options.gold, options.convention, generated=options.beam > 0)
    return Job(
        gpst,
        config,
        training,
        vocabulary,
        ContextBatches(text, size, seed=training.seed, epochs=None, shares_graphs=config.model == "gpst", **batching),
        None if held_out is None else lambda: ContextBatches(held_out, size, **batching),
        f"{len(text.ids):,} tokens of {len(text.lines):,} sentences in {n_contexts:,} contexts",
        measure=measure_of(ops, model, options),
        initial=None if pretrained is None else parameters_of(pretrained),
        notes=(
            described(vocabulary),
            *described_text(text, options),
            *long_sentences({"": text, "validation: ": held_out, "test: ": tested}, options, max_tokens),
            *_on_trees(config, training),
            *in_tokens(options, training, len(text.ids)),
        ),
    )


def _start(
    options: argparse.Namespace, ops: ModuleType
) -> tuple[gpst.Config, TrainingConfig, tuple[str, ...], Model | None]:
    """Return the model's configuration, the recipe, the settings that no option changes, and the pre-trained model."""
    name = configuration_of(vars(options))
    if name == INDUCTION and options.checkpoint is None:
        raise ValueError(f"--configuration: {INDUCTION} trains a pre-trained model further; use --checkpoint RUN")
    if options.model != "gpt2" and name in OF_GPT2:
        raise ValueError(f"--configuration: {name} is for gpt2; use --model gpt2, or {OF_GPT2[name]}")
    sizes, recipe = ({}, _INDUCTION) if name == INDUCTION else CONFIGURATIONS[name]
    if options.model == "gpt2":
        recipe = replace(recipe, own_rate_of="", own_rate=None)
    if options.validation_gold is not None:
        recipe = replace(recipe, select="f1")
    if options.checkpoint is None:
        positions = (options.max_tokens or MAX_TOKENS) + 1
        return gpst.Config(1, options.model, n_positions=positions, **sizes), recipe, _FROM_DATA, None
    pretrained = open_pretrained(ops, options.checkpoint, options.model)
    config = replace(pretrained.config, n_classes=0)
    for field, value in sizes.items():
        if getattr(config, field) != value:
            but = f"has {field}={value}, and {pretrained.path} {getattr(config, field)}"
            raise ValueError(f"--configuration: {name} {but}; leave it out, or use {INDUCTION}")
    if name == INDUCTION:
        config = replace(config, whole_words=options.model == "gpst")
    return config, recipe, FIXED, pretrained


def configuration_of(settings: Mapping[str, Any]) -> str:
    """Return the name of a training's configuration; by default induction with --checkpoint, else demo."""
    name: str | None = settings.get("configuration")
    return name or (INDUCTION if settings.get("checkpoint") is not None else DEMO)


def exported_options(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a training with its configuration, for an export has no --checkpoint to derive it from."""
    return {**settings, "configuration": configuration_of(settings)}


def cut_of(settings: Mapping[str, Any]) -> dict[str, bool]:
    """Return the options of `cut_contexts`; grammar induction reads every sentence by itself."""
    one_sentence = bool(settings.get("one_sentence")) or configuration_of(settings) == INDUCTION
    return {"across_documents": not settings["one_document"], "one_sentence": one_sentence}


def _on_trees(config: gpst.Config, training: TrainingConfig) -> tuple[str, ...]:
    """Return lines about what the trees of a training may split, and what selects its best checkpoint."""
    whole = ("trees: none splits a word (whole_words)",) if config.whole_words else ()
    best = ("best checkpoint: that of the highest F1 (select)",) if training.select == "f1" else ()
    return whole + best


def evaluate(ops: ModuleType, model: Model, data: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the perplexity of the words of a text, of a GPST by its induced trees; with --gold also the trees' F1."""
    cache = Path(settings["cache"] or model.path.parent / "cache")
    max_tokens = settings["max_tokens"] or model.config.n_positions - 1
    text = load_text(data, model.vocabulary, settings, max_tokens, cache)
    batches = ContextBatches(text, 1, ops=ops, max_tokens=max_tokens, **cut_of(settings))
    loss = evaluate_batches(ops, model.module, model.config, model.parameters, batches)["loss"]
    n_words = int(text.begins_word.sum())
    results: dict[str, Any] = {"perplexity": exp(loss * len(text.ids) / n_words), "words": n_words}
    if len(text.long):
        results["sentences cut" if settings["long_sentences"] == "cut" else "sentences left out"] = len(text.long)
    if settings["gold"] is not None and can(model, GPST_TREES):
        results |= match(ops, model, settings)
    return results
