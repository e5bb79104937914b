"""CoGnition: English compounds that training does not have, translated into Chinese (Treeformer, sections 5 and 6.4).

The data are pairs of files as in `accel.tasks.translation`, or an archive of them. Chinese is split into characters.
The test needs the file STEM.compound beside STEM.SOURCE, and the file `lexicon` in the folder.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from accel.data.files.lines import find_file
from accel.data.published.cognition import Instance, Lexicon, error_rates, read_instances, read_lexicon, tokens
from accel.tasks.encoder_decoder import TRAINING
from accel.tasks.job import Job
from accel.tasks.pairs import EVALUATION, add_parallel_arguments, build_parallel, outputs_of, translations
from accel.trained.opening import Model
from accel.training.communicator import Communicator

STEPS = 100_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_parallel_arguments(parser, ("en", "zh"), ("train", "valid", "cg-test/cg-test"), "unknown_classes", "base")


def build(options: argparse.Namespace, ops: ModuleType, group: Communicator) -> Job:
    """Return the job that the options ask for."""
    recipe = replace(TRAINING, steps=STEPS)
    return build_parallel(
        options, ops, group, recipe, tokens, lambda namespace: _read_test(namespace.data, vars(namespace))
    )


def evaluation_options(model: Model) -> tuple[str, ...]:
    """Return the options that `evaluate` takes for a model."""
    return EVALUATION


def evaluate(
    ops: ModuleType, model: Model, data: Path, settings: dict[str, Any], *, average: int | None = None,
    write: Path | None = None, **search: Any,
) -> dict[str, Any]:  # fmt: skip
    """Return the error rates for each model of `accel.tasks.pairs.outputs_of`, which also writes the file `write`."""
    instances, lexicon = _read_test(data, settings)
    sources = [instance.source for instance in instances]
    outputs = outputs_of(ops, model, lambda each: translations(ops, each, sources, **search), average, write)
    results: dict[str, dict[str, float]] = {}
    for candidate, targets in outputs.items():
        for name, rate in error_rates(instances, targets, lexicon).items():
            results.setdefault(f"error rate {name}", {})[candidate] = rate
    return results


def tested_files(data: Path, settings: dict[str, Any]) -> list[Path]:
    """Return the lexicon and the test files, which `evaluate` reads."""
    names = ("lexicon", *(f"{settings['test_stem']}.{end}" for end in (settings["source"], "compound")))
    return [find_file(data, name) for name in names]


def _read_test(folder: Path, settings: dict[str, Any]) -> tuple[list[Instance], Lexicon]:
    """Return the test sentences with their compounds, and the lexicon by which translations are judged."""
    lexicon_path, *paths = tested_files(folder, settings)
    lexicon = read_lexicon(lexicon_path)
    return read_instances(*paths, lexicon), lexicon
