"""Parameters under Grove's names: in modules, from trained models, and back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from accel.trained.weights import read_weights, write_weights


def new_seed() -> int:
    """Return a seed drawn from PyTorch's, so that `torch.manual_seed` fixes what follows from it."""
    return int(torch.randint(2**62, ()))


def hold(module: nn.Module, arrays: Mapping[str, np.ndarray], prefix: str) -> None:
    """Give a module the parameters whose names begin with `prefix`, under the rest of their names."""
    for name, array in arrays.items():
        if name.startswith(prefix):
            *path, last = name.removeprefix(prefix).split(".")
            inner = module
            for part in path:
                if part not in inner._modules:
                    inner.add_module(part, nn.Module())
                inner = inner.get_submodule(part)
            inner.register_parameter(last, nn.Parameter(torch.from_numpy(array)))


def load_weights(run: str | Path, prefix: str = "") -> dict[str, Tensor]:
    """Return the parameters of a trained model whose names begin with `prefix`, by the rest of their names.

    They are what `load_state_dict` of a module takes: of the prefix "cells." OnLstm, "layers.0.attention."
    StackComposeAttention, "chart." CkyPooling, "composition." PrunedInsideOutside. `run` is a folder that `grove train`
    or `grove export` wrote, or a checkpoint. Raises CheckpointError if it is none, ValueError if no name fits.
    """
    parameters = read_weights(run)
    names = [name for name in parameters if name.startswith(prefix)]
    if not names:
        raise ValueError(f"prefix: {prefix!r} begins no parameter of {run}, which has {', '.join(parameters)}")
    return {name.removeprefix(prefix): torch.from_numpy(parameters[name]) for name in names}


def save_weights(run: str | Path, folder: str | Path, weights: Mapping[str, Tensor], prefix: str = "") -> None:
    """Write a folder that Grove opens: the model of `run` with these weights, each under `prefix` and its name.

    All else is that of `run`. Raises the errors of `accel.trained.weights.write_weights`.
    """
    write_weights(run, folder, {prefix + name: x.detach().cpu().numpy() for name, x in weights.items()})
