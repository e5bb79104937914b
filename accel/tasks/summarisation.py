"""Summaries of articles; for Gigaword the headline from the first sentence (Treeformer, sections 5 and 6.2).

The data are pairs of files as in `accel.tasks.translation`, or two --fields of files with a JSON object in every line.
The score is ROUGE. GPST and GPT-2 continue an article after the words "Summary :" (GPST, section 4.2.1); each word of
the summary is drawn from --top-k hypotheses. `--preset` sets the fields, the limits and the epochs of a data set of
that paper.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from statistics import fmean
from types import ModuleType
from typing import Any

from accel.autodiff.seeds import mix
from accel.data.batches.sequence_pairs import Column, read_parallel
from accel.data.published.summaries import prompted
from accel.data.vocabularies.vocabulary import END_ID
from accel.models.gpst.config import MODELS
from accel.search.pools import Limits
from accel.search.word_level import sample
from accel.tasks import fine_tuning
from accel.tasks.encoder_decoder import TRAINING
from accel.tasks.job import Job, require_data
from accel.tasks.numbers import at_least
from accel.tasks.pairs import (
    EVALUATION,
    add_parallel_arguments,
    build_parallel,
    outputs_of,
    parallel_files,
    parallel_names,
    read_test,
    tested_files,
    translations,
)
from accel.trained.kinds import CONTEXTS, can
from accel.trained.opening import Model
from accel.trained.options import OptionError, typed
from accel.training.checkpoint import read_state
from accel.training.communicator import Communicator

STEPS, _SIZE = 100_000, "base"
TOKENISERS = ("stems", "blanks")
_KINDS = {"ROUGE-1": "rouge1", "ROUGE-2": "rouge2", "ROUGE-L": "rougeL"}
AVERAGE = "R-AVG"
"""The name of the mean of the three scores."""
_OF_GPST = {"epochs": 15, "article_tokens": 900, "summary_tokens": 100, "top_k": 2}
_LONG = {"epochs": 15, "batch_size": 16, "article_tokens": 900, "summary_tokens": 100, "top_k": 2}
_SHORT = {"epochs": 10, "batch_size": 64, "article_tokens": 400, "summary_tokens": 120, "top_k": 2}
PRESETS: dict[str, tuple[tuple[str, str], dict[str, int]]] = {
    "xsum": (("document", "summary"), _LONG),
    "cnn_dailymail": (("article", "highlights"), _LONG),
    "gigaword": (("document", "summary"), _SHORT),
}
"""For each data set the names of its published fields, and the settings of GPST's paper (4.2.1 and A.5)."""
_ENDS = ("article", "title")
_VOCABULARY = "sentencepiece"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_parallel_arguments(parser, (None, None), (None, None, None), _VOCABULARY, _SIZE, MODELS)
    help_text = "the two fields of the files STEM.jsonl, such as document,summary (default: files STEM.article, .title)"
    parser.add_argument("--fields", type=_fields, metavar="ARTICLE,SUMMARY", help=help_text)
    help_text = "a data set: its --fields, unless --source or --target is given; of a GPST also its limits and epochs"
    parser.add_argument("--preset", choices=PRESETS, help=help_text)
    help_text = (
        "stems of lower-case runs of English letters and digits, all else left out; or words as they are (stems)"
    )
    parser.add_argument("--rouge-tokenize", choices=TOKENISERS, default=TOKENISERS[0], help=help_text)
    tuned = parser.add_argument_group("of a GPST or GPT-2")
    fine_tuning.add_checkpoint(tuned)
    for name, help_text in (
        ("epochs", "how often every pair is read"),
        ("article_tokens", "where articles are cut"),
        ("summary_tokens", "where summaries are cut"),
        ("top_k", "hypotheses that each word of a summary is drawn from"),
    ):
        tuned.add_argument(typed(name), type=at_least(1), metavar="N", help=f"{help_text} ({_OF_GPST[name]})")


def _fields(text: str) -> list[str]:
    fields = text.split(",")
    if len(fields) != 2 or not all(fields):
        raise argparse.ArgumentTypeError(f"{text}: not two names; use such as document,summary")
    return fields


