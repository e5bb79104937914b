"""Trained models: `open` one; the abilities of every kind, words to ids, averages, released weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accel.trained.interface import TrainedModel

__all__ = ["open"]


def open(path: str | Path, backend: str = "cpu") -> TrainedModel:
    """Return a trained model of any kind, ready to be used.

    Parameters
    ----------
    path : str or Path
        A run's directory, whose best checkpoint is opened, or else the newest; a checkpoint of a run; or a folder that
        `grove export` wrote.
    backend : "ref", "cpu" or "cuda"

    Raises
    ------
    CheckpointError
        If `path` is none of these; the one line of the message says what is missing.
    BackendUnavailable
        If the backend cannot run here.
    """
    from accel.trained.interface import open_trained

    return open_trained(path, backend)
