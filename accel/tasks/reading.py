"""The options of tasks and commands for reading trees."""

from __future__ import annotations

import argparse
from dataclasses import replace

from accel.data.corpora.treebank import Reading, survey
from accel.data.files.lines import LineError
from accel.trained.options import OptionError
from accel.training.directory import SETTINGS, load_settings

TAGGED = 0.9
"""A treebank counts as tagged if at least this share of its words has a part-of-speech tag."""


OPTIONS = ("drop_traces", "drop_function_tags", "keep_tags", "leave_out_untagged")


def add_reading(parser: argparse.ArgumentParser, default: bool | None, otherwise: str, tags: str | None = None) -> None:
    """Add the options for the parts of trees that are dropped; `otherwise` describes their default in the help.

    If --keep-tags has another default, `tags` describes it.
    """
    for name, help_text in (
        ("--drop-traces", "drop (-NONE- ...), and constituents that are empty without it"),
        ("--drop-function-tags", "cut labels such as NP-SBJ to NP"),
        ("--keep-tags", "keep part-of-speech tags; else they are dropped, and every word must have one"),
        ("--leave-out-untagged", "leave out trees with words that have no tag, and count these trees"),
    ):
        is_own = name == "--keep-tags" and tags is not None
        parser.add_argument(
            name,
            action=argparse.BooleanOptionalAction,
            default=None if is_own else default,
            help=f"{help_text} (default: {tags if is_own else otherwise})",
        )


def add_training_reading(parser: argparse.ArgumentParser) -> None:
    """Add the options for the reading of training trees."""
    add_reading(parser, default=False, otherwise="no", tags="drop them where the first trees have them")


def training_reading(options: argparse.Namespace, reading: Reading) -> tuple[Reading, tuple[str, ...]]:
    """Return how the training trees are read, and notes on what was decided; a resumed run reads as it did before.

    Part-of-speech tags are dropped where the first trees have them, unless an option decides.
    """
    if options.resume and (options.out / SETTINGS).exists():
        old_reading, _ = load_settings(options.out)
        return changed(old_reading or reading, options), ()
    if options.keep_tags and options.leave_out_untagged:
        raise OptionError("leave_out_untagged", "is for tags that are dropped, and --keep-tags keeps them")
    reading, notes = changed(reading, options), []
    try:
        counts = survey(options.data, reading)
    except LineError as error:
        if error.reason.startswith("terminal outside the root"):
            use = "trees in brackets, such as (S (NP they) (VP sing)); for text --task language_model or gpst"
            raise ValueError(f"{error}; use {use}") from error
        raise
    if options.keep_tags is None:
        is_tagged = counts.tagged >= TAGGED
        reading = replace(reading, drop_preterminals=is_tagged)
        notes.append(
            "part-of-speech tags: dropped (--keep-tags keeps them)"
            if is_tagged
            else "part-of-speech tags: there are none"
        )
    if counts.traces:
        notes.append("traces (-NONE- ...): read as words; --drop-traces drops them")
    if counts.function_tags and not reading.drop_function_tags:
        notes.append("labels such as NP-SBJ: read as they are; --drop-function-tags cuts them to NP")
    return reading, tuple(notes)


def refuse_reading(options: argparse.Namespace, reason: str) -> None:
    """Raise OptionError if an option for the reading of trees is given where no trees are read."""
    for name in OPTIONS:
        if (value := getattr(options, name)) is not None:
            raise OptionError(name if value else f"no_{name}", reason)


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
