"""Every training step of the benchmarks' table, on any backend: of the table's size, or small, for a stand-in.

A step is a function. It keeps its arrays on the device, and may return before the device has finished.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from types import ModuleType
from typing import Any

import numpy as np

from accel.data.corpora.treebank import Corpus, encode_trees
from accel.data.vocabularies.vocabulary import Vocabulary
from benchmarks import fasttrees, gpst, transformer_grammars, treeformer
from benchmarks.transformer_grammars import long_tree

BATCHES = 3
"""Batches of a Transformer Grammar, which take turns."""
SMALL_GRAMMAR = {"d_model": 16, "d_ff": 16, "n_layers": 1, "n_heads": 2, "vocabulary_size": 128}
SMALL_STACK = {"steps": 4, "columns": 2, "chunk_size": 4}
SMALL_CHART = replace(treeformer.WITH, d_model=16, n_heads=2)


@dataclass(frozen=True)
class TableStep:
    """One step: `make` takes a backend, and whether the step is small; `family` names its budget."""

    name: str
    family: str
    make: Callable[[ModuleType, bool], Callable[[], Any]]


@cache
def trees(least: int, most: int) -> tuple[Corpus, Vocabulary]:
    """Return 160 random trees of about `least` to `most` positions, and their vocabulary: no treebank is needed."""
    lengths = np.random.default_rng(0).integers(least, most, 160)
    vocabulary = Vocabulary("words", tuple(f"w{i:02}" for i in range(99)), ("X",))
    random_trees = [long_tree(int(n), seed) for seed, n in enumerate(lengths)]
    return encode_trees(random_trees, vocabulary), vocabulary


def grammar(filled: int, ops: ModuleType, small: bool) -> transformer_grammars.Step:
    """Return the step of a Transformer Grammar of PTB's size; `filled` is L of the long trees, or 0 for other trees.

    The other trees have about 160 positions on average, twice those of the Penn Treebank's sample without tags (81).
    """
    if small:
        return transformer_grammars.Step(*trees(16, 24), 1, 24, ops, **SMALL_GRAMMAR)
    bounds = (58, 70) if filled else (100, 150)
    return transformer_grammars.Step(*trees(*bounds), BATCHES, filled, ops)


def stack_setting(setting: fasttrees.Setting, small: bool) -> fasttrees.Setting:
    """Return the setting of a stack, or a small one of as many layers."""
    if not small:
        return setting
    sizes = 8, *[12] * (len(setting.sizes) - 2), 8
    return replace(setting, sizes=sizes, **SMALL_STACK)


def stack(kind: str, setting: fasttrees.Setting, ops: ModuleType, small: bool) -> fasttrees.Run:
    return fasttrees.Run(kind, stack_setting(setting, small), ops=ops)


def chart(n: int, ops: ModuleType, small: bool) -> treeformer.Pass:
    if small:
        return treeformer.Pass([min(n, 30) // 5] * 2, SMALL_CHART, ops)
    return treeformer.Pass([n] * treeformer.BATCH, ops=ops)


def gpst_step(d: int, n: int, generates: bool, ops: ModuleType, small: bool) -> gpst.Step:
    if small:
        return gpst.Step(small_gpst(), 2, 4, generates, backend=ops)
    return gpst.Step(gpst.config_of(d), gpst.SENTENCES, n, generates, backend=ops)


def small_gpst() -> gpst.Config:
    """Return a GPST of one layer in every part."""
    return replace(
        gpst.config_of(32), vocabulary_size=50, token_layers=1, compose_layers=1, parser_layers=1, d_score=8,
        parser_feed_forward=32,
    )  # fmt: skip


def table() -> dict[str, TableStep]:
    """Return the steps by name, in the order of the table."""
    steps = [
        TableStep("Transformer Grammar, PTB size, 8 random trees", "transformer_grammar", partial(grammar, 0)),
        TableStep("Transformer Grammar, PTB size, 8 long trees", "transformer_grammar", partial(grammar, 80)),
    ]
    for setting, title in (
        (fasttrees.LANGUAGE_MODEL, "400-1150-1150-400, 70 x 20"),
        (fasttrees.LOGIC, "128-400, 20 x 256"),
    ):
        for kind, name in fasttrees.NAMES.items():
            family = "faster_fasttrees" if kind == "faster_fasttrees" else "fasttrees"
            steps.append(TableStep(f"{name} stack {title}", family, partial(stack, kind, setting)))
    for n in (25, 50, 100):
        title = f"Treeformer's chart, d 512, H 10, 16 x {n} tokens"
        steps.append(TableStep(title, "treeformer", partial(chart, n)))
    for d, n, generates in (*((64, n, False) for n in (16, 32, 64, 128)), (256, 128, False), (64, 128, True)):
        title = f"GPST's {'whole step' if generates else 'composition'}, d {d}, 8 x {n} words"
        steps.append(TableStep(title, "gpst", partial(gpst_step, d, n, generates)))
    return {step.name: step for step in steps}
