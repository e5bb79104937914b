"""A safetensors file of published weights."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError
from safetensors.numpy import load_file

from accel.training.checkpoint import CheckpointError, Tensors


def read_tensor_file(path: Path) -> Tensors:
    """Return the tensors by their names.

    Raises
    ------
    CheckpointError
        If the file cannot be read, or holds numbers of a type that NumPy does not have.
    """
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path}: cannot be read as safetensors: {error}") from error
    except TypeError as error:
        raise CheckpointError(f"{path}: {error}: convert the tensors to float32") from error
