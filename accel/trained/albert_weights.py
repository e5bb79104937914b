"""The weights of a published ALBERT: a folder with config.json, its tensors and its SentencePiece model.

Tensors have the names of the `transformers` package, with or without the prefix "albert.". The heads that a published
model may also have are left out, except the head for masked tokens.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from accel.data.vocabularies.albert import AlbertPieces
from accel.models.albert.config import Config, parameter_shapes
from accel.trained.tensor_file import read_tensor_file
from accel.trained.torch_file import read_torch_file
from accel.training.checkpoint import CheckpointError, Tensors

HEADS = ("pooler", "narrow", "output_bias")
"""The prefixes of the names of parameters that a file may lack."""
FILES = ("model.safetensors", "pytorch_model.bin")
_PIECES = "spiece.model"
_LAYER = "encoder.albert_layer_groups.0.albert_layers.0."
_TABLES = {
    "embedding": "embeddings.word_embeddings.weight",
    "position": "embeddings.position_embeddings.weight",
    "type": "embeddings.token_type_embeddings.weight",
    "output_bias": "predictions.bias",
}
_MATRICES = {
    "widen": "encoder.embedding_hidden_mapping_in",
    "layer.attention.query": f"{_LAYER}attention.query",
    "layer.attention.key": f"{_LAYER}attention.key",
    "layer.attention.value": f"{_LAYER}attention.value",
    "layer.attention.output": f"{_LAYER}attention.dense",
    "layer.feed_forward.in": f"{_LAYER}ffn",
    "layer.feed_forward.out": f"{_LAYER}ffn_output",
    "narrow": "predictions.dense",
    "pooler": "pooler",
}
_NORMS = {
    "embedding_norm": "embeddings.LayerNorm",
    "layer.attention_norm": f"{_LAYER}attention.LayerNorm",
    "layer.feed_forward_norm": f"{_LAYER}full_layer_layer_norm",
    "narrow_norm": "predictions.LayerNorm",
}
_SETTINGS = {
    "vocab_size": "vocabulary_size", "embedding_size": "d_embedding", "hidden_size": "d_model",
    "intermediate_size": "d_ff", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads",
    "max_position_embeddings": "n_positions", "hidden_act": "activation", "layer_norm_eps": "norm_epsilon",
    "hidden_dropout_prob": "dropout", "attention_probs_dropout_prob": "attention_dropout",
    "classifier_dropout_prob": "class_dropout",
}  # fmt: skip
_ALWAYS = {"num_hidden_groups": 1, "inner_group_num": 1, "type_vocab_size": 2}


def read_albert(folder: Path) -> tuple[Config, Tensors, AlbertPieces]:
    """Return the configuration of a published model, its parameters and its pieces.

    The parameters are those of the encoder, and, as far as the file has them, of the pooler and of masked tokens.

    Raises
    ------
    CheckpointError
        If a file is missing or of another format; if a tensor is missing, of another shape, or not finite.
    """
    config, pieces = _config(folder), _pieces(folder)
    if len(pieces) != config.vocabulary_size:
        has = f"{len(pieces)} pieces, but the vocab_size of config.json is {config.vocabulary_size}"
        raise CheckpointError(f"{folder / _PIECES}: has {has}")
    path, tensors = _tensors(folder)
    parameters = {}
    for name, shape in parameter_shapes(config).items():
        key, is_transposed = published_name(name)
        if key not in tensors and name.startswith(HEADS):
            continue
        if key not in tensors:
            raise CheckpointError(f"{path}: tensor {key} is missing")
        tensor = tensors[key].T if is_transposed else tensors[key]
        if tensor.shape != shape:
            raise CheckpointError(f"{path}: tensor {key} has shape {tensors[key].shape}, not {shape[::-1]}")
        parameters[name] = np.ascontiguousarray(tensor, np.float32)
        if not np.isfinite(parameters[name]).all():
            raise CheckpointError(f"{path}: tensor {key} holds a NaN or an infinity")
    return config, parameters, pieces


def published_name(name: str) -> tuple[str, bool]:
    """Return the published name of a parameter, and whether the published tensor is the transpose.

    Examples
    --------
    >>> published_name("widen_bias"), published_name("pooler")
    (('encoder.embedding_hidden_mapping_in.bias', False), ('pooler.weight', True))
    >>> published_name("embedding_norm.scale")
    ('embeddings.LayerNorm.weight', False)
    """
    if name in _TABLES:
        return _TABLES[name], False
    norm, _, part = name.rpartition(".")
    if norm in _NORMS:
        return f"{_NORMS[norm]}.{'weight' if part == 'scale' else 'bias'}", False
    if name.endswith("_bias"):
        return f"{_MATRICES[name.removesuffix('_bias')]}.bias", False
    return f"{_MATRICES[name]}.weight", True


def _json(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be read as JSON: {error}") from error
    if not isinstance(values, dict):
        raise CheckpointError(f"{path}: holds no JSON object")
    return values


def _config(folder: Path) -> Config:
    path = folder / "config.json"
    settings = _json(path)
    if settings.get("model_type", "albert") != "albert":
        raise CheckpointError(f"{path}: describes a {settings['model_type']}, not an albert")
    if "vocab_size" not in settings:
        advice = "give the folder of one, with config.json, model.safetensors and spiece.model"
        raise CheckpointError(f"{path}: vocab_size is missing: no configuration of an ALBERT: {advice}")
    for name, value in _ALWAYS.items():
        if settings.get(name, value) != value:
            raise CheckpointError(f"{path}: {name} is {settings[name]}; only {value} is known")
    try:
        return Config(**{ours: settings[name] for name, ours in _SETTINGS.items() if name in settings})
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: {error}") from error


def _pieces(folder: Path) -> AlbertPieces:
    path, settings = folder / _PIECES, folder / "tokenizer_config.json"
    config = _json(settings) if settings.exists() else {}
    try:
        return AlbertPieces(path.read_bytes(), config.get("do_lower_case", True), config.get("keep_accents", False))
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise CheckpointError(f"{path}: {error}") from error


def _tensors(folder: Path) -> tuple[Path, Tensors]:
    """Return the path of the file with the tensors, and the tensors by their names without "albert."."""
    path = next((folder / name for name in FILES if (folder / name).exists()), None)
    if path is None:
        raise CheckpointError(f"{folder}: has neither {' nor '.join(FILES)}")
    tensors = read_tensor_file(path) if path.suffix == ".safetensors" else read_torch_file(path)
    return path, {name.removeprefix("albert."): tensor for name, tensor in tensors.items()}