def _settle(options: argparse.Namespace) -> None:
    """Set the options that are not given: those of the preset, or else the common ones."""
    ends = options.source or options.target
    if options.fields and ends:
        raise ValueError("--fields: with --source or --target; use the fields of STEM.jsonl, or two files, not both")
    fields, values = PRESETS.get(options.preset, (None, {}))
    if fields and not ends:
        options.fields = options.fields or list(fields)
    if not options.fields:
        options.source, options.target = options.source or _ENDS[0], options.target or _ENDS[1]
    if options.kind in MODELS:
        for name, default in (("size", _SIZE), ("batch_by", "both")):
            if getattr(options, name) != default:
                raise OptionError(name, f"is not for {' and '.join(MODELS)}: leave it out")
    else:
        for name, value in _OF_GPST.items():
            if getattr(options, name) not in (None, *([value] if options.resume else [])):  # older runs stored these
                raise OptionError(name, f"is for {' and '.join(MODELS)}: leave it out")
        return
    by_set = {setting.partition("=")[0] for setting in options.set}
    for name, value in (_OF_GPST | values).items():
        if getattr(options, name) is None and name not in by_set:
            setattr(options, name, value)


def build(options: argparse.Namespace, ops: ModuleType, group: Communicator) -> Job:
    """Return the job that the options ask for."""
    if options.kind not in MODELS:
        fine_tuning.refuse_checkpoint(options)
    _settle(options)
    if options.kind in MODELS:
        if options.checkpoint is not None and options.vocabulary != _VOCABULARY and not options.resume:
            raise OptionError("vocabulary", "the vocabulary is that of --checkpoint; leave it out")
        fine_tuning.check_settings(options, fine_tuning.SUMMARIES)
        require_data(options)
        names = parallel_names(options)
        read_test(options)
        files = (parallel_files(options.data, vars(options), name) for name in ("train", "validation"))
        job = fine_tuning.build_summariser(options, ops, group, *files)
        job = replace(job, notes=(*job.notes, *names))
    else:
        job = build_parallel(options, ops, group, replace(TRAINING, steps=STEPS))
    rouge([], [])  # fails before the training if rouge-score, which the test needs, is missing
    return job


def evaluation_options(model: Model) -> tuple[str, ...]:
    """Return the options that `evaluate` takes for a model."""
    return ("average", "write", "top_k", "sync") if can(model, CONTEXTS) else EVALUATION


def evaluate(
    ops: ModuleType, model: Model, data: Path, settings: dict[str, Any], *, average: int | None = None,
    write: Path | None = None, **search: Any,
) -> dict[str, Any]:  # fmt: skip
    """Return ROUGE on the test for each model of `accel.tasks.pairs.outputs_of`, which writes the file `write`."""
    files = tested_files(data, settings)
    sources, references = zip(*read_parallel(*files), strict=True)
    drawing = settings | {"seed": read_state(model.path)["training"]["seed"]} | search

    def summaries_of(each: Model) -> list[list[str]]:
        if can(each, CONTEXTS):
            return list(drawn_summaries(ops, each, files[0], sources, drawing))
        return translations(ops, each, sources, **search)

    results: dict[str, dict[str, float]] = {name: {} for name in (*_KINDS, AVERAGE)}
    for candidate, summaries in outputs_of(ops, model, summaries_of, average, write).items():
        for name, score in rouge(summaries, references, settings["rouge_tokenize"]).items():
            results[name][candidate] = score
    return results


def drawn_summaries(
    ops: ModuleType, model: Model, path: Column, articles: Sequence[Sequence[str]], settings: Mapping[str, Any]
) -> Iterator[list[str]]:
    """Yield the words of a summary of every article of a file, up to the end symbol or to --summary-tokens.

    With `settings["sync"]` False every action is drawn by itself.
    """
    n_tokens, seed, sync = settings["summary_tokens"], settings["seed"], settings.get("sync", True)
    limits = Limits(settings["top_k"], one_pool=True)
    for line, words in enumerate(articles, 1):
        context, _ = prompted(path, line, words, model.vocabulary, settings["article_tokens"])
        text = sample(ops, model, limits, seed=mix(seed, line), context=context, end=END_ID, sync=sync)
        *_, actions = islice(text, n_tokens)
        yield model.vocabulary.decode(i for i in actions if i >= 0 and i != END_ID)


def rouge(
    summaries: Sequence[Sequence[str]], references: Sequence[Sequence[str]], tokenize: str = TOKENISERS[0]
) -> dict[str, float]:
    """Return the mean F1 in 0..100 of each kind of ROUGE over the summaries, and the mean R-AVG of these.

    Summaries and references, one for each, are lists of words; without any all scores are 0.
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
