"""The directory of a run: its vocabulary, what was asked for, and the model, of whatever kind, in its checkpoints.

Beside `checkpoint.safetensors` and `best.safetensors` lie `vocabulary.json` and `config.json`; a checkpoint remembers
the digest of its vocabulary, so that the two cannot be mixed up.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from accel.autodiff.arrays import Array
from accel.data.corpora.treebank import Reading
from accel.data.vocabularies.vocabulary import Vocabulary
from accel.data.vocabularies.words import Words
from accel.models.transformer_grammars import model as transformer_grammar
from accel.training import checkpoint
from accel.training.checkpoint import CheckpointError
from accel.training.run import BEST, NEWEST

VOCABULARY, SETTINGS = "vocabulary.json", "config.json"
MODELS = {
    "transformer_grammar": "accel.models.transformer_grammars.model",
    "span_parser": "accel.models.transformer_grammars.span_parser",
    "language_model": "accel.models.fasttrees.language_model",
    "sentence_classifier": "accel.models.fasttrees.sentence_classifier",
    "encoder_decoder": "accel.models.encoder_decoder.model",
    "gpst": "accel.models.gpst.model",
}
MODELS_OF_WORDS = ("language_model", "sentence_classifier")  # whose vocabulary is plain


@dataclass(frozen=True)
class Model:
    """A trained model with what is needed to read trees or words for it."""

    path: Path
    config: Any  # the `Config` of its module
    parameters: dict[str, Array]
    vocabulary: Any  # `Vocabulary` of a model that reads trees or writes sentences, `Words` of any other
    reading: Reading | None  # of trees
    module: ModuleType = transformer_grammar  # of accel.models


def digest(vocabulary: Vocabulary | Words) -> str:
    """Return what a checkpoint remembers of its vocabulary."""
    return hashlib.sha256(vocabulary.to_json().encode()).hexdigest()[:16]


def write_text(path: Path, text: str) -> None:
    """Write a file in one step: it is there complete, or as it was before.

    Raises
    ------
    OSError
        With the name of the file, as on a full disk.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error


def save_settings(directory: Path, reading: Reading | None, options: dict[str, Any]) -> None:
    """Write how the trees of a run are read, if there are any, and the options with which it was started."""
    text = json.dumps({"reading": None if reading is None else asdict(reading), "options": options}, indent=2)
    write_text(directory / SETTINGS, text + "\n")


def load_settings(directory: Path) -> tuple[Reading | None, dict[str, Any]]:
    """Return what `save_settings` wrote."""
    path = directory / SETTINGS
    try:
        settings = json.loads(_read_text(path))
        reading = settings["reading"]
        return None if reading is None else Reading(**reading), dict(settings["options"])
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: not the settings of a run: {error}") from error


def load_vocabulary(directory: Path, kind: Any = Vocabulary) -> Any:
    """Return the vocabulary of a run, a `Vocabulary` or `Words`."""
    path = directory / VOCABULARY
    try:
        return kind.from_json(_read_text(path))
    except ValueError as error:
        raise CheckpointError(f"{path}: {error}") from error


def load_model(ops: ModuleType, path: str | Path) -> Model:
    """Return a model on a backend; its checkpoint names the kind of model.

    Parameters
    ----------
    path : str or Path
        A checkpoint, or a run's directory: there the best one on the validation data, or else the newest.

    Raises
    ------
    CheckpointError
        If the file or one of its companions is missing, truncated, or not what it should be.
    """
    path = Path(path)
    if path.is_dir():
        found = [path / name for name in (BEST, NEWEST) if (path / name).exists()]
        if not found:
            raise CheckpointError(f"{path}: neither {BEST} nor {NEWEST} is in this directory")
        path = found[0]
    state = checkpoint.read_state(path)
    name = state.get("model", "transformer_grammar")
    if name not in MODELS:
        raise CheckpointError(f"{path}: holds a model {name!r}, not one of {', '.join(MODELS)}")
    module = import_module(MODELS[name])
    try:
        config = module.Config(**state["config"])
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: does not hold the configuration of a model: {error}") from error
    of_words = name in MODELS_OF_WORDS or (name == "encoder_decoder" and config.n_classes > 0)
    vocabulary = load_vocabulary(path.parent, Words if of_words else Vocabulary)
    if state.get("vocabulary") != digest(vocabulary) or len(vocabulary) != config.vocabulary_size:
        raise CheckpointError(f"{path}: was trained with another vocabulary than {path.parent / VOCABULARY}")
    reading, _ = load_settings(path.parent)
    loaded = checkpoint.load(path, module.parameter_shapes(config))
    parameters = {name: ops.xp.asarray(tensor) for name, tensor in loaded.parameters.items()}
    return Model(path, config, parameters, vocabulary, reading, module)


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path}: not UTF-8: {error.reason} at byte {error.start}") from error
