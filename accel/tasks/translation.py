"""Translation of sentences: IWSLT'15 English-Vietnamese, 50,000 steps (FastTrees, section 4.5); IWSLT'14 (Treeformer).

The data are pairs of files in one folder, one sentence a line, words between blanks: train.en and train.de, valid (or
val, dev) and test, with the endings of any two languages; each may be .gz or .xz. `--preset iwslt15` sets the names of
IWSLT'15's files, and the vocabulary and the batches of Tensor2Tensor. Source and target share one vocabulary.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from accel.data.batches.sequence_pairs import read_parallel
from accel.tasks.encoder_decoder import RECIPES, TRAINING
from accel.tasks.job import Job
from accel.tasks.pairs import (
    EVALUATION,
    add_parallel_arguments,
    build_parallel,
    outputs_of,
    tested_files,
    translations,
)
from accel.trained.opening import Model
from accel.trained.options import OptionError
from accel.training.communicator import Communicator
from accel.training.directory import VOCABULARY

STEPS = 50_000
PRESETS = {
    "iwslt15": {
        "source": "en", "target": "vi", "train_stem": "train", "validation_stem": "tst2012", "test_stem": "tst2013",
        "vocabulary": "bpe", "batch_by": "longer",
    }
}  # fmt: skip
FAIRSEQ_PIECES = 10_000
_DEFAULTS = {"vocabulary": "sentencepiece", "batch_by": "both"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_parallel_arguments(parser, (None, None), (None, None, None), "sentencepiece", "base")
    parser.add_argument(
        "--preset",
        choices=PRESETS,
        help="published files and their recipe: iwslt15: tst2012, tst2013, bpe, longer",
    )
    help_text = "of the model and its training; fairseq's is for --size iwslt, 10,000 pieces, longer (tensor2tensor)"
    parser.add_argument("--recipe", choices=RECIPES, default=RECIPES[0], help=help_text)
    parser.set_defaults(**dict.fromkeys(_DEFAULTS))  # None, so that a preset can set them
    help_text = "the tokeniser of sacrebleu; none splits at blanks only (none)"
    parser.add_argument("--bleu-tokenize", default="none", help=help_text)


def build(options: argparse.Namespace, ops: ModuleType, group: Communicator) -> Job:
    """Return the job that the options ask for."""
    if options.batch_by is None and options.resume and (options.out / VOCABULARY).exists():
        options.batch_by = "both"  # of a run that is older than this option
    if options.recipe == "fairseq":
        options.batch_by = options.batch_by or "longer"  # as fairseq's --max-tokens counts
        if options.vocabulary in (None, "bpe") and options.vocabulary_size is None:
            options.vocabulary, options.vocabulary_size = "bpe", FAIRSEQ_PIECES
    for name, value in (_DEFAULTS | PRESETS.get(options.preset, {})).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    job = build_parallel(options, ops, group, replace(TRAINING, steps=STEPS))
    if options.test_stem is not None:
        bleu([["a"]], [["a"]], options.bleu_tokenize)  # fails before the training if the test needs what is missing
    return job


def evaluation_options(model: Model) -> tuple[str, ...]:
    """Return the options that `evaluate` takes for a model."""
    return EVALUATION


def evaluate(
    ops: ModuleType, model: Model, data: Path, settings: dict[str, Any], *, average: int | None = None,
    write: Path | None = None, **search: Any,
) -> dict[str, Any]:  # fmt: skip
    """Return BLEU on the test for each model of `accel.tasks.pairs.outputs_of`, which writes the file `write`."""
    sources, references = zip(*read_parallel(*tested_files(data, settings)), strict=True)
    outputs = outputs_of(ops, model, lambda each: translations(ops, each, sources, **search), average, write)
    tokenize = settings["bleu_tokenize"]
    return {"BLEU": {name: bleu(hypotheses, references, tokenize) for name, hypotheses in outputs.items()}}


def bleu(hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[str]], tokenize: str = "none") -> float:
    """Return sacrebleu's BLEU in 0..100 of hypotheses with one reference each, as lists of words; 0 if there are none.

    Raises
    ------
    OptionError
        If sacrebleu has no such tokeniser, or the tokeniser lacks a package or a file.
    """
    try:
        import sacrebleu
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("BLEU is counted by sacrebleu: pip install 'grove-lm[translate]'") from error
    if tokenize not in sacrebleu.BLEU.TOKENIZERS:
        raise OptionError("bleu_tokenize", f"choose one of {', '.join(sacrebleu.BLEU.TOKENIZERS)}", tokenize)
    if not hypotheses:
        return 0.0
    hypothesis_lines, reference_lines = (
        [" ".join(words) for words in sentences] for sentences in (hypotheses, references)
    )
    try:
        score = sacrebleu.corpus_bleu(hypothesis_lines, [reference_lines], tokenize=tokenize, force=True)
    except (OSError, RuntimeError) as error:  # of a tokeniser that is not installed, or whose file is not there
        raise OptionError("bleu_tokenize", f"cannot be used here: {error}", tokenize) from error
    return float(score.score)
