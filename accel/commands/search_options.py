"""The options of a word-level search, for the commands that search with a model of trees."""

from __future__ import annotations

import argparse

from accel.models import gpst, transformer_grammar
from accel.saved import Model

OF_TREES = {
    "word_beam": "of those, beginnings kept behind every word (a tenth of --beam)",
    "fast_track": "of those, best ones with the next word that are kept whatever the others have (a twentieth)",
    "max_open": "the most constituents that are open at a time (50)",
    "max_opens": "the most that are opened one behind the other (10)",
}
"""Those that only a TG or a TXL (CC) has a use for."""


def add_search(parser: argparse.ArgumentParser) -> None:
    """Add --beam, and the options of a search with labelled constituents."""
    what = "parses kept of a sentence (a GPST: 20, the paper's 300; a TG or TXL (CC): 100)"
    parser.add_argument("--beam", type=int, help=what)
    for name, what in OF_TREES.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, metavar="N", help=f"of a TG or TXL (CC): {what}")


def search_of(model: Model, options: argparse.Namespace) -> dict[str, int]:
    """Return the options of the search that were given.

    Raises
    ------
    ValueError
        If one is not for this model, or too small.
    """
    has_trees = model.module is transformer_grammar and model.config.model != "txl_terminals"
    given = {name: getattr(options, name) for name in ("beam", *OF_TREES) if getattr(options, name) is not None}
    for name, value in given.items():
        option, least = f"--{name.replace('_', '-')}", int(name != "fast_track")
        if not has_trees and (name in OF_TREES or model.module is not gpst):
            raise ValueError(f"{option}: {model.path} is not searched with one")
        if value < least:
            raise ValueError(f"{option} {value}: at least {least} is needed")
    return given
