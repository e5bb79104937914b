"""`grove score_outputs`: the scores of a file of outputs, one a line, of a model here or of any other system."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path

from accel.data.files.json_lines import Field, read_texts
from accel.data.files.lines import LineError, find_file
from accel.data.published.cognition import error_rates, read_instances, read_lexicon, tokens
from accel.tasks.summarisation import TOKENISERS, rouge
from accel.tasks.translation import bleu
from accel.trained.options import OptionError

MEASURES = ("bleu", "rouge", "cognition")
_OF_MEASURES = {
    "references": ("bleu", "rouge"), "field": ("bleu", "rouge"), "bleu_tokenize": ("bleu",),
    "rouge_tokenize": ("rouge",), "data": ("cognition",), "test_stem": ("cognition",),
}  # fmt: skip
"""The options that only some measures have, each with these measures."""
_STEM = "cg-test/cg-test"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("measure", choices=MEASURES, help="BLEU, ROUGE, or the error rates of CoGnition")
    parser.add_argument("file", type=Path, metavar="FILE", help="the outputs, one a line, words between blanks")
    help_text = "of bleu and rouge: the references, one a line"
    parser.add_argument("--references", type=Path, metavar="FILE", help=help_text)
    help_text = "the field of the references in a file with a JSON object in every line"
    parser.add_argument("--field", metavar="NAME", help=help_text)
    help_text = "of bleu: the tokeniser of sacrebleu; none splits at blanks only (none)"
    parser.add_argument("--bleu-tokenize", metavar="NAME", help=help_text)
    help_text = "of rouge: stems of lower-case words, or words as they are (stems)"
    parser.add_argument("--rouge-tokenize", choices=TOKENISERS, help=help_text)
    help_text = "of cognition: the folder or archive of the data, with the file lexicon"
    parser.add_argument("--data", type=Path, metavar="FOLDER", help=help_text)
    help_text = "of cognition: the name of its test files without .en and .compound (cg-test/cg-test)"
    parser.add_argument("--test-stem", metavar="STEM", help=help_text)


def run(options: argparse.Namespace) -> int:
    option = "data" if options.measure == "cognition" else "references"
    if getattr(options, option) is None:
        raise ValueError(f"--{option}: is missing; {options.measure} needs it")
    for name, measures in _OF_MEASURES.items():
        if getattr(options, name) is not None and options.measure not in measures:
            raise OptionError(name, f"is for {' and '.join(measures)}: leave it out")
    scores = _scores(options)
    width = max(16, *(len(name) + 2 for name in scores))
    for name, value in scores.items():
        print(f"{name:{width}}{value:.4f}")
    return 0


def _scores(options: argparse.Namespace) -> dict[str, float]:
    """Return the scores by name."""
    if options.measure == "cognition":
        lexicon = read_lexicon(find_file(options.data, "lexicon"))
        paths = (find_file(options.data, f"{options.test_stem or _STEM}.{end}") for end in ("en", "compound"))
        instances = read_instances(*paths, lexicon)
        outputs = _lines(options.file, tokens)
        if len(outputs) != len(instances):
            reason = f"{len(outputs)} outputs, but the test has {len(instances)} sentences; give one for each"
            raise LineError(options.file, 0, reason)
        return {f"error rate {name}": rate for name, rate in error_rates(instances, outputs, lexicon).items()}
    column = Field(options.references, options.field) if options.field else options.references
    outputs, references = _pairs(options.file, column)
    if options.measure == "bleu":
        return {"BLEU": bleu(outputs, references, options.bleu_tokenize or "none")}
    return rouge(outputs, references, options.rouge_tokenize or TOKENISERS[0])


def _lines(column: Path | Field, split: Callable[[str], list[str]] = str.split) -> list[list[str]]:
    return [split(text) for _, text in read_texts(column)]


def _pairs(path: Path, references: Path | Field) -> tuple[list[list[str]], list[list[str]]]:
    """Return the words of all outputs, which may be empty, and of their references."""
    sides: tuple[list[list[str]], list[list[str]]] = ([], [])
    for line, (output, reference) in enumerate(zip_longest(_lines(path), _lines(references)), 1):
        if output is None or reference is None:
            longer, shorter = (path, references) if reference is None else (references, path)
            raise LineError(str(longer), line, f"{shorter} ends before this line")
        if not reference:
            raise LineError(str(references), line, "a reference without words")
        sides[0].append(output)
        sides[1].append(reference)
    return sides
