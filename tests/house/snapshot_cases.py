"""The cases of the snapshot: a name, and a command line in which `@/` is the folder of the case's files.

A training writes to `@/runs/NAME`; a case whose command names this folder needs the training.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.house import snapshot_data
from tests.house.snapshot_commands import COMMANDS

STEPS = ("--steps", "20")


@dataclass(frozen=True)
class Case:
    """A command to run, or a function of the folder and the arguments."""

    name: str
    arguments: tuple[str, ...] = ()
    ranks: int = 1  # 0: one separate process
    function: Callable[[Path, list[str]], dict[str, Any]] | None = None
    more: tuple[str, ...] = ()

    @property
    def needs(self) -> set[str]:
        """The names of cases that must run before this one."""
        runs = set(re.findall(r"@/runs/(\w+)", " ".join(self.arguments))) - {self.name}
        return {f"{run}" for run in runs} | set(self.more)


def settings(text: str) -> tuple[str, ...]:
    """Return the options that set every `name=value` of a text."""
    return tuple(part for setting in text.split() for part in ("--set", setting))


def training(task: str, files: str, options: str, changes: str) -> tuple[str, ...]:
    """Return the command line of a training of 20 steps, without `--out`."""
    return ("train", "--task", task, *files.split(), *STEPS, *options.split(), *settings(changes))


TG = "d_model=20 d_ff=24 n_heads=2 n_layers=2 warmup_steps=3 validate_every=7 maximum_rate=5e-3"
DROP = "embedding_dropout=0.1 core_dropout=0.2 output_dropout=0.3"
SHORT, WIDE = "segment_length=24 memory_length=18", "segment_length=300 memory_length=300"
TREES = "--data @/train.trees --validation @/valid.trees --keep-tags"
DOCUMENTS = "--data @/documents.trees --validation @/documents.trees --keep-tags --documents"
ALL = "--vocabulary words"
TEXT = "--data @/train.txt --validation @/valid.txt --test @/test.txt --min-count 1"
LM = "embedding_size=12 hidden_size=20 chunk_size=4 validate_every=3 nonmonotone=0 checkpoint_every=8"
CELL = "embedding_size=12 hidden_size=20 chunk_size=4 mlp_size=10 n_layers=2 validate_every=7"
GPST = (
    "d_model=16 n_heads=2 type_layers=1 token_layers=2 d_compose=12 compose_heads=2 compose_layers=1 d_score=6 "
    "d_parser=8 parser_heads=2 parser_layers=1 parser_feed_forward=10 validate_every=7"
)
CONTEXTS = "--data @/contexts.txt --validation @/valid.txt --test @/test.txt --sentence-a-line --max-tokens 320"
GOLD = "--gold @/short.trees --convention plain --beam 5"
PAIRS = "--data @/pairs --source lo --target up --vocabulary words --vocabulary-size 60"
STEMS = "--size tiny --validation-stem dev --test-stem test --batch-size 1200"
SEQUENCES = (
    "d_model=20 d_ff=24 n_layers=1 n_heads=2 warmup_steps=4 maximum_rate=0.01 validate_every=7 "
    "checkpoint_every=8 chunk_size=4"
)
CLASSES = "d_model=20 d_ff=24 n_layers=1 n_heads=2 warmup_steps=4 validate_every=7 chunk_size=4"
SENTIMENT = "--data @/sentiment.trees --validation @/sentiment.trees --test @/sentiment.trees"
INFERENCE = "--data @/inference.txt --validation @/inference.txt --test @/inference.txt"
ALBERT = "d_embedding=6 d_model=20 d_ff=24 n_layers=3 n_heads=2 n_positions=60 warmup_steps=2 validate_every=7"
PARSER = "d_model=20 n_heads=2 n_layers=2 d_ff=24 d_span=20 warmup_steps=2 validate_every=7"
LSTM_PARSER = "d_model=20 n_layers=2 d_affix=6 d_span=20 warmup_steps=2 validate_every=7"

TRAININGS: dict[str, tuple[str, ...]] = {
    "tg": training("trees", f"{TREES} {ALL}", "--batch-size 9", f"{TG} {DROP} {SHORT}"),
    "tg_64": training(
        "trees", f"{TREES} {ALL}", "--batch-size 64 --memory shift --positions linear", f"{TG} {DROP} {SHORT}"
    ),
    "tg_wide": training("trees", f"{DOCUMENTS} {ALL}", "--batch-size 3", f"{TG} {DROP} {WIDE}"),
    "tg_layers": training("trees", f"{TREES} {ALL}", "--batch-size 9 --unrestricted-layers 1", f"{TG} {SHORT}"),
    "tg_distinct": training("trees", f"{TREES} {ALL}", "--batch-size 9 --distinct-attention", f"{TG} {SHORT}"),
    "tg_heads": training("trees", f"{TREES} {ALL}", "--batch-size 9 --unrestricted-heads 1", f"{TG} {DROP} {SHORT}"),
    "tg_tagged": (
        *("train", "--task", "trees", "--data", "@/tagged.trees", "--drop-traces", "--drop-function-tags", *STEPS),
        *("--vocabulary", "sentencepiece", "--vocabulary-size", "300", *settings(f"{TG} {SHORT}")),
    ),
    "txl_cc": training("trees", f"{TREES} {ALL}", "--model txl_cc --batch-size 9", f"{TG} {DROP} {SHORT}"),
    "txl_cc_wide": training("trees", f"{DOCUMENTS} {ALL}", "--model txl_cc --batch-size 3", f"{TG} {DROP} {WIDE}"),
    "words": training("trees", f"{TREES} {ALL}", "--model txl_terminals --batch-size 9", f"{TG} {DROP} {SHORT}"),
    "words_64": training(
        "trees",
        TREES,
        "--model txl_terminals --vocabulary unknown_classes --batch-size 64 --seed 3",
        f"{TG} {DROP} {SHORT}",
    ),
    **{
        f"lm_{kind}": training("language_model", TEXT, f"--model {kind} --batch-size 9 --length 15", LM)
        for kind in ("lstm", "on_lstm", "fasttrees", "conv_fasttrees", "faster_fasttrees")
    },
    "lm_released": training(
        "language_model", TEXT, "--model conv_fasttrees --variant released --batch-size 64 --length 9", LM
    ),
    "lm_long": training(
        "language_model", TEXT, "--batch-size 5 --length 300", f"{LM} optimizer=adam maximum_rate=0.01"
    ),
    "lm_sgd": training("language_model", TEXT, "--batch-size 64 --length 8 --model on_lstm", f"{LM} optimizer=sgd"),
    "logic": training("logic", "--data @/logic", "--batch-size 64", CELL),
    "logic_lstm": training("logic", "--data @/logic", "--batch-size 9 --model lstm", CELL),
    "sentiment": training(
        "sentiment",
        SENTIMENT,
        "--fine --vectors @/vectors --learn-vectors",
        f"{CELL} embedding_size=6 projection_size=8",
    ),
    "sentiment_on_lstm": training("sentiment", SENTIMENT, "--model on_lstm --no-phrases", CELL),
    "sentiment_treeformer": training(
        "sentiment", SENTIMENT, "--model treeformer --batch-size 9", f"{CLASSES} max_height=3"
    ),
    "inference": training("inference", INFERENCE, "--model conv_fasttrees --batch-size 9", CELL),
    "acceptability": training("acceptability", "--data @/cola", "--model faster_fasttrees", CELL),
    "acceptability_transformer": training("acceptability", "--data @/cola", "--model transformer", CLASSES),
    "acceptability_treeformer": training("acceptability", "--data @/cola", "--model treeformer_released", CLASSES),
    "agreement": training("agreement", "", "--sentences 400 --batch-size 64 --model fasttrees", CLASSES),
    "arithmetic": training("arithmetic", "", "--problems 300 --batch-size 900 --model conv_fasttrees", SEQUENCES),
    **{
        f"translation_{kind}": training("translation", PAIRS, f"{STEMS} --model {kind}", SEQUENCES)
        for kind in ("transformer", "fasttrees", "conv_fasttrees", "treeformer", "treeformer_released")
    },
    "cogs": training("cogs", "--data @/cogs", "--batch-size 200", SEQUENCES),
    "cogs_treeformer": training("cogs", "--data @/cogs", "--batch-size 200 --model treeformer", SEQUENCES),
    "scan": training("scan", "--data @/scan", "--batch-size 200", SEQUENCES),
    "scan_treeformer": training("scan", "--data @/scan", "--batch-size 200 --model treeformer_released", SEQUENCES),
    "cognition": training(
        "cognition", "--data @/cognition --size tiny", "--batch-size 300 --model treeformer", SEQUENCES
    ),
    "summarisation": training("summarisation", PAIRS, STEMS, SEQUENCES),
    "gpst": training("gpst", f"{CONTEXTS} {GOLD}", "--vocabulary-size 285 --batch-size 3", GPST),
    "gpst_words": training(
        "gpst", f"{CONTEXTS} --vocabulary words", "--batch-size 9", f"{GPST} surrogate=false head=dot"
    ),
    "gpt2": training("gpst", f"{CONTEXTS} --vocabulary words", "--model gpt2 --batch-size 9 --one-document", GPST),
    "tuned": training(
        "acceptability", "--data @/cola", "--model gpst --checkpoint @/runs/gpst --batch-size 9", "validate_every=7"
    ),
    "tuned_gpt2": training("sentiment", SENTIMENT, "--no-phrases --model gpt2 --batch-size 64", GPST),
    "tuned_pairs": training("inference", INFERENCE, "--model gpst --batch-size 9", GPST),
    "summaries": training(
        "summarisation",
        f"{PAIRS} --validation-stem dev --test-stem test",
        "--model gpst --summary-tokens 6 --batch-size 9",
        GPST,
    ),
    "masked_words": training(
        "masked_words", "--data @/train.txt --validation @/valid.txt", "--batch-size 300 --vocabulary-size 90", ALBERT
    ),
    "tuned_albert": training("glue", "--data @/cola", "--model albert_treeformer --batch-size 9", ALBERT),
    "parser": training("span_parser", TREES, "--batch-size 250", PARSER),
    "parser_lstm": training("span_parser", TREES, "--model lstm_parser --batch-size 250", LSTM_PARSER),
    "parser_long": training(
        "span_parser", "--data @/long.trees --keep-tags", "--max-words 300 --batch-size 300", PARSER
    ),
}

TWO_RANKS = ("tg", "lm_fasttrees", "gpst", "translation_transformer", "parser", "logic")
TINY_TG = "d_model=8 d_ff=8 n_heads=2 n_layers=1 warmup_steps=3 segment_length=12 memory_length=6"
TINY_GPST = (
    "d_model=4 n_heads=2 type_layers=1 token_layers=1 d_compose=4 compose_heads=2 compose_layers=1 d_score=3 "
    "d_parser=4 parser_heads=2 parser_layers=1 parser_feed_forward=3"
)
TINY_PAIRS = "--data @/cogs --batch-size 40"
TINY_SEQUENCES = "d_model=4 d_ff=4 n_layers=1 n_heads=2 warmup_steps=4 chunk_size=2"
TINY_LM = "embedding_size=4 hidden_size=4 chunk_size=2"
REFERENCE: dict[str, tuple[str, ...]] = {  # small enough for the reference
    "tg": training("trees", f"{TREES} {ALL}", "--batch-size 2", TINY_TG),
    "txl_cc": training("trees", f"{TREES} {ALL}", "--model txl_cc --batch-size 2", TINY_TG),
    "lm_fasttrees": training("language_model", TEXT, "--batch-size 2 --length 4", TINY_LM),
    "lm_on_lstm": training("language_model", TEXT, "--model on_lstm --batch-size 2 --length 4", TINY_LM),
    "sentiment": training("sentiment", SENTIMENT, "--batch-size 3", f"{TINY_LM} mlp_size=3"),
    "cogs": training("cogs", TINY_PAIRS, "--model fasttrees", TINY_SEQUENCES),
    "cogs_treeformer": training("cogs", TINY_PAIRS, "--model treeformer", TINY_SEQUENCES),
    "gpst": training(
        "gpst", "--data @/lines.txt --sentence-a-line --max-tokens 8 --vocabulary words", "--batch-size 1", TINY_GPST
    ),
    "parser": training(
        "span_parser",
        "--data @/short.trees --keep-tags",
        "--batch-size 9",
        "d_model=4 n_heads=2 n_layers=1 d_ff=3 d_span=4 warmup_steps=2",
    ),
}


def _gradients(folder: Path, arguments: list[str], backend: str, dtype: str) -> dict[str, Any]:
    from tests.house.snapshot_models import gradients

    return gradients(folder, arguments, backend, dtype)


def _generated(folder: Path, arguments: list[str]) -> dict[str, Any]:
    from tests.house.snapshot_models import generated

    return generated()


def _released(folder: Path, arguments: list[str]) -> dict[str, Any]:
    snapshot_data.write_released(folder)
    return {}


CASES: tuple[Case, ...] = (
    Case("generated", function=_generated),
    *(Case(name, (*arguments, "--out", f"@/runs/{name}")) for name, arguments in TRAININGS.items()),
    *(Case(f"two_{name}", (*TRAININGS[name], "--out", f"@/runs/two_{name}"), ranks=2) for name in TWO_RANKS),
    *(
        Case(f"gradients/{name}-{dtype}", arguments, function=partial(_gradients, backend="cpu", dtype=dtype))
        for name, arguments in TRAININGS.items()
        for dtype in ("float32", "float64")
    ),
    *(
        Case(f"gradients/{name}-ref-{dtype}", arguments, function=partial(_gradients, backend="ref", dtype=dtype))
        for name, arguments in REFERENCE.items()
        for dtype in ("float32", "float64")
    ),
    Case("released", function=_released, more=("lm_fasttrees",)),
    *(
        Case(f"commands/{name}", arguments, ranks=int(name != "verify"), more=more)
        for name, arguments, more in COMMANDS
    ),
)
