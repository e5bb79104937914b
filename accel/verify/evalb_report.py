"""EVALB's printout of a score, to compare with what EVALB itself printed, character by character."""

from __future__ import annotations

from collections.abc import Iterable

from accel.evaluation.evalb import Score, evalb
from accel.evaluation.evalb_input import read_parameters, read_sentences


def report(gold_lines: Iterable[str], predicted_lines: Iterable[str], parameter_lines: Iterable[str]) -> list[str]:
    """Return the lines that EVALB prints for a gold, a predicted and a parameter file, without its messages."""
    parameters = read_parameters(parameter_lines)
    files = list(read_sentences(gold_lines)), list(read_sentences(predicted_lines))
    score = evalb(*files, parameters)
    lines = [
        "  Sent.                        Matched  Bracket   Cross        Correct Tag",
        " ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy",
        "=" * 76,
    ]
    for number, row in enumerate(score.per_sentence, 1):
        status = ("valid", "error", "skip").index(row.status)
        lines.append(
            f"{number:4d}  {row.length:3d}    {status:d}  {percent(row.matched, row.gold):6.2f} "
            f"{percent(row.matched, row.predicted):6.2f}   {row.matched:3d}    {row.gold:3d}  {row.predicted:3d}    "
            f"{row.crossing:3d}   {row.words:4d}  {row.correct_tags:4d}   {percent(row.correct_tags, row.words):6.2f}"
        )
    matches, gold, predicted, crossing, words, tags = (
        sum(getattr(row, name) for row in score.per_sentence)
        for name in ("matched", "gold", "predicted", "crossing", "words", "correct_tags")
    )
    brackets = f"{'':16}{score.recall:6.2f} {score.precision:6.2f} {matches:6d} {gold:5d} {predicted:5d}  {crossing:5d}"
    lines += ["=" * 76, f"{brackets if gold and predicted else ''}  {words:5d} {tags:5d}   {score.tagging:6.2f}"]
    short = evalb(*files, parameters, max_length=parameters.cutoff_length)
    lines += ["=== Summary ===", "", "-- All --", *summary(score)]
    return [*lines, "", f"-- len<={parameters.cutoff_length} --", *summary(short)]


def summary(score: Score) -> list[str]:
    return [
        f"Number of sentence        = {len(score.per_sentence):6d}",
        f"Number of Error sentence  = {score.errors:6d}",
        f"Number of Skip  sentence  = {score.skipped:6d}",
        f"Number of Valid sentence  = {score.valid:6d}",
        f"Bracketing Recall         = {score.recall:6.2f}",
        f"Bracketing Precision      = {score.precision:6.2f}",
        f"Bracketing FMeasure       = {score.f1:6.2f}",
        f"Complete match            = {score.complete_match:6.2f}",
        f"Average crossing          = {score.average_crossing:6.2f}",
        f"No crossing               = {score.no_crossing:6.2f}",
        f"2 or less crossing        = {score.two_or_less_crossing:6.2f}",
        f"Tagging accuracy          = {score.tagging:6.2f}",
    ]


def percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0
