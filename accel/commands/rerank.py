"""`grove rerank`: the most probable of every sentence's proposals, and their score against the gold trees."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from accel.commands import opened as models
from accel.commands import proposed
from accel.commands.brackets import print_score
from accel.data.corpora.gathered import summary
from accel.data.files.lines import read_lines
from accel.evaluation.bound_and_rerank import bracket_score, choose
from accel.evaluation.evalb import Score, TooManyErrors
from accel.evaluation.evalb_input import COLLINS, EvalbParameters, read_parameters


def add_arguments(parser: argparse.ArgumentParser) -> None:
    models.add_arguments(parser)
    parser.add_argument("--proposals", type=Path, required=True, help="trees, blank lines between sentences")
    parser.add_argument("--gold", type=Path, required=True, help="the gold tree of every sentence")
    proposed.add_arguments(parser)
    parser.add_argument("--parameters", type=Path, help="a parameter file of EVALB (default: those of COLLINS.prm)")
    parser.add_argument("--out", type=Path, help="write the chosen trees, one a line, an empty line for none")


def run(options: argparse.Namespace) -> int:
    models.check_outs(options, "out", "rows")
    ensemble = models.open_models(options)
    parameters = COLLINS if options.parameters is None else _read_parameters(options.parameters)
    sentences = proposed.read_sentences(options, ensemble.reading, ensemble.models[0])
    best = proposed.asked(choose, ensemble, sentences)
    chosen_trees = [None if ranked is None else ranked[0] for ranked in best]
    if options.out is not None:
        models.write_out(options.out, "".join(f"{'' if tree is None else tree}\n" for tree in chosen_trees))
    logps = [None if ranked is None else ranked[1] for ranked in best]
    try:
        score = bracket_score(chosen_trees, sentences.gold, parameters)
    except TooManyErrors as error:
        _write_rows(options, sentences, logps, None)
        more = "a parameter file with a larger MAX_ERROR (--parameters) allows more"
        raise TooManyErrors(f"{options.gold}: {error}; {more}") from error
    _write_rows(options, sentences, logps, score)
    with models.figures(options.out, options.rows):
        skip_counts = (value for name, value in summary(sentences) if name == "skipped")
        print_score(score, sentences.gold, skip_counts)
    return 0


def _write_rows(
    options: argparse.Namespace, sentences: proposed.Sentences, logps: Sequence[float | None], score: Score | None
) -> None:
    """Write log p and counts of brackets of every sentence, if --rows asks for it; without a score only log p."""
    if options.rows is None:
        return
    counts = [[] if score is None else _counts(score, number) for number in range(len(logps))]
    values = [[] if p is None else [f"{p:.6f}", *counts[n]] for n, p in enumerate(logps)]
    proposed.write_rows(options.rows, sentences, "log p\tmatched\tgold\tchosen", values)


def _counts(score: Score, number: int) -> list[object]:
    """Return a sentence's numbers of matching, gold and chosen brackets, or why EVALB does not score it."""
    row = score.per_sentence[number]
    return [row.matched, row.gold, row.predicted] if row.status == "valid" else [f"{row.status}: {row.reason}"]


def _read_parameters(path: Path) -> EvalbParameters:
    lines = [line for _, line in read_lines(path)]
    try:
        return read_parameters(lines)
    except ValueError as error:
        raise ValueError(f"{path}:{str(error).removeprefix('line ')}") from error
