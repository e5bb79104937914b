"""A constituency parser on a treebank; it proposes trees for other models (Transformer Grammars, 3.1)."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import ModuleType
from typing import Any

from accel.data.batches.constituents import Encoded, encode_bracketed, parser_batches
from accel.data.corpora.constituents import Bracketed, read_bracketed
from accel.data.corpora.treebank import Reading, TreebankError
from accel.data.vocabularies.vocabulary import KINDS, Vocabulary, build_of_words
from accel.evaluation.bound_and_rerank import bracket_score
from accel.evaluation.evalb import COLLINS
from accel.models.transformer_grammars import span_parser
from accel.models.transformer_grammars.span_parser import Config
from accel.parsing.propose import propose, read_gold
from accel.tasks.job import Job, add_files, configured_in_epochs, require_data
from accel.tasks.reading import add_reading, changed
from accel.trained.opening import Model
from accel.training.communicator import Communicator
from accel.training.directory import VOCABULARY, load_vocabulary
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
_FROM_DATA = ("vocabulary_size", "n_labels", "max_words")
_PIECES = 4000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_files(parser, "TREES", "trees")
    parser.add_argument("--model", choices=("span_parser",), default="span_parser", help="the only choice")
    parser.add_argument("--vocabulary", choices=KINDS, default="unknown_classes", help="the kind of tokens")
    help_text = f"the most ids; for sentencepiece their number (default: {_PIECES})"
    parser.add_argument("--vocabulary-size", type=int, metavar="V", help=help_text)
    parser.add_argument("--max-words", type=int, default=100, metavar="N", help="longer sentences are left out")
    parser.add_argument("--epochs", type=int, default=10)
    add_reading(parser, default=False, otherwise="no")


def build(options: argparse.Namespace, ops: ModuleType, group: Communicator) -> Job:
    """Return the job that the options ask for."""
    require_data(options)
    reading = changed(Reading(), options)
    sentences, notes = _read(options.data, reading, options.max_words)
    vocabulary = _vocabulary(options, sentences)
    encoded, _ = _encode(options.data, sentences, vocabulary)
    n_words = sum(len(sentence.pieces) for sentence in encoded)
    config, training = configured_in_epochs(
        Config(len(vocabulary), len(vocabulary.labels), max_words=options.max_words), TRAINING, options, _FROM_DATA,
        options.epochs, lambda t: -(-n_words // t.batch_size),
    )  # fmt: skip
    held_out: list[Encoded] = []
    if options.validation is not None:
        sentences, validation_notes = _read(options.validation, reading, options.max_words)
        held_out, unknown = _encode(options.validation, sentences, vocabulary)
        notes += [*validation_notes, *unknown]
    batching: dict[str, Any] = {"ops": ops, "rank": group.rank, "ranks": group.size}
    size, longest = training.batch_size, max(len(sentence.pieces) for sentence in encoded + held_out)
    if longest > size:
        raise ValueError(f"--batch-size {size}: must be at least {longest}, the words of the longest sentence")
    return Job(
        span_parser,
        config,
        training,
        vocabulary,
        parser_batches(encoded, size, seed=training.seed, epochs=None, **batching),
        (lambda: parser_batches(held_out, size, **batching)) if options.validation else None,
        f"{len(encoded):,} trees, {n_words:,} words; {len(vocabulary.labels)} chains of labels, "
        f"{len(vocabulary):,} ids ({vocabulary.kind}){''.join(f'; {note}' for note in notes)}",
        reading,
    )


def evaluate(ops: ModuleType, model: Model, data: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Return EVALB's labelled F1 of the best trees, the share of exact trees, and the number of too long sentences."""
    assert model.reading is not None
    sentences = list(read_gold(data, model.reading))
    short = [x for x in sentences if len(x.words) <= model.config.max_words]
    best = [ranked[0][0] for ranked in propose(ops, model, [x.words for x in short], 1)]
    score = bracket_score(best, [x.tree for x in short if x.tree is not None], COLLINS)
    longer = len(sentences) - len(short)
    return {"f1": score.f1, "exact": score.complete_match, "sentences": score.valid, "too_long": longer}


def _vocabulary(options: argparse.Namespace, sentences: list[Bracketed]) -> Vocabulary:
    """Return the run's vocabulary: the stored one, or a new one from the training trees."""
    if options.resume and (options.out / VOCABULARY).exists():
        stored: Vocabulary = load_vocabulary(options.out)
        return stored
    size = options.vocabulary_size or (_PIECES if options.vocabulary == "sentencepiece" else None)
    chains = sorted({chain for sentence in sentences for chain, _, _ in sentence.constituents})
    return build_of_words((sentence.words for sentence in sentences), options.vocabulary, size, tuple(chains))


def _read(path: Path, reading: Reading, max_words: int) -> tuple[list[Bracketed], list[str]]:
    """Return the sentences that are short enough, and notes on the others."""
    untagged: list[int] = []
    sentences, longer = read_bracketed(path, reading, max_words, untagged)
    if not sentences:
        raise TreebankError(path, 0, 0, f"every one of {longer} sentences has more than {max_words} words")
    notes = [f"{path.name}: {longer:,} of more than {max_words} words left out"] if longer else []
    return sentences, notes + ([f"{path.name}: {len(untagged):,} without tags left out"] if untagged else [])


def _encode(path: Path, sentences: list[Bracketed], vocabulary: Vocabulary) -> tuple[list[Encoded], list[str]]:
    """Return the sentences whose chains are known, and notes on the others."""
    encoded, unknown = encode_bracketed(path, sentences, vocabulary)
    if not encoded:
        raise TreebankError(path, 0, 0, f"every one of {unknown} trees has a chain of labels that was never seen")
    return encoded, [f"{path.name}: {unknown:,} with a chain of labels never seen left out"] if unknown else []
