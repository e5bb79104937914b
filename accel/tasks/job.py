"""The tasks by name, the job that each builds, and the options that change its configuration.

Every task has `add_arguments(parser)`, which adds its options, and `build(options, ops, group)`, which returns the job.
A task with results beyond a loss has `evaluate(ops, model, data, settings)`, which returns them for a trained model as
JSON can hold them; `settings` are the options of the training. `evaluation_options(model)` names the options of `grove
evaluate` that `evaluate` also takes for this model. A task with `GENERATES = True` needs no test file. A task that can
write its outputs to a file has `tested_files(data, settings)`: the files that `evaluate` reads. A task with options
that follow from a path has `exported_options(settings)`: the options that an export holds, which has no paths.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from math import inf, prod
from pathlib import Path
from types import ModuleType
from typing import Any

from accel.data.corpora.parallel import PARTS
from accel.data.corpora.treebank import Reading
from accel.data.vocabularies.vocabulary import Vocabulary
from accel.data.vocabularies.words import Words
from accel.models.checks import chunk_size, refusal
from accel.models.fasttrees.stack import reads_neighbours
from accel.trained.opening import Model, configuration
from accel.trained.options import OptionError, typed
from accel.training.checkpoint import read_state
from accel.training.communicator import Communicator
from accel.training.loop import Batches, Measure
from accel.training.run import NEWEST
from accel.training.settings import TrainingConfig

TASKS = (
    "trees", "language_model", "logic", "sentiment", "inference", "agreement", "arithmetic", "translation", "cogs",
    "scan", "acceptability", "glue", "cognition", "summarisation", "gpst", "masked_words",
    "span_parser",
)  # fmt: skip
_TRUTHS = {"true": True, "false": False}
_PARSERS: dict[str, tuple[Callable[[str], Any], str]] = {  # the type of a field: the parser of its text, its name
    "int": (int, "a whole number"),
    "float": (float, "a number"),
    "str": (str, "a word"),
    "bool": (_TRUTHS.__getitem__, "true or false"),
    "int | None": (lambda text: None if text == "none" else int(text), "a whole number or none"),
    "float | None": (lambda text: None if text == "none" else float(text), "a number or none"),
}


@dataclass(frozen=True)
class Job:
    """A model, its training and its data."""

    model: ModuleType  # of accel.models
    config: Any
    training: TrainingConfig
    vocabulary: Vocabulary | Words
    batches: Batches
    validation: Callable[[], Iterable[Any]] | None
    description: str  # of the data, for people
    reading: Reading | None = None  # how trees are read
    initial: dict[str, Any] | None = None  # parameters that do not start at random, such as word vectors
    frozen: dict[str, Any] = field(default_factory=dict)  # arrays that the model reads and does not learn
    notes: tuple[str, ...] = ()  # on the data, for people: what was decided, and which option changes it
    measure: Measure | None = None  # a further result of every validation


def n_parameters(job: Job) -> int:
    """Return the number of trained parameters of a model."""
    return sum(prod(shape) for shape in job.model.parameter_shapes(job.config).values())


def shared(ops: ModuleType, group: Communicator, training: TrainingConfig) -> dict[str, Any]:
    """Return the options that the batches of all tasks share: the backend, the rank of this process, micro-batches."""
    return {"ops": ops, "rank": group.rank, "ranks": group.size, "micro_batch": training.micro_batch}


def batch_size_of(model: Model, usual: int) -> int:
    """Return how many test examples a batch has: `usual`, or as in the validations of a model that reads neighbours."""
    return int(read_state(model.path)["training"]["batch_size"]) if reads_neighbours(model.config) else usual


def require_data(options: argparse.Namespace, *, folders: bool = False) -> None:
    """Raise ValueError if the options name no data, a pipe, or a folder, unless the task reads `folders`.

    A task that does so reads all their files: the run may not write into them.
    """
    if options.data is None:
        raise ValueError("train: --data is missing" + (f": {options.out} holds no run yet" if options.resume else ""))
    for name in ("data", "validation", "test"):
        value = getattr(options, name, None)
        for path in value if isinstance(value, list) else filter(None, [value]):
            if Path(path).is_fifo():
                raise ValueError(f"--{name} {path}: a pipe, but grove train reads its data more than once: name a file")
            if folders and Path(path).is_dir():
                _require_outside(options, name, Path(path))
    if hasattr(options, "validation") and not folders:  # of a task that reads files, not folders
        _require_files(options)


def _require_outside(options: argparse.Namespace, name: str, folder: Path) -> None:
    for option in ("out", "cache"):
        path = getattr(options, option, None)
        if path is not None and path.resolve().is_relative_to(folder.resolve()):
            reason = f"lies in --{name} {folder}, all of whose files are read: choose a directory outside"
            raise OptionError(option, reason, path)


def _require_files(options: argparse.Namespace) -> None:
    """Raise ValueError if a folder is given where a task reads one file."""
    for name in ("data", "validation", "test"):
        path = getattr(options, name, None)
        if path is not None and path.is_dir():
            beginnings = PARTS["train" if name == "data" else name]
            files = [file for file in sorted(path.iterdir()) if file.is_file() and file.name.startswith(beginnings)]
            has_trees = options.task in ("trees", "span_parser")
            files.sort(key=lambda file: (".trees" in file.name) != has_trees)  # the others keep their order
            use = files[0] if files else "a file in it"
            raise ValueError(f"--{name} {path}: a folder, but one file is needed; use {use}")


def refuse_beside_data(options: argparse.Namespace, name: str, default: int) -> None:
    """Raise OptionError if the number of items to generate is given beside --data; an older run may have both."""
    if options.data is not None and getattr(options, name) != default and not options.resume:
        raise OptionError(name, "is for generated data, and --data names a file: leave it out")


def add_tokens(parser: argparse.ArgumentParser) -> None:
    """Add the option for the length of a training in tokens."""
    help_text = "the length of the training in tokens, such as 5e9; instead of --steps and --epochs"
    parser.add_argument("--tokens", type=_tokens, metavar="N", help=help_text)


def _tokens(text: str) -> int:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1 <= value < inf or value % 1:
        raise argparse.ArgumentTypeError(f"{text}, but tokens are counted in whole numbers from 1 on; use such as 5e9")
    return int(value)


def add_files(parser: argparse.ArgumentParser, metavar: str, content: str) -> None:
    """Add the options that name the training, the validation and the test file."""
    parser.add_argument("--data", type=Path, metavar=metavar, help=f"training {content}; may be .gz or .xz")
    parser.add_argument("--validation", type=Path, metavar=metavar, help="to choose the best checkpoint by")
    parser.add_argument("--test", type=Path, metavar=metavar, help="to evaluate the best checkpoint on")


def configured(
    config: Any, training: TrainingConfig, options: argparse.Namespace, from_data: tuple[str, ...]
) -> tuple[Any, TrainingConfig]:
    """Return `config` and `training` with the changes that the options ask for; ValueError for one of `from_data`.

    Raises SystemExit after a list of all settings for `--set help`.
    """
    classes = (type(config), TrainingConfig)
    types = {f.name: str(f.type) for cls in classes for f in fields(cls)}
    free = [name for name in types if name not in from_data]
    if "help" in options.set:
        _print_settings((config, training), free)
        raise SystemExit(0)
    for setting in options.set if hasattr(options, "kind") and not options.resume else ():
        if setting.partition("=")[0] == "kind":
            raise OptionError("set", "is set by --model: leave it out", setting)
    values = {name: getattr(options, name) for name in free if getattr(options, name, None) is not None}
    for setting in options.set:
        name, value = _setting(setting, types, free)
        option_value = getattr(options, name, None)
        if option_value not in (None, value) and not options.resume:  # an older run may have both
            raise OptionError("set", f"differs from {typed(name)} {option_value}: leave out one of them", setting)
        values[name] = value
    model_settings = {f.name for f in fields(type(config))}
    of_model = {name: value for name, value in values.items() if name in model_settings}
    of_training = {name: value for name, value in values.items() if name not in model_settings}
    config, training = replace(config, **_in_chunks(config, of_model)), replace(training, **of_training)
    if training.micro_batch is not None and reads_neighbours(config):
        but = "the released convolution reads the other sequences of its batch"
        raise refusal("micro_batch", training.micro_batch, but, "--variant paper, or no micro-batches")
    return config, training


def add_variant(parser: argparse.ArgumentParser) -> None:
    help_text = "what Conv. FastTrees convolves over: time (paper), or the sentences of a batch (released)"
    parser.add_argument("--variant", choices=("paper", "released"), help=help_text)


def check_variant(options: argparse.Namespace) -> None:
    """Raise OptionError for --variant of a model that has none."""
    if options.variant is not None and options.kind != "conv_fasttrees":
        raise OptionError("variant", "is for conv_fasttrees: leave it out")


def as_trained(options: argparse.Namespace, config: Any, training: TrainingConfig) -> tuple[Any, TrainingConfig]:
    """Return `config` and `training`, or for a resumed run those of its checkpoint: recipes may have changed since."""
    newest = options.out / NEWEST
    if not (options.resume and newest.exists()):
        return config, training
    state = read_state(newest)
    return configuration(newest, state)[1], TrainingConfig(**state["training"])


def plain_setting(text: str) -> str:
    """Return NAME=VALUE without blanks around the name and the value."""
    return "=".join(part.strip() for part in text.split("=", 1))


def _setting(setting: str, types: dict[str, str], free: list[str]) -> tuple[str, Any]:
    """Return the name and the value of ``NAME=VALUE``."""
    name, equals, text = setting.partition("=")
    if name not in types:
        raise ValueError(f"--set {setting}: there is no setting {name}; use {_nearest(name, free)}")
    if name not in free:
        raise ValueError(f"--set {setting}: {name} follows from the data or from other options; leave it out")
    if not equals:
        raise ValueError(f"--set {setting}: it has no value; use {name}=VALUE")
    parse, kind = _PARSERS[types[name]]
    try:
        return name, parse(text)
    except (KeyError, ValueError):
        raise ValueError(f"--set {setting}: {name} is {kind}; use {name}=VALUE with such a VALUE") from None


def _nearest(name: str, names: list[str]) -> str:
    """Return what a misspelt name may mean: a name of almost the same spelling, or up to three names that share a word
    with it or are spelt similarly."""
    parts = set(name.split("_"))
    near = get_close_matches(name, names, n=1, cutoff=0.8) or [x for x in names if parts & set(x.split("_"))]
    near = near or get_close_matches(name, names, n=3)
    return " or ".join(near[:3]) or "--set help for a list"


def _print_settings(configs: Iterable[Any], names: list[str]) -> None:
    """Print the settings that --set can change, with their values."""
    for config in configs:
        for name, value in asdict(config).items():
            if name in names:
                print(f"{name}={str(value).lower() if value is None or isinstance(value, bool) else value}")


def _in_chunks(config: Any, values: dict[str, Any]) -> dict[str, Any]:
    """Return the values; if they have no chunk size, add one that divides the sizes of a stack's layers."""
    kind = values.get("kind", getattr(config, "kind", "lstm"))
    if "chunk_size" in values or kind == "lstm":
        return values
    sizes = replace(config, **values | {"kind": "lstm"}).stack.hidden_sizes  # an LSTM has no chunks to check
    return values | {"chunk_size": chunk_size(config.chunk_size, *sizes)}


