"""Fine-tuning of a GPST, or of a GPT-2 beside it, from a pre-trained run or from scratch (GPST, A.3 and A.5).

The losses of pre-training stay in the loss of fine-tuning. The vocabulary stays as it is.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

from accel.data.batches.contexts import ContextBatches
from accel.data.batches.sentences import Example, Examples, SentenceBatches, encode_examples
from accel.data.batches.sequence_pairs import Column, read_parallel
from accel.data.files.lines import LineError
from accel.data.published.summaries import PROMPT, load_summaries
from accel.data.vocabularies.building import build_of_words
from accel.data.vocabularies.vocabulary import Vocabulary
from accel.models.gpst import model as gpst
from accel.models.gpst.config import MODELS
from accel.models.gpst.model import Config
from accel.tasks.gpst import CONFIGURATIONS
from accel.tasks.job import Job, configured_in_epochs, shared, with_warmup
from accel.tasks.pretrained import FIXED, open_pretrained, parameters_of
from accel.tasks.vocabulary import MOST, described, open_to_words, size_of, stored_vocabulary
from accel.trained.kinds import with_article
from accel.trained.opening import Model
from accel.trained.options import OptionError
from accel.training.communicator import Communicator
from accel.training.settings import TrainingConfig

TRAINING = replace(CONFIGURATIONS["small"][1], batch_size=64, select="accuracy")
SUMMARIES = replace(TRAINING, batch_size=16, select="loss")
_FROM_DATA = ("model", "vocabulary_size", "n_classes", "whole_words")
_NO_WORDS = Vocabulary("words", (), ())


def add_checkpoint(parser: argparse.ArgumentParser, kinds: tuple[str, ...] = MODELS) -> None:
    """Add the option that names the pre-trained model, for these kinds of models."""
    *others, last = map(with_article, kinds)
    names = f"{', '.join(others)} or {last}"
    help_text = f"a pre-trained run, or a file in it, to start {names} from (default: from scratch)"
    parser.add_argument("--checkpoint", type=Path, metavar="RUN", help=help_text)


def refuse_checkpoint(options: argparse.Namespace) -> None:
    """Raise ValueError if the options name a pre-trained model for a model that starts from scratch."""
    if options.checkpoint is not None:
        raise ValueError(
            f"--checkpoint: is for {' and '.join(MODELS)}; {with_article(options.kind)} starts from scratch"
        )


@dataclass(frozen=True)
class Start:
    """The start of a training."""

    config: Any
    vocabulary: Any
    from_data: tuple[str, ...]  # settings of the model that options cannot change
    initial: dict[str, Any] | None = None  # parameters of a pre-trained model


def check_settings(options: argparse.Namespace, training: TrainingConfig) -> None:
    """Raise ValueError if an option of a model from scratch has an impossible value, before anything is read."""
    if options.checkpoint is not None and getattr(options, "vocabulary_size", None) is not None:
        raise OptionError("vocabulary_size", "the vocabulary is that of --checkpoint; leave it out")
    if options.checkpoint is None:
        configured_start(Start(Config(1, options.kind), _NO_WORDS, _FROM_DATA), options, training, 1)


def start_of(
    options: argparse.Namespace, ops: ModuleType, build: Callable[[], Vocabulary], n_classes: int = 0
) -> Start:
    """Return the start from --checkpoint, or from scratch with the run's stored vocabulary or a new one."""
    if options.checkpoint is None:
        vocabulary = stored_vocabulary(options) or build()
        return Start(Config(len(vocabulary), options.kind, n_classes=n_classes), vocabulary, _FROM_DATA)
    model = open_pretrained(ops, options.checkpoint, options.kind)
    config = replace(model.config, n_classes=n_classes, whole_words=False)  # the batches do not tell where words begin
    return Start(config, model.vocabulary, (*FIXED, "whole_words"), parameters_of(model))


