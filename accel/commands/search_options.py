"""The options of a word-level search, and of proposals instead of it, for commands with models of trees."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from accel.trained.kinds import LABELLED_TREES, PROPOSALS, SEARCHES, can, require
from accel.trained.opening import Model, open_model

OF_TREES = {
    "word_beam": "parses of --beam kept after every word (a tenth of --beam)",
    "fast_track": "parses of --beam that are kept in any case, the best with the next word (a twentieth of --beam)",
    "max_open": "the most constituents open at a time (50)",
    "max_opens": "the most constituents opened in a row (10)",
}
"""The options that are for a TG or a TXL (CC) only."""


def add_search(parser: argparse.ArgumentParser) -> None:
    """Add --beam, and the options of a search with labelled constituents."""
    help_text = "parses kept of a sentence (a GPST: 20, the paper's 300; a TG or TXL (CC): 100)"
    parser.add_argument("--beam", type=int, help=help_text)
    for name, help_text in OF_TREES.items():
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=int, metavar="N", help=f"of a TG or TXL (CC): {help_text}")


def add_proposals(parser: argparse.ArgumentParser) -> None:
    """Add the options that replace a search by a parser's proposals."""
    help_text = "of a TG or TXL (CC): sum over the trees that this parser proposes, as in the paper, without a search"
    parser.add_argument("--parser", type=Path, metavar="RUN", help=help_text)
    parser.add_argument("--proposals-per-sentence", type=int, metavar="J", help="trees that --parser proposes (300)")


def surprisals_of(ops: ModuleType, model: Model, options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of `accel.scoring.surprisals.bits_of_words` that were given; the parser is loaded.

    Raises
    ------
    ValueError
        As `search_of`; if --parser is not for this model, or names no parser.
    """
    search, count = search_of(model, options), options.proposals_per_sentence
    if options.parser is None:
        if count is not None:
            raise ValueError("--proposals-per-sentence: is for --parser")
        return dict(search)
    if not can(model, LABELLED_TREES):
        raise ValueError(f"--parser: is for a TG or a TXL (CC), and {model.path} is neither")
    if search:
        raise ValueError(
            f"--{next(iter(search)).replace('_', '-')}: is for a search: leave it out, or leave out --parser"
        )
    if count is not None and count < 1:
        raise ValueError(f"--proposals-per-sentence {count}: at least 1 is needed")
    parser = open_model(ops, options.parser)
    require(parser, PROPOSALS)
    return {"parser": parser} | ({} if count is None else {"n_proposals": count})


def search_settings(search: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of `surprisals_of` as JSON can hold them: a parser by its path."""
    return {name: str(value.path) if name == "parser" else value for name, value in search.items()}


def search_of(model: Model, options: argparse.Namespace) -> dict[str, int]:
    """Return the options of the search that were given.

    Raises
    ------
    ValueError
        If one is not for this model, or too small.
    """
    search = {name: getattr(options, name) for name in ("beam", *OF_TREES) if getattr(options, name) is not None}
    for name, value in search.items():
        option, least = f"--{name.replace('_', '-')}", int(name != "fast_track")
        if not can(model, LABELLED_TREES if name in OF_TREES else SEARCHES):
            raise ValueError(f"{option}: the model {model.path} has no such search")
        if value < least:
            raise ValueError(f"{option} {value}: at least {least} is needed")
    return search
