"""Classifiers of sentences of words; their vocabulary is that of the training data, or of files of word vectors.

Each file of `--vectors` gives a table that is not learned, and a projection that is learned. With `--learn-vectors` one
file gives the initial embedding of the training data's words.

A Transformer reads a sentence between the start and the end symbol, and classifies the state of the end symbol; with a
chart, that of the start symbol plus the chart's top. GPST and GPT-2, which may be pre-trained, have another vocabulary:
`accel.tasks.fine_tuning`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

from accel.data.batches.sentences import Example, Examples, SentenceBatches, encode_examples
from accel.data.files.lines import LineError
from accel.data.vocabularies.vectors import read_vectors
from accel.data.vocabularies.vocabulary import END
from accel.data.vocabularies.words import UNKNOWN, Words, build_words
from accel.models.encoder_decoder import model as encoder_decoder
from accel.models.fasttrees import sentence_classifier
from accel.models.fasttrees.sentence_classifier import Config
from accel.models.fasttrees.stack import KINDS
from accel.models.gpst.config import MODELS
from accel.tasks import fine_tuning
from accel.tasks.encoder_decoder import TRAINING, configured_transformer
from accel.tasks.job import (
    Job,
    as_trained,
    batch_size_of,
    configured,
    configured_in_epochs,
    in_chunks,
    require_data,
    shared,
)
from accel.tasks.numbers import at_least
from accel.tasks.vocabulary import stored_vocabulary
from accel.tasks.word_vectors import add_vectors, check_tables, vector_files, words_and_tables
from accel.trained.kinds import CONTEXTS, can, network_of
from accel.trained.opening import Model
from accel.trained.options import OptionError
from accel.training.communicator import Communicator
from accel.training.loop import evaluate
from accel.training.settings import TrainingConfig
from refimpl.trees import START

_SIZE = "tiny"
TRANSFORMERS = ("transformer", "treeformer", "treeformer_released")
_FROM_DATA = ("vocabulary_size", "n_classes", "pair", "n_tables")
_TRANSFORMER = replace(TRAINING, batch_size=64, warmup_steps=2000, select="accuracy", keep_checkpoints=0)
Source = tuple[Path, list[Example]]


def add_models(parser: argparse.ArgumentParser) -> None:
    """Add the options for the kind and the size of the classifier, and the number of epochs."""
    add_kinds(parser, (*KINDS, *TRANSFORMERS, *MODELS))
    parser.add_argument("--size", choices=encoder_decoder.SIZES, default=_SIZE, help=f"of a Transformer ({_SIZE})")
    parser.add_argument("--epochs", type=at_least(1), default=20)


def add_kinds(parser: argparse.ArgumentParser, kinds: tuple[str, ...]) -> None:
    """Add the options for the kind of model, one of these, and for the parameters that it starts from."""
    help_text = "a recurrent stack, or a Transformer (default: fasttrees)"
    parser.add_argument("--model", dest="kind", choices=kinds, default="fasttrees", help=help_text)
    add_vectors(parser)
    fine_tuning.add_checkpoint(parser)


def build_classifier(
    options: argparse.Namespace,
    ops: ModuleType,
    group: Communicator,
    config: Config,
    training: TrainingConfig,
    classes: tuple[str, ...],
    read_training: Callable[[], Source],
    read_held_out: Callable[[], Sequence[Source | None]],
) -> Job:
    """Return the job of a classifier; `config` and `training` are for a recurrent one, without its vocabulary.

    No data are read before the options are checked. `read_held_out` returns the validation and the test data; errors in
    the test data are reported before the training.
    """
    is_transformer = options.kind in TRANSFORMERS
    config, training = as_trained(options, config, training) if options.kind in KINDS else (config, training)
    files, is_learned = vector_files(options, KINDS)
    config = replace(config, n_tables=0 if is_learned else len(files))
    if options.kind not in MODELS:
        fine_tuning.refuse_checkpoint(options)
    if options.kind not in TRANSFORMERS and getattr(options, "size", _SIZE) != _SIZE:
        raise OptionError("size", f"is for {', '.join(TRANSFORMERS)}: leave it out")
    _check_settings(options, config, training)
    require_data(options)
    training_source, held_out = read_training(), read_held_out()
    if not training_source[1]:
        raise LineError(training_source[0], 0, "no examples in this file")
    if options.kind in MODELS:
        return fine_tuning.build_classifier(options, ops, group, classes, training_source, held_out)
    words, tables = _words_and_tables(options, training_source[1], files if config.n_tables else ())
    if tables:
        config = replace(config, embedding_size=tables["tables.0"].shape[1])
    encode = partial(_encoded, words, classes, width=1 if is_transformer else 1 + config.pair, wrapped=is_transformer)
    data, validation, _ = (source and encode(source) for source in (training_source, *held_out))
    assert data is not None
    model: Any
    if is_transformer:
        module: ModuleType = encoder_decoder
        model, training = _transformer_in_epochs(options, len(words), len(classes), len(data))
    else:
        module, config = sentence_classifier, replace(config, vocabulary_size=len(words))
        model, training = configured_in_epochs(
            config, training, options, _FROM_DATA, options.epochs, lambda t: -(-len(data) // t.batch_size)
        )
    notes = (
        f"vocabulary: {len(words):,} words, {UNKNOWN} for all others",
        *(() if is_transformer else in_chunks(model)),
    )
    initial, of_vectors = _initial(model, training, words, tables, files)
    batching = shared(ops, group, training)
    batching["charts"] = [model.max_height or None] if is_transformer and model.chart == "paper" else []
    size = training.batch_size
    return Job(
        module,
        model,
        training,
        words,
        SentenceBatches(data, size, seed=training.seed, epochs=None, **batching),
        None if validation is None else lambda: SentenceBatches(validation, size, **batching),
        f"{len(data):,} examples of {len(classes)} classes{of_vectors}",
        initial=initial,
        frozen=tables,
        notes=notes,
    )


def _words_and_tables(
    options: argparse.Namespace, examples: list[Example], files: Sequence[Path]
) -> tuple[Words, dict[str, Any]]:
    """Return the words of the files and their tables, which are not learned; without files the words of the data."""
    if files:
        return words_and_tables(options, files)
    return stored_vocabulary(options, Words) or _words(examples, options.kind in TRANSFORMERS), {}


def _initial(
    model: Any, training: TrainingConfig, words: Words, tables: dict[str, Any], files: Sequence[Path]
) -> tuple[dict[str, Any] | None, str]:
    """Return the parameters that do not start at random, and the text about vectors for the job's description."""
    if tables:
        check_tables(tables, model.embedding_size, files)
        return None, f"; tables of word vectors, not learned: {len(tables)}"
    if not files:
        return None, ""
    table = sentence_classifier.initialise(model, training.seed)["embedding"]
    table, n_known = read_vectors(files[0], words, table)
    return {"embedding": table}, f"; {n_known:,} words with vectors"


