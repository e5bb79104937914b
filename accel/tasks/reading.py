"""The options that say how trees are read, for tasks and commands."""

from __future__ import annotations

import argparse
from dataclasses import replace

from accel.data.corpora.treebank import Reading


def add_reading(parser: argparse.ArgumentParser, default: bool | None, otherwise: str) -> None:
    """Add the options that say what of a tree goes when it is read."""
    for name, what in (
        ("--drop-traces", "drop (-NONE- ...) and what is empty without"),
        ("--drop-function-tags", "cut labels as NP-SBJ to NP"),
        ("--keep-tags", "take the trees as they are; else part-of-speech tags are dropped, which every word must have"),
        ("--leave-out-untagged", "leave out trees in which not every word has a tag of its own, and count them"),
    ):
        parser.add_argument(
            name, action=argparse.BooleanOptionalAction, default=default, help=f"{what} (default: {otherwise})"
        )


def changed(reading: Reading, options: argparse.Namespace) -> Reading:
    """Return the reading with what the options change of it."""
    keep = options.keep_tags
    chosen = {
        "drop_traces": options.drop_traces,
        "drop_function_tags": options.drop_function_tags,
        "drop_preterminals": None if keep is None else not keep,
        "leave_out_untagged": options.leave_out_untagged,
    }
    return replace(reading, **{name: value for name, value in chosen.items() if value is not None})
