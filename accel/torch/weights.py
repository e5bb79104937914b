"""Parameters under Grove's names: in modules, from trained models, and back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from accel.trained.weights import read_weights, write_weights


def new_seed() -> int:
    """Return a seed drawn by PyTorch's generator, so that `torch.manual_seed` makes the results reproducible."""
    return int(torch.randint(2**62, ())) % 2**62  # the rest is the same number, and tells torch.compile its range


def hold(module: nn.Module, arrays: Mapping[str, np.ndarray], prefix: str) -> None:
    """Register in a module the parameters whose names begin with `prefix`, under their names without it."""
    for name in (name for name in arrays if name.startswith(prefix)):
        *path, last = name.removeprefix(prefix).split(".")
        inner = module
        for part in path:
            inner = inner._modules.setdefault(part, nn.Module())
        inner.register_parameter(last, nn.Parameter(torch.from_numpy(arrays[name])))


def load_weights(run: str | Path, prefix: str = "") -> dict[str, Tensor]:
    """Return the parameters of a trained model whose names begin with `prefix`, by their names without it.

    A module's `load_state_dict` takes them. The prefix is "cells." for OnLstm, "layers.0.attention." for
    StackComposeAttention, "chart." for CkyPooling, and "composition." for PrunedInsideOutside. `run` is a folder that
    `grove train` or `grove export` wrote, or a checkpoint. Raises CheckpointError if `run` is neither, ValueError if no
    name begins with `prefix`.
    """
    parameters = read_weights(run)
    names = [name for name in parameters if name.startswith(prefix)]
    if not names:
        raise ValueError(f"prefix: {prefix!r} begins no parameter of {run}, which has {', '.join(parameters)}")
    return {name.removeprefix(prefix): torch.from_numpy(parameters[name]) for name in names}


def save_weights(run: str | Path, folder: str | Path, weights: Mapping[str, Tensor], prefix: str = "") -> None:
    """Write a folder that Grove opens: the model of `run` with these weights, each under `prefix` and its name.

    Everything else but the results of validation is copied from `run`. Raises ValueError for complex numbers, and the
    errors of `accel.trained.weights.write_weights`.
    """
    for name in (name for name, x in weights.items() if x.is_complex()):
        raise ValueError(f"{prefix}{name}: {weights[name].dtype}, expected real numbers: give its .real")
    write_weights(run, folder, {prefix + name: x.detach().cpu().double().numpy() for name, x in weights.items()})
