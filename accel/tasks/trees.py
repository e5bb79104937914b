"""Transformer Grammars and the Transformer-XL models beside them, on treebanks."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from accel.commands.opened import add_reading, changed
from accel.data.batches.trees import Batches
from accel.data.corpora.tagged import read_tagged, read_whole
from accel.data.corpora.treebank import Corpus, Reading, load_corpus
from accel.data.vocabularies import vocabulary as vocabularies
from accel.data.vocabularies.vocabulary import KINDS, Vocabulary
from accel.models.transformer_grammars import model as transformer_grammar
from accel.models.transformer_grammars.model import CONFIGURATIONS
from accel.tasks import Job, configured, require_data
from accel.training.communicator import Communicator
from accel.training.directory import VOCABULARY, load_vocabulary

_VOCABULARIES: dict[str, tuple[str, int | None]] = {
    "demo": ("words", None),
    "ptb": ("unknown_classes", None),
    "bllip_sent": ("sentencepiece", 32_768),
    "bllip_doc": ("sentencepiece", 32_768),
}
_FROM_DATA = ("model", "vocabulary_size")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, metavar="TREES", help="training trees; may be .gz or .xz")
    parser.add_argument("--validation", type=Path, metavar="TREES", help="to choose the best checkpoint by")
    parser.add_argument("--model", choices=("tg", "txl_cc", "txl_terminals"), default="tg")
    parser.add_argument("--configuration", choices=tuple(CONFIGURATIONS), default="demo")
    parser.add_argument("--vocabulary", choices=KINDS, help="what terminals are (default: as the configuration's)")
    parser.add_argument("--vocabulary-size", type=int, metavar="V", help="the most ids; for sentencepiece their number")
    parser.add_argument("--cache", type=Path, help="where encoded trees are kept (default: DIRECTORY/cache)")
    add_reading(parser, default=False, otherwise="no")
    parser.add_argument(
        "--documents",
        choices=("none", "blank", "column"),
        nargs="?",
        const="blank",
        default="none",
        help="one (DOC ...) of the sentences between blank lines, or of lines that begin with the same name and a tab",
    )
    parser.add_argument("--distinct-attention", action="store_true", default=None, help="COMPOSE has its own weights")
    parser.add_argument("--memory", choices=("stack", "shift"))
    parser.add_argument("--positions", choices=("depth", "linear"))
    parser.add_argument("--unrestricted-layers", type=int, metavar="N", help="the top N layers; -N: the bottom ones")
    parser.add_argument("--unrestricted-heads", type=int, metavar="N")


def build(options: argparse.Namespace, ops: ModuleType, group: Communicator) -> Job:
    """Return the job that the options ask for."""
    require_data(options)
    config, training = configured(*CONFIGURATIONS[options.configuration][options.model], options, _FROM_DATA)
    reading = changed(Reading(documents=options.documents), options)
    vocabulary = _vocabulary(options, reading)
    config = replace(config, vocabulary_size=len(vocabulary))
    corpus, held_out = (_corpus(path, vocabulary, options, reading) for path in (options.data, options.validation))
    read: dict[str, Any] = {"ops": ops, "rank": group.rank, "ranks": group.size}
    size = training.batch_size
    return Job(
        transformer_grammar,
        config,
        training,
        vocabulary,
        Batches(corpus, vocabulary, config, size, seed=training.seed, epochs=None, **read),
        None if held_out is None else lambda: Batches(held_out, vocabulary, config, size, **read),
        f"{len(corpus):,} trees, {len(corpus.actions):,} actions; {len(vocabulary):,} ids ({vocabulary.kind})",
        reading,
    )


def _vocabulary(options: argparse.Namespace, reading: Reading) -> Vocabulary:
    """Return the run's vocabulary: the one that is there, or one made from the training trees on every process."""
    if options.resume and (options.out / VOCABULARY).exists():
        return load_vocabulary(options.out)
    kind, size = _VOCABULARIES[options.configuration]
    kind, size = options.vocabulary or kind, options.vocabulary_size or (size if options.vocabulary is None else None)
    trees = (sentence.tree for sentence in read_whole(options.data, reading))
    vocabulary = vocabularies.build(trees, kind, size)
    if options.validation is not None:
        for _ in read_tagged(options.validation, reading):  # what is wrong with these trees is said before training
            pass
    return vocabulary


def _corpus(path: Path | None, vocabulary: Vocabulary, options: argparse.Namespace, reading: Reading) -> Corpus | None:
    return None if path is None else load_corpus(path, vocabulary, options.cache or options.out / "cache", reading)
