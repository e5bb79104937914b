"""The options of a word-level search, and of proposals in its place, for commands with models of trees."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import ModuleType
from typing import Any

from accel.trained.kinds import LABELLED_TREES, PROPOSALS, SEARCHES, can, require
from accel.trained.opening import Model, open_model

OF_TREES = {
    "word_beam": "of those, beginnings kept after every word (a tenth of --beam)",
    "fast_track": "of those, best ones with the next word that are kept whatever the others have (a twentieth)",
    "max_open": "the most constituents that are open at a time (50)",
    "max_opens": "the most that are opened one after the other (10)",
}
"""Those that only a TG or a TXL (CC) has a use for."""


def add_search(parser: argparse.ArgumentParser) -> None:
    """Add --beam, and the options of a search with labelled constituents."""
    what = "parses kept of a sentence (a GPST: 20, the paper's 300; a TG or TXL (CC): 100)"
    parser.add_argument("--beam", type=int, help=what)
    for name, what in OF_TREES.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, metavar="N", help=f"of a TG or TXL (CC): {what}")


def add_proposals(parser: argparse.ArgumentParser) -> None:
    """Add the options that put a parser's proposals in the place of a search."""
    what = "of a TG or TXL (CC): sums over the trees that this parser proposes, as in the paper, and no search"
    parser.add_argument("--parser", type=Path, metavar="RUN", help=what)
    parser.add_argument("--proposals-per-sentence", type=int, metavar="J", help="how many it proposes (300)")


def surprisals_of(ops: ModuleType, model: Model, options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of `accel.scoring.surprisals.bits_of_words` that were given; the parser is loaded.

    Raises
    ------
    ValueError
        As `search_of`; if there is no use for a parser, or it is none.
    """
    search, count = search_of(model, options), options.proposals_per_sentence
    if options.parser is None:
        if count is not None:
            raise ValueError("--proposals-per-sentence: is for --parser")
        return dict(search)
    if not can(model, LABELLED_TREES):
        raise ValueError(f"--parser: {model.path} is no TG and no TXL (CC)")
    if search:
        raise ValueError(f"--{next(iter(search)).replace('_', '-')}: there is no search with --parser")
    if count is not None and count < 1:
        raise ValueError(f"--proposals-per-sentence {count}: at least 1 is needed")
    parser = open_model(ops, options.parser)
    require(parser, PROPOSALS)
    return {"parser": parser} | ({} if count is None else {"n_proposals": count})


def search_of(model: Model, options: argparse.Namespace) -> dict[str, int]:
    """Return the options of the search that were given.

    Raises
    ------
    ValueError
        If one is not for this model, or too small.
    """
    given = {name: getattr(options, name) for name in ("beam", *OF_TREES) if getattr(options, name) is not None}
    for name, value in given.items():
        option, least = f"--{name.replace('_', '-')}", int(name != "fast_track")
        if not can(model, LABELLED_TREES if name in OF_TREES else SEARCHES):
            raise ValueError(f"{option}: {model.path} is not searched with one")
        if value < least:
            raise ValueError(f"{option} {value}: at least {least} is needed")
    return given
