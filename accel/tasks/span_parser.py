"""A constituency parser on a treebank; it proposes trees for other models (Transformer Grammars, 3.1)."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from accel.data.batches.constituents import Encoded, encode_bracketed, n_batches, parser_batches
from accel.data.corpora.constituents import Bracketed, read_bracketed
from accel.data.corpora.treebank import Reading
from accel.data.files.lines import LineError, errors_at
from accel.data.vocabularies.building import build_of_words
from accel.data.vocabularies.vocabulary import Vocabulary
from accel.evaluation.bound_and_rerank import bracket_score
from accel.evaluation.evalb import Score
from accel.evaluation.evalb_input import COLLINS
from accel.models.checks import refusal
from accel.models.transformer_grammars import span_parser
from accel.models.transformer_grammars.span_parser import Config
from accel.parsing.propose import Sentence as Gold
from accel.parsing.propose import propose, read_gold
from accel.tasks.job import Job, add_files, configured, configured_in_epochs, require_data, shared
from accel.tasks.numbers import at_least
from accel.tasks.reading import add_training_reading, training_reading
from accel.tasks.vocabulary import add_vocabulary, described, open_to_words, size_of, stored_vocabulary
from accel.trained.opening import Model
from accel.trained.words import encode_words
from accel.training.communicator import Communicator
from accel.training.loop import Measure
from accel.training.settings import TrainingConfig

TRAINING = TrainingConfig(
    batch_size=250,  # words
    warmup_steps=200,
    initial_rate=0.0,
    maximum_rate=1.5e-3,
    final_rate=0.0,
    clip_norm=5.0,
    schedule="linear",
)
MODELS: dict[str, dict[str, Any]] = {
    "span_parser": {},
    "lstm_parser": {
        "encoder": "lstm", "d_model": 400, "n_layers": 2, "d_span": 256, "d_affix": 16, "dropout": 0.35,
    },
}  # fmt: skip
"""The settings of each --model that differ from the defaults."""
_FROM_DATA = ("vocabulary_size", "n_labels", "max_words", "n_tags")
_PIECES = 4000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_files(parser, "TREES", "trees")
    parser.add_argument(
        "--model",
        choices=tuple(MODELS),
        default="span_parser",
        help="what reads a sentence: a small Transformer (%(default)s), or larger LSTMs in both directions, which see "
        "the first and last characters of words, too; they take longer and find better trees",
    )
    add_vocabulary(parser, "unknown_classes", _PIECES)
    parser.add_argument("--max-words", type=at_least(1), default=100, metavar="N", help="longer sentences are left out")
    parser.add_argument("--epochs", type=at_least(1), default=10)
    help_text = "learn the words' part-of-speech tags, too, from the training trees: an auxiliary loss"
    parser.add_argument("--learn-tags", action="store_true", help=help_text)
    add_training_reading(parser)


def build(options: argparse.Namespace, ops: ModuleType, group: Communicator) -> Job:
    """Return the job that the options ask for."""
    kind = MODELS[options.model]
    recipe = TRAINING if options.validation is None else replace(TRAINING, select="f1")
    configured(Config(99, 1, max_words=options.max_words, **kind), recipe, options, _FROM_DATA)
    require_data(options)
    reading, reading_notes = training_reading(options, Reading())
    if options.learn_tags and not reading.drop_preterminals:
        reason = f"the trees of {options.data} have no part-of-speech tags: leave it out"
        if options.keep_tags:
            reason = "trees that are taken as they are have no tags to learn: leave out --keep-tags"
        raise ValueError(f"--learn-tags: {reason}")
    sentences, notes = _read(options.data, reading, options.max_words, with_tags=options.learn_tags)
    vocabulary = _vocabulary(options, sentences)
    tags = sorted({tag for sentence in sentences for tag in sentence.tags or ()})
    with open_to_words():
        encoded, _ = _encode(options.data, sentences, vocabulary, tags)
    lengths = [len(sentence.pieces) for sentence in encoded]
    n_words, longest = sum(lengths), max(lengths)
    config, training = configured_in_epochs(
        Config(len(vocabulary), len(vocabulary.labels), max_words=options.max_words, n_tags=len(tags), **kind), recipe,
        options, _FROM_DATA, options.epochs, lambda t: n_batches(encoded, max(t.batch_size, longest), t.seed),
    )  # fmt: skip
    held_out: list[Encoded] = []
    if options.validation is not None:
        sentences, validation_notes = _read(options.validation, reading, options.max_words)
        with open_to_words():
            held_out, unknown = _encode(options.validation, sentences, vocabulary)
        notes += [*validation_notes, *unknown]
    model = Model(options.out, config, {}, vocabulary, reading, span_parser)
    if options.test is not None:
        with open_to_words():
            _check_gold(model, options.test)
    batching = shared(ops, group, training)
    size = training.batch_size
    longest = max([longest, *(len(sentence.pieces) for sentence in held_out)])
    if longest > size:
        raise refusal("batch_size", size, f"the longest sentence has {longest} words", f"{longest} or more")
    return Job(
        span_parser,
        config,
        training,
        vocabulary,
        parser_batches(encoded, size, seed=training.seed, epochs=None, **batching),
        (lambda: parser_batches(held_out, size, **batching)) if options.validation else None,
        f"{len(encoded):,} trees, {n_words:,} words; {len(vocabulary.labels)} chains of labels"
        + "".join(f"; {note}" for note in notes),
        reading,
        measure=_measure_of(ops, model, options.validation),
        notes=(described(vocabulary), *reading_notes, *_on_best(training)),
    )


def evaluate(ops: ModuleType, model: Model, data: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Return EVALB's labelled F1 and share of exact trees, and the numbers of scored and of too long sentences."""
    sentences, longer = _read_gold(model, data)
    score = _score(ops, model, sentences)
    return {"f1": score.f1, "exact": score.complete_match, "sentences": score.valid, "too_long": longer}


