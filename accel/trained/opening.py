"""A trained model of any kind, opened from its checkpoint and the files beside it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from accel.autodiff.arrays import Array
from accel.data.corpora.treebank import Reading
from accel.data.vocabularies.albert import AlbertPieces
from accel.data.vocabularies.vocabulary import Vocabulary
from accel.data.vocabularies.words import Words
from accel.models.transformer_grammars import model as transformer_grammar
from accel.training import checkpoint
from accel.training.checkpoint import CheckpointError
from accel.training.directory import EXPORTED, TABLES, VOCABULARY, digest, load_settings, load_tables, load_vocabulary
from accel.training.run import BEST, NEWEST

MODELS = {
    "transformer_grammar": "accel.models.transformer_grammars.model",
    "span_parser": "accel.models.transformer_grammars.span_parser",
    "language_model": "accel.models.fasttrees.language_model",
    "sentence_classifier": "accel.models.fasttrees.sentence_classifier",
    "encoder_decoder": "accel.models.encoder_decoder.model",
    "gpst": "accel.models.gpst.model",
    "albert": "accel.models.albert.model",
}
MODELS_OF_WORDS = ("language_model", "sentence_classifier")  # their vocabulary is `Words`


@dataclass(frozen=True)
class Model:
    """A trained model, with the vocabulary and the reading of its input."""

    path: Path
    config: Any  # the `Config` of its module
    parameters: dict[str, Array]
    vocabulary: (
        Any  # `Vocabulary` if the model reads trees or writes sentences, `AlbertPieces` for an ALBERT, else `Words`
    )
    reading: Reading | None  # of trees
    module: ModuleType = transformer_grammar  # of accel.models
    of_characters: bool = False  # whether its words are characters, as for the task arithmetic


def checkpoint_of(path: Path) -> Path:
    """Return the checkpoint to open: in a directory the best one, else the newest, else the exported weights.

    Raises
    ------
    CheckpointError
        If there is nothing to open.
    """
    if not path.exists():
        raise CheckpointError(f"{path}: does not exist; name a directory that `grove train` or `grove export` wrote")
    checkpoints = [path / name for name in (BEST, NEWEST, EXPORTED) if (path / name).exists()]
    if path.is_dir() and not checkpoints:
        raise CheckpointError(
            f"{path}: no run, for it has neither {BEST} nor {NEWEST} nor {EXPORTED}; "
            "name a directory that `grove train` or `grove export` wrote"
        )
    return checkpoints[0] if path.is_dir() else path


def configuration(path: Path, state: dict[str, Any]) -> tuple[ModuleType, Any]:
    """Return the module of a model and its `Config`, from the state of a checkpoint.

    Raises
    ------
    CheckpointError
        If the state does not describe a model.
    """
    name = state.get("model", "transformer_grammar")
    if name not in MODELS:
        raise CheckpointError(f"{path}: holds a model {name!r}, not one of {', '.join(MODELS)}")
    module = import_module(MODELS[name])
    try:
        return module, module.Config(**getattr(module.Config, "FORMER", {}) | state["config"])
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: does not hold the configuration of a model: {error}") from error


def open_model(ops: ModuleType, path: str | Path) -> Model:
    """Return a trained model on a backend.

    Parameters
    ----------
    path : str or Path
        A checkpoint, or a directory that `grove train` or `grove export` wrote, see `checkpoint_of`.

    Raises
    ------
    CheckpointError
        If the checkpoint, its vocabulary or its settings are missing, truncated or of another format.
    """
    path = checkpoint_of(Path(path))
    state = checkpoint.read_state(path)
    module, config = configuration(path, state)
    of_words = module.NAME in MODELS_OF_WORDS or (module.NAME == "encoder_decoder" and config.n_classes > 0)
    form = AlbertPieces if module.NAME == "albert" else Words if of_words else Vocabulary
    vocabulary = load_vocabulary(path.parent, form)
    if state.get("vocabulary") != digest(vocabulary) or len(vocabulary) != config.vocabulary_size:
        raise CheckpointError(f"{path}: was trained with another vocabulary than {path.parent / VOCABULARY}")
    reading, settings = load_settings(path.parent)
    if reading is not None:  # training may leave out trees without tags; the trained model reads them
        reading = replace(reading, leave_out_untagged=False)
    content = checkpoint.load(path, module.parameter_shapes(config))
    frozen = module.frozen_shapes(config) if hasattr(module, "frozen_shapes") else {}
    tables = load_tables(path.parent, vocabulary) if frozen else {}
    if {name: table.shape for name, table in tables.items()} != frozen:
        raise CheckpointError(f"{path}: was trained with other tables than {path.parent / TABLES}")
    parameters = {name: ops.xp.asarray(tensor) for name, tensor in (content.parameters | tables).items()}
    return Model(path, config, parameters, vocabulary, reading, module, settings.get("task") == "arithmetic")
