"""Summaries of articles; for Gigaword the headline from the first sentence (Treeformer, section 4).

Read from pairs of files as in `accel.tasks.translation`, and scored by ROUGE. GPST and GPT-2 continue an article after
the words "Summary :" (GPST, section 4.2.1); each word of the summary is drawn from --top-k hypotheses.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from statistics import fmean
from types import ModuleType
from typing import Any

from accel.autodiff.layers import mix
from accel.data.batches.sequence_pairs import read_parallel
from accel.data.published.summaries import prompted
from accel.data.vocabularies.vocabulary import END_ID
from accel.models.gpst.config import MODELS
from accel.search.word_level import Limits, sample
from accel.tasks import fine_tuning
from accel.tasks.encoder_decoder import TRAINING
from accel.tasks.job import Job, count, require_data
from accel.tasks.pairs import add_parallel_arguments, best_and_average, build_parallel, parallel_files, translations
from accel.trained.kinds import CONTEXTS, can
from accel.trained.opening import Model
from accel.training.communicator import Communicator

STEPS = 100_000
TOKENISERS = ("stems", "blanks")
_KINDS = {"ROUGE-1": "rouge1", "ROUGE-2": "rouge2", "ROUGE-L": "rougeL"}
AVERAGE = "R-AVG"
"""The mean of the three."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_parallel_arguments(parser, ("article", "title"), ("train", "valid", "test"), "sentencepiece", "base", MODELS)
    help_text = (
        "stems of lower-case runs of English letters and digits, all else left out; or words as they are (stems)"
    )
    parser.add_argument("--rouge-tokenize", choices=TOKENISERS, default=TOKENISERS[0], help=help_text)
    tuned = parser.add_argument_group("of a GPST or GPT-2")
    fine_tuning.add_checkpoint(tuned)
    for name, number, help_text in (
        ("epochs", 15, "how often every pair is read"),
        ("article-tokens", 900, "where articles are cut"),
        ("summary-tokens", 100, "where summaries are cut"),
        ("top-k", 2, "hypotheses that each word of a summary is drawn from"),
    ):
        tuned.add_argument(f"--{name}", type=count, default=number, metavar="N", help=f"{help_text} ({number})")


def build(options: argparse.Namespace, ops: ModuleType, group: Communicator) -> Job:
    """Return the job that the options ask for."""
    if options.kind in MODELS:
        fine_tuning.check_settings(options, fine_tuning.SUMMARIES)
        require_data(options)
        rouge([], [])  # before the training: rouge-score must be there after it
        files = (parallel_files(options.data, vars(options), name) for name in ("train", "validation"))
        return fine_tuning.build_summariser(options, ops, group, *files)
    fine_tuning.refuse_checkpoint(options)
    rouge([], [])
    return build_parallel(options, ops, group, replace(TRAINING, steps=STEPS))


def evaluate(ops: ModuleType, model: Model, data: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Return ROUGE on the test files, of the best checkpoint and of the average of up to eight last checkpoints."""
    files = parallel_files(data, settings, "test")
    sources, references = zip(*read_parallel(*files), strict=True)
    results: dict[str, dict[str, float]] = {name: {} for name in (*_KINDS, AVERAGE)}
    for candidate, checkpoint_model in best_and_average(ops, model).items():
        if can(checkpoint_model, CONTEXTS):
            summaries = list(drawn_summaries(ops, checkpoint_model, files[0], sources, settings))
        else:
            summaries = translations(ops, checkpoint_model, sources)
        scores = rouge(summaries, references, settings["rouge_tokenize"])
        for name, score in scores.items():
            results[name][candidate] = score
    return results


def drawn_summaries(
    ops: ModuleType, model: Model, path: Path, articles: Sequence[Sequence[str]], settings: dict[str, Any]
) -> Iterator[list[str]]:
    """Yield the words of a summary of every article of a file, up to the end symbol or to --summary-tokens."""
    n_tokens, seed = settings["summary_tokens"], settings["seed"] or 0
    limits = Limits(settings["top_k"], one_pool=True)
    for line, words in enumerate(articles, 1):
        context, _ = prompted(path, line, words, model.vocabulary, settings["article_tokens"])
        text = sample(ops, model, limits, seed=mix(seed, line), context=context, end=END_ID)
        *_, actions = islice(text, n_tokens)
        yield model.vocabulary.decode(i for i in actions if i >= 0 and i != END_ID)


def rouge(
    summaries: Sequence[Sequence[str]], references: Sequence[Sequence[str]], tokenize: str = TOKENISERS[0]
) -> dict[str, float]:
    """Return the means of rouge-score's F1 in 0..100, of lists of words with one reference each, and their mean R-AVG.

    Without summaries all are 0.
    """
    try:
        from rouge_score import rouge_scorer
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("ROUGE is counted by rouge-score: pip install 'grove-lm[summarise]'") from error
    if not summaries:
        return dict.fromkeys((*_KINDS, AVERAGE), 0.0)
    words = _Blanks() if tokenize == "blanks" else None
    scorer = rouge_scorer.RougeScorer([*_KINDS.values()], use_stemmer=True, tokenizer=words)
    pairs = zip(references, summaries, strict=True)
    scores = [scorer.score(" ".join(reference), " ".join(summary)) for reference, summary in pairs]
    means = {name: 100.0 * fmean(score[kind].fmeasure for score in scores) for name, kind in _KINDS.items()}
    return means | {AVERAGE: fmean(means.values())}


class _Blanks:
    """A tokeniser for rouge-score that leaves words as they are."""

    def tokenize(self, text: str) -> list[str]:
        return text.split()
