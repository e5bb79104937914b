"""Summaries of sentences (Treeformer, section 4): Gigaword, from the first sentence of an article to its headline.

Read from pairs of files as in `accel.tasks.translation`, and scored by ROUGE.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from accel.communicator import Communicator
from accel.data.pairs import read_parallel
from accel.saved import Model
from accel.tasks import Job
from accel.tasks.encoder_decoder import TRAINING
from accel.tasks.pairs import add_parallel_arguments, best_and_average, build_parallel, parallel_files, translations

STEPS = 100_000
TOKENISERS = ("stems", "blanks")
_KINDS = {"ROUGE-1": "rouge1", "ROUGE-2": "rouge2", "ROUGE-L": "rougeL"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_parallel_arguments(parser, ("article", "title"), ("train", "valid", "test"), "sentencepiece", "base")
    what = "stems of lower-case runs of English letters and digits, all else left out; or words as they are (stems)"
    parser.add_argument("--rouge-tokenize", choices=TOKENISERS, default=TOKENISERS[0], help=what)


def build(options: argparse.Namespace, ops: ModuleType, group: Communicator) -> Job:
    """Return the job that the options ask for."""
    return build_parallel(options, ops, group, replace(TRAINING, steps=STEPS))


def evaluate(ops: ModuleType, model: Model, data: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Return ROUGE on the test files, of the best checkpoint and of the average of the last ones, up to eight."""
    sources, references = zip(*read_parallel(*parallel_files(data, settings, "test")), strict=True)
    found: dict[str, dict[str, float]] = {name: {} for name in _KINDS}
    for candidate, one in best_and_average(ops, model).items():
        scores = rouge(translations(ops, one, sources), references, settings["rouge_tokenize"])
        for name, score in scores.items():
            found[name][candidate] = score
    return found


def rouge(
    summaries: Sequence[Sequence[str]], references: Sequence[Sequence[str]], tokenize: str = TOKENISERS[0]
) -> dict[str, float]:
    """Return the means of F1 in 0..100 as rouge-score counts it, of lists of words with one reference each."""
    try:
        from rouge_score import rouge_scorer
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("ROUGE is counted by rouge-score: pip install 'grove-lm[summarise]'") from error
    words = _Blanks() if tokenize == "blanks" else None
    scorer = rouge_scorer.RougeScorer([*_KINDS.values()], use_stemmer=True, tokenizer=words)
    pairs = zip(references, summaries, strict=True)
    scores = [scorer.score(" ".join(reference), " ".join(summary)) for reference, summary in pairs]
    return {name: 100.0 * sum(score[kind].fmeasure for score in scores) / len(scores) for name, kind in _KINDS.items()}


class _Blanks:
    """What rouge-score asks for words that are to stay as they are."""

    def tokenize(self, text: str) -> list[str]:
        return text.split()
