"""Options for the reading of trees, of tasks and commands."""

from __future__ import annotations

import argparse
from dataclasses import replace

from accel.data.corpora.treebank import Reading


def add_reading(parser: argparse.ArgumentParser, default: bool | None, otherwise: str) -> None:
    """Add the options for the parts of trees that are dropped; `otherwise` describes the default in the help."""
    for name, help_text in (
        ("--drop-traces", "drop (-NONE- ...), and constituents that are empty without it"),
        ("--drop-function-tags", "cut labels such as NP-SBJ to NP"),
        ("--keep-tags", "keep part-of-speech tags; else they are dropped, and every word must have one"),
        ("--leave-out-untagged", "leave out trees with words that have no tag, and count these trees"),
    ):
        parser.add_argument(
            name, action=argparse.BooleanOptionalAction, default=default, help=f"{help_text} (default: {otherwise})"
        )


def changed(reading: Reading, options: argparse.Namespace) -> Reading:
    """Return the reading with the changes that the options ask for."""
    keeps_tags = options.keep_tags
    changes = {
        "drop_traces": options.drop_traces,
        "drop_function_tags": options.drop_function_tags,
        "drop_preterminals": None if keeps_tags is None else not keeps_tags,
        "leave_out_untagged": options.leave_out_untagged,
    }
    return replace(reading, **{name: value for name, value in changes.items() if value is not None})
