"""The options of a word-level search: which models take them, and their least values."""

from __future__ import annotations

from collections.abc import Mapping

from accel.trained.kinds import LABELLED_TREES, SEARCHES, can
from accel.trained.opening import Model
from accel.trained.options import OptionError, check_number

OF_TREES = {
    "word_beam": "parses kept after every word (a tenth of --beam)",
    "fast_track": "parses with the next word that are kept in addition to --beam (a twentieth of --beam)",
    "max_open": "the most constituents open at a time (50)",
    "max_opens": "the most constituents opened in a row (10)",
}
"""The options that only a TG or a TXL (CC) takes, and their meanings."""
OPTIONS = ("beam", *OF_TREES)


def check_search(model: Model, search: Mapping[str, int]) -> None:
    """Raise OptionError for an option that no search of this model takes, or whose value is too small."""
    for name, value in search.items():
        if name not in OPTIONS:
            raise OptionError(name, f"is no option of a search: these are {', '.join(OPTIONS)}")
        if not can(model, LABELLED_TREES if name in OF_TREES else SEARCHES):
            raise OptionError(name, f"the model {model.path} has no such search: leave it out")
        check_number(name, value, int(name != "fast_track"))
