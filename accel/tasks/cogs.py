"""COGS: from sentences to logical forms, and generalisation to new combinations (Treeformer, sections 5 and 6.4).

Source and target share the words of the training data; any other word is UNKNOWN. No model can write a target with an
unknown word, so that it counts as wrong. Most recursive sentences have such a target, with a position above 18.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from types import ModuleType
from typing import Any

from accel.data.batches.sequence_pairs import build_of_all_words, encode_pairs
from accel.data.files.lines import find_file
from accel.data.published.cogs import PARTS, STRUCTURAL, read_cogs
from accel.tasks.encoder_decoder import add_model_arguments, configured_for_rare_words
from accel.tasks.job import Job, require_data
from accel.tasks.pairs import accuracies, job_of_pairs
from accel.trained.opening import Model
from accel.training.communicator import Communicator

STEPS = 20_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="with train.tsv, dev.tsv, test.tsv and gen.tsv")
    add_model_arguments(parser, "tiny")


def build(options: argparse.Namespace, ops: ModuleType, group: Communicator) -> Job:
    """Return the job that the options ask for."""
    configured_for_rare_words(options, STEPS, 1)
    require_data(options)
    paths = [find_file(options.data, f"{part}.tsv") for part in PARTS]
    training_pairs, held_out, *_ = [list(read_cogs(path)) for path in paths]  # reports errors in the tests now
    vocabulary = build_of_all_words(training_pairs)
    config, training = configured_for_rare_words(options, STEPS, len(vocabulary))
    pairs, validation = (
        encode_pairs(path, text_pairs, vocabulary, training.batch_size)
        for path, text_pairs in zip(paths[:2], (training_pairs, held_out), strict=True)
    )
    return job_of_pairs(config, training, vocabulary, pairs, validation, ops, group)


def evaluate(ops: ModuleType, model: Model, data: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the share of exact answers on test, on gen and on every category, and the means over two groups of them.

    The groups are lexical and structural categories. `out_of_reach` counts the targets with an unknown word.
    """
    paths = {part: find_file(data, f"{part}.tsv") for part in ("test", "gen")}
    pairs = {part: list(read_cogs(path)) for part, path in paths.items()}
    words = set(model.vocabulary.terminals)
    unreachable = {part: sum(not words.issuperset(pair.target) for pair in values) for part, values in pairs.items()}
    (test, _), (gen, by_category) = (accuracies(ops, model, paths[part], pairs[part]) for part in paths)
    shares = {"test": test, "gen": gen}
    for name, structural in (("lexical", False), ("structural", True)):
        values = [value for category, value in by_category.items() if (category in STRUCTURAL) == structural]
        if values:
            shares[name] = sum(values) / len(values)
    return {"accuracy": shares | by_category, "out_of_reach": unreachable}
