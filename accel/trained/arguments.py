"""Checks of what callers in Python give: opened models, trees, and the options of a file of proposals."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from accel.data.corpora.treebank import Reading
from accel.trained.opening import Model
from accel.trained.options import OptionError, check_number
from refimpl.trees import Tree

OF_FILE = ("numbered", "gold", "documents", "n_sentences", "max_words")
"""The options of a file of proposals, see `accel.data.corpora.gathered.gather`."""


def model_of(name: str, opened: Any) -> Model:
    """Return the model of an argument; ValueError unless `trained.open` has opened it."""
    if isinstance(opened, str | Path):
        raise ValueError(f'{name}: give trained.open("{opened}")')
    model = getattr(opened, "model", None)
    if not isinstance(model, Model):
        raise _of_type(name, opened, "a model that trained.open returns")
    return model


def models_of(name: str, opened: Any) -> list[Model]:
    """Return the models of a list; ValueError unless `trained.open` has opened them."""
    if isinstance(opened, str | Path) or not isinstance(opened, Iterable):
        raise _of_type(name, opened, "a list of models that trained.open returns")
    return [model_of(name, one) for one in opened]


def check_trees(name: str, trees: Any) -> None:
    """Raise ValueError for what is no string, no tree and no list, and for the name of a file that is no `Path`."""
    if isinstance(trees, str) and os.path.isfile(trees):
        raise ValueError(f'{name}: {trees} is a file: give pathlib.Path("{trees}")')
    if not isinstance(trees, str | Tree | Path | Iterable):
        raise _of_type(name, trees, "a string, a list or a pathlib.Path")


def check_reading(reading: Any) -> None:
    """Raise ValueError unless a reading is a `Reading` or None."""
    if reading is not None and not isinstance(reading, Reading):
        raise _of_type("reading", reading, "an accel.data.corpora.treebank.Reading")


def check_of_file(options: Mapping[str, Any], proposals: Any) -> None:
    """Raise OptionError for an option that no file of proposals has, or if the proposals are in no file."""
    for name, value in options.items():
        if name not in OF_FILE:
            raise OptionError(name, f"is no option of perplexity: those of a file are {', '.join(OF_FILE)}")
        if not isinstance(proposals, Path):
            raise OptionError(name, "is for a file of proposals")
        if name in ("n_sentences", "max_words") and value is not None:
            check_number(name, value)


def _of_type(name: str, value: Any, use: str) -> ValueError:
    return ValueError(f"{name}: is of type {type(value).__name__}: give {use}")