def in_chunks(config: Any) -> tuple[str, ...]:
    """Return a note on the chunk size of a stack, if it has chunks."""
    return () if config.kind == "lstm" else (f"master gates: one for every {config.chunk_size} units (chunk_size)",)


def configured_in_epochs(
    config: Any,
    training: TrainingConfig,
    options: argparse.Namespace,
    from_data: tuple[str, ...],
    epochs: int,
    n_batches: Callable[[TrainingConfig], int],
    n_tokens: int = 0,
) -> tuple[Any, TrainingConfig]:
    """Return both as `configured` does; by default training has `epochs` epochs of `n_batches(training)` steps each,
    and a validation after each epoch. With --tokens it reads that many tokens; an epoch has `n_tokens`."""
    _, first = configured(config, training, options, from_data)
    in_epoch = n_batches(first)
    tokens = getattr(options, "tokens", None)
    steps = in_epoch * epochs if tokens is None else -(-tokens * in_epoch // n_tokens)
    return configured(config, replace(first, steps=steps, validate_every=in_epoch), options, from_data)


def with_warmup(training: TrainingConfig, options: argparse.Namespace) -> TrainingConfig:
    """Return a training whose rate rises for 1 % of its steps, unless an option sets `warmup_steps`.

    A resumed run of the schedule "noam" keeps its warm-up: the rates of all later steps depend on it.
    """
    if any(setting.startswith("warmup_steps=") for setting in options.set):
        return training
    newest = options.out / NEWEST
    if training.schedule == "noam" and options.resume and newest.exists():
        return replace(training, warmup_steps=read_state(newest)["training"]["warmup_steps"])
    return replace(training, warmup_steps=training.steps // 100)


def in_tokens(options: argparse.Namespace, training: TrainingConfig, n_tokens: int) -> tuple[str, ...]:
    """Return a note on the length of a training that is given in tokens; an epoch has `n_tokens`."""
    if options.tokens is None:
        return ()
    return (f"{options.tokens:,} tokens: {options.tokens / n_tokens:.3g} epochs, {training.steps:,} steps",)
