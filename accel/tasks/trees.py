"""Transformer Grammars and the two Transformer-XL baselines on treebanks, in the paper's configurations."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from accel.data.batches.trees import Batches
from accel.data.corpora.sequences import read_whole
from accel.data.corpora.treebank import NONE_TAGGED, Corpus, Reading, load_corpus
from accel.data.files.lines import LineError
from accel.data.vocabularies import building
from accel.data.vocabularies.vocabulary import Vocabulary, labels_of
from accel.models.transformer_grammars import model as transformer_grammar
from accel.models.transformer_grammars.config import Config
from accel.tasks.job import Job, configured, require_data, shared
from accel.tasks.reading import add_training_reading, training_reading
from accel.tasks.vocabulary import PIECES, add_vocabulary, described, open_to_words, size_of, stored_vocabulary
from accel.trained.options import OptionError
from accel.training.communicator import Communicator
from accel.training.settings import TrainingConfig
from refimpl.trees import words

_MODELS = ("txl_terminals", "txl_cc", "tg")


def _columns(training: TrainingConfig, **rows: Any) -> dict[str, tuple[Config, TrainingConfig]]:
    """Return a column of Figure 9 for each model; a row is one value for all three models or a triple of values."""
    columns = {}
    for i, model in enumerate(_MODELS):
        column = {name: row[i] if isinstance(row, tuple) else row for name, row in rows.items()}
        length, maximum = column.pop("length"), column.pop("maximum_rate")
        config = Config(model=model, segment_length=length, memory_length=length, **column)
        columns[model] = (config, replace(training, maximum_rate=maximum))
    return columns


_BLLIP = {
    "vocabulary_size": 32_768,
    "d_model": 1024,
    "d_ff": 4096,
    "n_layers": 16,
    "n_heads": 8,
    "length": 256,
    "embedding_dropout": 0.1,
    "core_dropout": 0.1,
    "output_dropout": 0.1,
    "maximum_rate": 1.5e-4,
}

# name -> model -> (Config, TrainingConfig). "demo" is ours, the others are Figure 9. Their vocabulary size is the
# paper's: replace it by that of the data.
CONFIGURATIONS: dict[str, dict[str, tuple[Config, TrainingConfig]]] = {
    "demo": _columns(
        TrainingConfig(batch_size=32, steps=300, warmup_steps=30, final_rate=1e-5, validate_every=50),
        vocabulary_size=128,
        d_model=64,
        d_ff=256,
        n_layers=3,
        n_heads=4,
        length=64,
        maximum_rate=3e-3,
    ),
    "ptb": _columns(
        TrainingConfig(batch_size=64, steps=50_000, warmup_steps=6_000),
        vocabulary_size=(23_835, 23_888, 23_888),
        d_model=192,
        d_ff=768,
        n_layers=16,
        n_heads=8,
        length=(80, 192, 192),
        embedding_dropout=(0.25, 0.34, 0.34),
        core_dropout=(0.24, 0.19, 0.19),
        output_dropout=(0.49, 0.45, 0.45),
        maximum_rate=(6.4e-4, 7.1e-4, 7.1e-4),
    ),
    "bllip_sent": _columns(TrainingConfig(batch_size=176, steps=100_000, warmup_steps=8_000), **_BLLIP),
    "bllip_doc": _columns(TrainingConfig(batch_size=64, steps=100_000, warmup_steps=8_000), **_BLLIP),
}

_VOCABULARIES = {
    "demo": "unknown_classes", "ptb": "unknown_classes", "bllip_sent": "sentencepiece", "bllip_doc": "sentencepiece"
}  # fmt: skip
_PIECES = {"bllip_sent": 32_768, "bllip_doc": 32_768}
_FROM_DATA = ("model", "vocabulary_size")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, metavar="TREES", help="training trees; may be .gz or .xz")
    parser.add_argument("--validation", type=Path, metavar="TREES", help="to choose the best checkpoint by")
    parser.add_argument("--model", choices=("tg", "txl_cc", "txl_terminals"), default="tg")
    parser.add_argument("--configuration", choices=tuple(CONFIGURATIONS), default="demo")
    add_vocabulary(parser, "unknown_classes; of bllip_sent and bllip_doc sentencepiece")
    parser.set_defaults(vocabulary=None)
    parser.add_argument("--cache", type=Path, help="where encoded trees are kept (default: DIRECTORY/cache)")
    add_training_reading(parser)
    parser.add_argument(
        "--documents",
        choices=("none", "blank", "column"),
        nargs="?",
        const="blank",
        default="none",
        help="make one (DOC ...) of the sentences between blank lines, or of lines with the same name before a tab",
    )
    parser.add_argument(
        "--distinct-attention", action="store_true", default=None, help="of a tg: separate weights for COMPOSE"
    )
    parser.add_argument("--memory", choices=("stack", "shift"))
    parser.add_argument("--positions", choices=("depth", "linear"))
    help_text = "of a tg: layers whose attention sees everything before: the top N, or with -N the bottom N"
    help_text += " (default: the configuration's)"
    parser.add_argument("--unrestricted-layers", type=int, metavar="N", help=help_text)
    parser.add_argument("--unrestricted-heads", type=int, metavar="N")


def build(options: argparse.Namespace, ops: ModuleType, group: Communicator) -> Job:
    """Return the job that the options ask for."""
    config, training = configured(*CONFIGURATIONS[options.configuration][options.model], options, _FROM_DATA)
    for name in ("memory", "positions"):
        if options.model != "tg" and getattr(options, name) is not None and not options.resume:
            raise OptionError(name, "is for tg: leave it out")
    require_data(options)
    reading, notes = training_reading(options, Reading(documents=options.documents))
    left_out: dict[Path, list[int]] = {}
    vocabulary, labels = _vocabulary(options, reading, left_out)
    config = replace(config, vocabulary_size=len(vocabulary))
    with open_to_words():
        corpus, held_out = (_corpus(path, vocabulary, options, reading) for path in (options.data, options.validation))
    batching = shared(ops, group, training)
    size = training.batch_size
    return Job(
        transformer_grammar,
        config,
        training,
        vocabulary,
        Batches(corpus, vocabulary, config, size, seed=training.seed, epochs=None, **batching),
        None if held_out is None else lambda: Batches(held_out, vocabulary, config, size, **batching),
        f"{len(corpus):,} trees, {len(corpus.actions):,} actions"
        + "".join(f"; {path.name}: {len(lines):,} without tags left out" for path, lines in left_out.items() if lines),
        reading,
        notes=(described(vocabulary), *labels, *notes),
    )


def _vocabulary(
    options: argparse.Namespace, reading: Reading, left_out: dict[Path, list[int]]
) -> tuple[Vocabulary, tuple[str, ...]]:
    """Return the run's vocabulary, and a note on labels that only the validation trees have.

    A resumed run reads its stored vocabulary. Otherwise every process builds the vocabulary: the words are those of the
    training trees, the labels those of both treebanks. A label that the training trees do not have is not learned. A
    txl_terminals has no labels. Both treebanks are read to their end, so that a bad tree is reported before training.
    `left_out` gets the lines of the trees that are left out.
    """
    if (old_vocabulary := stored_vocabulary(options)) is not None:
        return old_vocabulary, ()
    kind = options.vocabulary or _VOCABULARIES[options.configuration]
    extra: set[str] = set()
    if options.validation is not None:
        for sentence in read_whole(options.validation, reading, left_out.setdefault(options.validation, []), gaps=True):
            extra |= labels_of(sentence.tree)
    size = size_of(kind, options.vocabulary_size, _PIECES.get(options.configuration, PIECES))

    def build(more: list[str]) -> Vocabulary:
        left_out[options.data] = []
        sentences = read_whole(options.data, reading, left_out[options.data], gaps=True)
        trees = (sentence.tree for sentence in sentences)
        if options.model == "txl_terminals":
            return building.build_of_words(map(words, trees), kind, **size)
        return building.build(trees, kind, extra=more, **size)

    vocabulary = build([])
    if options.model == "txl_terminals":
        return vocabulary, ()
    only = sorted(extra.difference(vocabulary.labels))
    if not only:
        return vocabulary, ()
    return build(only), (f"labels only in {options.validation.name}, not learned: {', '.join(only)}",)


def _corpus(path: Path | None, vocabulary: Vocabulary, options: argparse.Namespace, reading: Reading) -> Corpus | None:
    if path is None:
        return None
    corpus = load_corpus(path, vocabulary, options.cache or options.out / "cache", reading)
    if not len(corpus):
        raise LineError(path, 0, NONE_TAGGED)
    return corpus