def _check_settings(options: argparse.Namespace, config: Config, training: TrainingConfig) -> None:
    """Raise ValueError if an option has an impossible value."""
    if options.kind in MODELS:
        fine_tuning.check_settings(options, fine_tuning.TRAINING)
    elif options.kind in TRANSFORMERS:
        _transformer_in_epochs(options, 1, 1, 1)
    else:
        configured(config, training, options, _FROM_DATA)


def _transformer_in_epochs(
    options: argparse.Namespace, n_words: int, n_classes: int, n_examples: int
) -> tuple[encoder_decoder.Config, TrainingConfig]:
    """Return the model and its training, with a validation after each epoch."""
    _, first = configured_transformer(options, _TRANSFORMER, n_words, n_classes)
    steps = -(-n_examples // first.batch_size)
    recipe = replace(_TRANSFORMER, steps=steps * options.epochs, validate_every=steps)
    return configured_transformer(options, recipe, n_words, n_classes)


def evaluate_classifier(
    ops: ModuleType, model: Model, path: Path, classes: tuple[str, ...], examples: list[Example]
) -> dict[str, Any]:
    """Return loss and accuracy on examples that were read from `path`."""
    batches = batches_of(ops, model, classes, (path, examples))
    return evaluate(ops, model.module, model.config, model.parameters, batches)


def batches_of(ops: ModuleType, model: Model, classes: tuple[str, ...], source: Source) -> SentenceBatches:
    """Return the examples in order, in batches for a trained classifier."""
    if can(model, CONTEXTS):
        return fine_tuning.batches_of(ops, model, classes, *source)
    is_transformer = network_of(model) not in KINDS
    width = 1 if is_transformer else 1 + model.config.pair
    examples = _encoded(model.vocabulary, classes, source, width, is_transformer)
    return SentenceBatches(examples, batch_size_of(model, 64), ops=ops)


def _encoded(words: Words, classes: tuple[str, ...], source: Source, width: int, wrapped: bool) -> Examples:
    path, examples = source
    return encode_examples(path, _wrapped(examples) if wrapped else examples, words.encode, classes, width)


def _wrapped(examples: Iterable[Example]) -> list[Example]:
    """Return the examples with the start and the end symbol around every sentence that is not empty."""
    return [
        example._replace(sentences=tuple([START, *words, END] if words else words for words in example.sentences))
        for example in examples
    ]


def _words(examples: list[Example], wrapped: bool) -> Words:
    """Return the vocabulary of the training data, with an unknown word; a Transformer does not know words seen once."""
    sentences = chain.from_iterable(example.sentences for example in examples)
    return build_words(sentences, least=1 + wrapped, extra=(*((START, END) if wrapped else ()), UNKNOWN))
