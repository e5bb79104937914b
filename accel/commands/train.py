"""`grove train`: from treebanks to a trained model in a directory of its own."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from math import prod
from pathlib import Path
from typing import Any

import accel
from accel.commands.models import add_reading, changed
from accel.commands.processes import COMMUNICATORS, open_group
from accel.communicator import Communicator
from accel.data import vocabulary as vocabularies
from accel.data.batches import Batches
from accel.data.tagged import read_tagged, read_whole
from accel.data.treebank import Corpus, Reading, load_corpus
from accel.data.vocabulary import KINDS, Vocabulary
from accel.models import transformer_grammar
from accel.models.transformer_grammar import CONFIGURATIONS, Config
from accel.run import BEST, METRICS, NEWEST
from accel.saved import SETTINGS, VOCABULARY, digest, load_settings, load_vocabulary, save_settings, write_text
from accel.train import TrainingConfig, TrainingError, train

_VOCABULARIES: dict[str, tuple[str, int | None]] = {
    "demo": ("words", None),
    "ptb": ("unknown_classes", None),
    "bllip_sent": ("sentencepiece", 32_768),
    "bllip_doc": ("sentencepiece", 32_768),
}
_TRUTHS = {"true": True, "false": False}
_PARSERS: dict[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "str": str,
    "bool": _TRUTHS.__getitem__,
    "float | None": lambda text: None if text == "none" else float(text),
}
_FROM_DATA = ("model", "vocabulary_size")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, required=True, metavar="DIRECTORY", help="where the run lives")
    parser.add_argument("--resume", action="store_true", help="go on; what is not given is as when the run started")
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
    parser.add_argument("--backend", default="cpu", choices=accel.BACKENDS)
    parser.add_argument("--communicator", choices=COMMUNICATORS, help="default: mpi under mpirun, else serial")
    settings = parser.add_argument_group("settings")
    settings.add_argument("--steps", type=int)
    settings.add_argument("--batch-size", type=int, help="rows of the batch, of all processes together")
    settings.add_argument("--seed", type=int)
    settings.add_argument("--distinct-attention", action="store_true", default=None, help="COMPOSE has its own weights")
    settings.add_argument("--memory", choices=("stack", "shift"))
    settings.add_argument("--positions", choices=("depth", "linear"))
    settings.add_argument("--unrestricted-layers", type=int, metavar="N", help="the top N layers; -N: the bottom ones")
    settings.add_argument("--unrestricted-heads", type=int, metavar="N")
    settings.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="any other setting, as d_model=96"
    )


def run(options: argparse.Namespace) -> int:
    directory: Path = options.out
    if options.data is None:
        raise ValueError("train: --data is missing" + (f": {directory} holds no run yet" if options.resume else ""))
    if not options.resume and any((directory / name).exists() for name in (METRICS, NEWEST)):
        raise TrainingError(f"{directory}: holds a run already: resume it, or choose another directory")
    config, training = configured(options)
    group = open_group(options.communicator)
    ops = accel.load(options.backend)
    reading = changed(Reading(documents=options.documents), options)
    directory.mkdir(parents=True, exist_ok=True)
    vocabulary = _vocabulary(options, reading, group)
    config = replace(config, vocabulary_size=len(vocabulary))
    corpus, held_out = (_corpus(path, vocabulary, options, reading) for path in (options.data, options.validation))
    if group.rank == 0:
        save_settings(directory, reading, _plain(options))
        _describe(config, vocabulary, corpus, group)
    read: dict[str, Any] = {"ops": ops, "rank": group.rank, "ranks": group.size}
    size = training.batch_size
    with Batches(corpus, vocabulary, config, size, seed=training.seed, epochs=None, **read) as batches:
        train(
            ops,
            transformer_grammar,
            config,
            training,
            batches,
            directory,
            validation=None if held_out is None else lambda: Batches(held_out, vocabulary, config, size, **read),
            vocabulary=digest(vocabulary),
            communicator=group,
            resume=options.resume,
        )
    if group.rank == 0:
        print(directory / (NEWEST if held_out is None else BEST))
    return 0


def stored_options(argv: list[str], parser: argparse.ArgumentParser) -> dict[str, Any]:
    """Return the options with which a run that is to be resumed was started; the defaults of this command line."""
    first, _ = parser.parse_known_args(argv)
    if not first.resume or not (first.out / SETTINGS).exists():
        return {}
    _, options = load_settings(first.out)
    paths = ("data", "validation", "cache")
    return {name: Path(value) if name in paths and value else value for name, value in options.items()}


def configured(options: argparse.Namespace) -> tuple[Config, TrainingConfig]:
    """Return the configuration of the name with everything that the options change."""
    config, training = CONFIGURATIONS[options.configuration][options.model]
    kinds = {f.name: str(f.type) for cls in (Config, TrainingConfig) for f in fields(cls) if f.name not in _FROM_DATA}
    given = {name: getattr(options, name) for name in kinds if getattr(options, name, None) is not None}
    for setting in options.set:
        name, equals, text = setting.partition("=")
        if not equals or name not in kinds:
            raise ValueError(f"--set {setting}: not NAME=VALUE with a name of {', '.join(sorted(kinds))}")
        try:
            given[name] = _PARSERS[kinds[name]](text)
        except (KeyError, ValueError) as error:
            raise ValueError(f"--set {setting}: {text!r} is no {kinds[name]}") from error
    of_model = {f.name for f in fields(Config)}
    return (
        replace(config, **{name: value for name, value in given.items() if name in of_model}),
        replace(training, **{name: value for name, value in given.items() if name not in of_model}),
    )


def _vocabulary(options: argparse.Namespace, reading: Reading, group: Communicator) -> Vocabulary:
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
    if group.rank == 0:
        write_text(options.out / VOCABULARY, vocabulary.to_json() + "\n")
    return vocabulary


def _corpus(path: Path | None, vocabulary: Vocabulary, options: argparse.Namespace, reading: Reading) -> Corpus | None:
    return None if path is None else load_corpus(path, vocabulary, options.cache or options.out / "cache", reading)


def _plain(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options as JSON can hold them, without those that concern this process only."""
    passing = ("out", "resume", "backend", "communicator", "threads", "traceback")
    kept = {name: value for name, value in vars(options).items() if name not in passing}
    return {name: str(value.resolve()) if isinstance(value, Path) else value for name, value in kept.items()}


def _describe(config: Config, vocabulary: Vocabulary, corpus: Corpus, group: Communicator) -> None:
    count = sum(prod(shape) for shape in transformer_grammar.parameter_shapes(config).values())
    together = f"; {group.size} processes" if group.size > 1 else ""
    print(
        f"{config.model}: {count:,} parameters; {len(corpus):,} trees, {len(corpus.actions):,} actions; "
        f"{len(vocabulary):,} ids ({vocabulary.kind}){together}",
        file=sys.stderr,
    )
