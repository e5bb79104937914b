"""COGS: from sentences to logical forms, and how far that carries to new combinations (Treeformer, section 4).

Source and target share the words of the training data. A word that is not among them is UNKNOWN: a target that holds
one, as the positions behind the eighteenth of most of the recursive sentences, can be written by no model and counts as
wrong.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from accel.communicator import Communicator
from accel.data.cogs import STRUCTURAL, Item, read_cogs
from accel.data.lines import find_file
from accel.data.pairs import Pair, build_of_all_words, encode_pair
from accel.data.vocabulary import Vocabulary
from accel.saved import Model
from accel.tasks import Job, require_data
from accel.tasks.encoder_decoder import TRAINING, add_model_arguments, configured_transformer
from accel.tasks.pairs import exact_match, job_of_pairs

STEPS = 30_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="with train.tsv, dev.tsv, test.tsv and gen.tsv")
    add_model_arguments(parser, "tiny")


def build(options: argparse.Namespace, ops: ModuleType, group: Communicator) -> Job:
    """Return the job that the options ask for."""
    require_data(options)
    learned, held_out = (_read(options.data, part) for part in ("train", "dev"))
    vocabulary = build_of_all_words(side for item in learned for side in (item.source, item.target))
    recipe = replace(TRAINING, steps=STEPS, select="accuracy")
    config, training = configured_transformer(options, recipe, len(vocabulary))
    encode = partial(_encoded, options.data, vocabulary=vocabulary, max_tokens=training.batch_size)
    pairs = encode("train", learned), encode("dev", held_out)
    return job_of_pairs(config, training, vocabulary, *pairs, ops, group)


def evaluate(ops: ModuleType, model: Model, data: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the share of exact answers on test and gen, the means of lexical and structural categories, and each."""
    tests, gen = _read(data, "test"), _read(data, "gen")

    def accuracy_of(part: str, items: list[Item]) -> float:
        return exact_match(ops, model, _encoded(data, part, items, model.vocabulary, TRAINING.batch_size))

    counts = Counter(item.category for item in gen)
    accuracy = {name: accuracy_of("gen", [item for item in gen if item.category == name]) for name in sorted(counts)}
    total = sum(accuracy[name] * counts[name] for name in counts)
    found = {"test": accuracy_of("test", tests), "gen": total / len(gen)}
    for name, chosen in (("lexical", counts.keys() - STRUCTURAL), ("structural", counts.keys() & STRUCTURAL)):
        if chosen:
            found[name] = sum(accuracy[category] for category in chosen) / len(chosen)
    return {"accuracy": found | accuracy}


def _read(folder: Path, part: str) -> list[Item]:
    return list(read_cogs(find_file(folder, f"{part}.tsv")))


def _encoded(folder: Path, part: str, items: list[Item], vocabulary: Vocabulary, max_tokens: int) -> list[Pair]:
    path = find_file(folder, f"{part}.tsv")
    return [encode_pair((path, path), x.line, (x.source, x.target), vocabulary, max_tokens) for x in items]