def configured_start(
    start: Start, options: argparse.Namespace, training: TrainingConfig, n_examples: int
) -> tuple[Config, TrainingConfig]:
    """Return the model and the training that the options ask for; the rate rises for 1 % of the steps."""
    if options.kind == "gpt2":
        training = replace(training, own_rate_of="", own_rate=None)
    config, training = configured_in_epochs(
        start.config, training, options, start.from_data, options.epochs, lambda t: -(-n_examples // t.batch_size)
    )
    return config, with_warmup(training, options)


def build_classifier(
    options: argparse.Namespace, ops: ModuleType, group: Communicator, classes: tuple[str, ...],
    training_source: tuple[Path, list[Example]], held_out: Sequence[tuple[Path, list[Example]] | None],
) -> Job:  # fmt: skip
    """Return the job of a classifier; from scratch it has the words of the training data, and classes of rare words.

    `held_out` has the validation data and the test data; either may be None.
    """

    def build() -> Vocabulary:
        return build_of_words(
            (words for example in training_source[1] for words in example.sentences), "unknown_classes"
        )

    start = start_of(options, ops, build, len(classes))
    config, training = configured_start(start, options, TRAINING, max(1, len(training_source[1])))
    batching = shared(ops, group, training) | {"in_contexts": True}
    data, validation, _ = (
        source and _encoded(start.vocabulary, config, classes, *source) for source in (training_source, *held_out)
    )
    assert data is not None
    size = training.batch_size
    return Job(
        gpst,
        config,
        training,
        start.vocabulary,
        SentenceBatches(data, size, seed=training.seed, epochs=None, **batching),
        None if validation is None else lambda: SentenceBatches(validation, size, **batching),
        f"{len(data):,} examples of {len(classes)} classes",
        initial=start.initial,
        notes=(described(start.vocabulary),),
    )


def build_summariser(
    options: argparse.Namespace, ops: ModuleType, group: Communicator,
    training_files: tuple[Column, Column], validation_files: tuple[Column, Column],
) -> Job:  # fmt: skip
    """Return the job of learning articles with their summaries, one pair in each context."""

    def build() -> Vocabulary:
        words = chain((PROMPT, PROMPT), (words for pair in read_parallel(*training_files) for words in pair))
        size = size_of(options.vocabulary, options.vocabulary_size, MOST, MOST)
        return build_of_words(words, options.vocabulary, **size)

    start = start_of(options, ops, build)
    limits, vocabulary = (options.article_tokens, options.summary_tokens), start.vocabulary
    with open_to_words():
        pairs, n_cut = load_summaries(*training_files, vocabulary, *limits)
        validation, _ = load_summaries(*validation_files, vocabulary, *limits)
    n_pairs = len(pairs.documents) - 1
    config, training = configured_start(start, options, SUMMARIES, n_pairs)
    room, n_tokens = config.n_positions - 1, sum(limits) + len(vocabulary.encode_words(PROMPT)) + 1
    if n_tokens > room:
        counts = f"--article-tokens {limits[0]} and --summary-tokens {limits[1]}"
        raise ValueError(f"{counts} make {n_tokens} with prompt and end, more than a context of the model has, {room}")
    batching = shared(ops, group, training) | {"max_tokens": room, "across_documents": False}
    size = training.batch_size
    return Job(
        gpst,
        config,
        training,
        vocabulary,
        ContextBatches(pairs, size, seed=training.seed, epochs=None, **batching),
        lambda: ContextBatches(validation, size, **batching),
        f"{n_pairs:,} pairs, {n_cut:,} of them cut",
        initial=start.initial,
        notes=(described(vocabulary),),
    )


def batches_of(
    ops: ModuleType, model: Model, classes: tuple[str, ...], path: Path, examples: list[Example]
) -> SentenceBatches:
    """Return the examples in order, in batches for a trained classifier."""
    encoded = _encoded(model.vocabulary, model.config, classes, path, examples)
    return SentenceBatches(encoded, TRAINING.batch_size, ops=ops, in_contexts=True)


def _encoded(
    vocabulary: Vocabulary, config: Config, classes: tuple[str, ...], path: Path, examples: list[Example]
) -> Examples:
    """Return the examples as ids; raise LineError at one that is longer than a context of the model."""
    width = len(examples[0].sentences) if examples else 1
    encoded = encode_examples(path, examples, vocabulary.encode_words, classes, width)
    for example, size in zip(examples, encoded.sizes.tolist(), strict=True):
        if size >= config.n_positions:
            reason = f"{size} tokens with the symbols after the sentences, more than a context of the model has"
            raise LineError(path, example.line, f"{reason}, {config.n_positions - 1}")
    return encoded
