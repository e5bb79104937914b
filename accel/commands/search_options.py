"""The options of a word-level search, and of proposals instead of it, for commands with models of trees."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from accel.commands.opened import require_several
from accel.scoring.surprisals import check_options, check_others, check_surprisals
from accel.search.options import OF_TREES, OPTIONS, check_search
from accel.tasks.numbers import at_least
from accel.trained.ensembles import ENSEMBLES
from accel.trained.opening import Model, open_model
from accel.trained.options import typed


def add_models(parser: argparse.ArgumentParser | argparse._MutuallyExclusiveGroup, *, required: bool = True) -> None:
    """Add --checkpoint, of one model or several of an ensemble."""
    help_text = "a run's directory, or a file; of a TG or TXL repeat it for an ensemble"
    more: dict[str, Any] = {"required": True} if required else {}
    parser.add_argument("--checkpoint", action="append", type=Path, metavar="RUN", help=help_text, **more)


def open_ensemble(ops: ModuleType, options: argparse.Namespace) -> tuple[Model, list[Model]]:
    """Return the first model, and the others of its ensemble; ValueError if they form none, or have no surprisals."""
    model, *others = (open_model(ops, path) for path in options.checkpoint)
    check_surprisals(model)
    require_several(options)
    check_others(model, others, options.ensemble or ENSEMBLES[0])
    return model, others


def add_search(parser: argparse.ArgumentParser, paper: str = "20, its paper 300") -> None:
    """Add --beam, and the options of a search with labelled constituents."""
    help_text = f"parses kept of a sentence (a GPST: {paper}; a TG or TXL (CC): 100)"
    parser.add_argument("--beam", type=at_least(1), help=help_text)
    for name, help_text in OF_TREES.items():
        least = at_least(0 if name == "fast_track" else 1)
        parser.add_argument(typed(name), type=least, metavar="N", help=f"of a TG or TXL (CC): {help_text}")


def add_proposals(parser: argparse.ArgumentParser) -> None:
    """Add the options that replace a search by a parser's proposals."""
    help_text = "of a TG or TXL (CC): sum over the trees that this parser proposes, as in the paper, without a search"
    parser.add_argument("--parser", type=Path, metavar="RUN", help=help_text)
    help_text = "trees that --parser proposes (300)"
    parser.add_argument("--proposals-per-sentence", type=at_least(1), metavar="J", help=help_text)


def surprisals_of(
    ops: ModuleType, model: Model, options: argparse.Namespace, others: Sequence[Model]
) -> dict[str, Any]:
    """Return the options of `accel.scoring.surprisals.bits_of_words` that were given; the parser is loaded.

    Raises
    ------
    OptionError
        As `search_of`; if --parser is not for this model.
    """
    search, count = search_of(model, options), options.proposals_per_sentence
    parser = None if options.parser is None else open_model(ops, options.parser)
    check_options(model, parser, count, search)
    settings: dict[str, Any] = {"parser": parser, "n_proposals": count}
    settings |= {"others": others, "ensemble": options.ensemble or ENSEMBLES[0]} if others else {}
    return search | {name: value for name, value in settings.items() if value is not None}


def search_settings(search: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of `surprisals_of` as JSON can hold them: models by their paths."""
    settings = {name: value for name, value in search.items() if name not in ("parser", "others")}
    if "parser" in search:
        settings["parser"] = str(search["parser"].path)
    if "others" in search:
        settings["others"] = [str(model.path) for model in search["others"]]
    return settings


def search_of(model: Model, options: argparse.Namespace) -> dict[str, int]:
    """Return the options of the search that were given; OptionError if one is not for this model, or too small."""
    search = {name: getattr(options, name) for name in OPTIONS if getattr(options, name) is not None}
    check_search(model, search)
    return search