def _measure_of(ops: ModuleType, model: Model, validation: Path | None) -> Measure | None:
    """Return the measure of F1 on the validation sentences; None without a validation.

    The loss is lowest some epochs before the trees are best: later the parser is overconfident, but makes fewer errors.
    """
    if validation is None:
        return None
    with open_to_words():
        sentences, _ = _read_gold(model, validation)
    return Measure("f1", lambda parameters: _score(ops, replace(model, parameters=parameters), sentences).f1)


def _on_best(training: TrainingConfig) -> tuple[str, ...]:
    return ("best checkpoint: that of the highest F1 (select)",) if training.select == "f1" else ()


def _read_gold(model: Model, path: Path) -> tuple[list[Gold], int]:
    """Return the gold trees of sentences that are short enough, and how many longer ones there are.

    Sentences that are left out because a word has no tag are in neither.
    """
    assert model.reading is not None
    sentences = [x for x in read_gold(path, model.reading) if x.words]
    short = [x for x in sentences if len(x.words) <= model.config.max_words]
    return short, len(sentences) - len(short)


def _check_gold(model: Model, path: Path) -> None:
    """Raise ValueError, before the training, if the parser cannot be tested on these trees."""
    assert model.reading is not None
    for sentence in read_gold(path, model.reading):
        if not sentence.words:
            reason = "not every word has a part-of-speech tag, and all trees of --test are parsed: remove this tree"
            raise LineError(path, sentence.line, reason)
    for sentence in _read_gold(model, path)[0]:
        with errors_at(path, sentence.line):
            encode_words(model, sentence.words)


def _score(ops: ModuleType, model: Model, sentences: list[Gold]) -> Score:
    best = [ranked[0][0] for ranked in propose(ops, model, [x.words for x in sentences], 1)]
    return bracket_score(best, [x.tree for x in sentences if x.tree is not None], COLLINS)


def _vocabulary(options: argparse.Namespace, sentences: list[Bracketed]) -> Vocabulary:
    """Return the run's vocabulary: the stored one, or a new one from the training trees."""
    if (old_vocabulary := stored_vocabulary(options)) is not None:
        return old_vocabulary
    size = size_of(options.vocabulary, options.vocabulary_size, _PIECES)
    chains = sorted({chain for sentence in sentences for chain, _, _ in sentence.constituents})
    return build_of_words((sentence.words for sentence in sentences), options.vocabulary, labels=tuple(chains), **size)


def _read(
    path: Path, reading: Reading, max_words: int, *, with_tags: bool = False
) -> tuple[list[Bracketed], list[str]]:
    """Return the sentences that are short enough, and notes on the others."""
    untagged: list[int] = []
    sentences, longer = read_bracketed(path, reading, max_words, untagged, with_tags=with_tags)
    if not sentences:
        count = longer + len(untagged)
        reason = f"more than {max_words} words" if longer else "a word without a part-of-speech tag"
        reason += ", or a word without a tag" if longer and untagged else ""
        raise LineError(path, 0, f"no sentence is left: each of the {count} has {reason}")
    notes = [f"{path.name}: {longer:,} of more than {max_words} words left out"] if longer else []
    return sentences, notes + ([f"{path.name}: {len(untagged):,} without tags left out"] if untagged else [])


def _encode(
    path: Path, sentences: list[Bracketed], vocabulary: Vocabulary, tags: Sequence[str] = ()
) -> tuple[list[Encoded], list[str]]:
    """Return the sentences whose chains are known, and notes on the others."""
    encoded, unknown = encode_bracketed(path, sentences, vocabulary, tags)
    if not encoded:
        raise LineError(path, 0, f"every one of {unknown} trees has a chain of labels that was never seen")
    return encoded, [f"{path.name}: {unknown:,} with a chain of labels never seen left out"] if unknown else []
