"""Language models trained with the released code of ON-LSTM and FastTrees.

Their tensors have PyTorch's names, in a safetensors file: `encoder.weight`, which the output layer shares,
`decoder.bias`, and for every layer `rnn.cells.0.ih.0.weight`, `rnn.cells.0.hh.weight` with their biases and
`rnn.convnet.0.conv1.weight`. The rows have the same order as in Grove.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from accel.models.fasttrees.language_model import Config, parameter_shapes
from accel.trained.tensor_file import read_tensor_file
from accel.training.checkpoint import CheckpointError, Tensors

_OUTSIDE = {"embedding": "encoder.weight", "output_bias": "decoder.bias"}
_PARTS = {"ih": "ih.0", "hh": "hh"}
_DUPLICATES = ("decoder.weight", ".net.0.weight", ".net.0.bias")  # second names of tensors


def read_released(path: Path, kind: str) -> tuple[Config, Tensors]:
    """Return the configuration of released weights of that kind, as far as their shapes show it, and the weights.

    Dropout rates are those of the paper. The released Faster FastTrees hold hidden-to-hidden weights that they do not
    use; these are left out. The convolution is the released one.

    Raises
    ------
    CheckpointError
        If the file cannot be read; if a tensor is missing, unknown, of another shape, or holds a NaN or an infinity.
    """
    if path.is_dir():
        raise CheckpointError(f"{path}: is a directory: name the .safetensors file in it")
    tensors = read_tensor_file(path)
    config = _config(path, tensors, kind)
    tied = tensors.get("decoder.weight")
    if tied is not None and not np.array_equal(tied, tensors["encoder.weight"]):
        raise CheckpointError(f"{path}: tensor decoder.weight is not encoder.weight: the model is not tied")
    parameters = {}
    for name, shape in parameter_shapes(config).items():
        released_name = _released_name(name)
        tensor = _get(path, tensors, released_name)
        if tensor.shape != shape:
            raise CheckpointError(f"{path}: tensor {released_name} has shape {tensor.shape}, not {shape}")
        parameters[name] = tensor.astype(np.float32)
        if not np.isfinite(parameters[name]).all():
            raise CheckpointError(f"{path}: tensor {released_name} holds a NaN or an infinity")
    released_names = {_released_name(name) for name in parameters}
    unused = (".hh.weight", ".hh.bias") if kind == "faster_fasttrees" else ()
    unknown = sorted(
        name for name in tensors if name not in released_names and not name.endswith((*_DUPLICATES, *unused))
    )
    if unknown:
        raise CheckpointError(f"{path}: tensor {unknown[0]} belongs to no {kind} language model")
    return config, parameters


def _config(path: Path, tensors: Tensors, kind: str) -> Config:
    """Return the configuration that follows from the shapes of the tensors."""
    vocabulary_size, embedding_size = _sizes(path, tensors, "encoder.weight")
    hidden_size = _sizes(path, tensors, "rnn.cells.0.hh.weight")[1]
    masters = _sizes(path, tensors, "rnn.cells.0.ih.0.weight")[0] - 4 * hidden_size  # 2 n
    n_layers = 1
    while f"rnn.cells.{n_layers}.ih.0.weight" in tensors:
        n_layers += 1
    if kind != "lstm" and (masters < 2 or 2 * hidden_size % masters):
        raise CheckpointError(f"{path}: tensor rnn.cells.0.ih.0.weight has {masters} rows of master gates: no {kind}")
    try:
        return Config(
            vocabulary_size,
            kind,
            embedding_size,
            hidden_size,
            n_layers,
            2 * hidden_size // masters if masters > 0 else 1,
            variant="released" if kind == "conv_fasttrees" else "paper",
        )
    except ValueError as error:
        raise CheckpointError(f"{path}: {error}") from error


def _released_name(name: str) -> str:
    """Return the released name of a parameter.

    Examples
    --------
    >>> _released_name("cells.0.ih.bias"), _released_name("cells.1.conv.weight")
    ('rnn.cells.0.ih.0.bias', 'rnn.convnet.1.conv1.weight')
    """
    if name in _OUTSIDE:
        return _OUTSIDE[name]
    _, layer, part, kind = name.split(".")
    return f"rnn.convnet.{layer}.conv1.{kind}" if part == "conv" else f"rnn.cells.{layer}.{_PARTS[part]}.{kind}"


def _get(path: Path, tensors: Tensors, name: str) -> np.ndarray:
    if name not in tensors:
        but = "no released language model of FastTrees; what Grove has exported needs no import"
        raise CheckpointError(f"{path}: tensor {name} is missing: {but}")
    return tensors[name]


def _sizes(path: Path, tensors: Tensors, name: str) -> tuple[int, int]:
    shape = _get(path, tensors, name).shape
    if len(shape) != 2:
        raise CheckpointError(f"{path}: tensor {name} has shape {shape}, not two dimensions")
    return shape
