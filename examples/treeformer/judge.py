"""Fill in a sheet of `grove compare` by a rule, in place of a person who judges: enough to see the tally at work.

    python -m examples.treeformer.judge comparison.tsv --out judged.tsv

The rule compares the words of an output with those of its reference. The same words in the same order are correct; in
another order they are a pred-arg error. A missing word and an added one that begin with the same three letters are a
morphosyntax error, any other such pair is lexical, and an output that is longer or shorter is drop/add. The rule knows
one right translation: a person would find many more correct.
"""

from __future__ import annotations

import argparse
import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from accel.evaluation.error_sheet import COLUMNS
from examples.program import run_program

STEM = 3  # letters


def errors(output: Sequence[str], reference: Sequence[str]) -> list[str]:
    """Return the categories of an output.

    Examples
    --------
    >>> errors("the dog him sees".split(), "he the dog sees".split()), errors(["a", "dog"], ["a", "dog"])
    (['lexical'], ['correct'])
    >>> errors("dog the sees".split(), "the dog sees".split()), errors("it seems so".split(), "it seem".split())
    (['pred-arg'], ['morphosyntax', 'drop/add'])
    """
    if list(output) == list(reference):
        return ["correct"]
    reference_only, output_only = Counter(reference) - Counter(output), Counter(output) - Counter(reference)
    if not reference_only and not output_only:
        return ["pred-arg"]
    stems = [Counter(word[:STEM] for word in words.elements()) for words in (reference_only, output_only)]
    n_inflected = (stems[0] & stems[1]).total()
    n_replaced = min(reference_only.total(), output_only.total()) - n_inflected
    counts = {"lexical": n_replaced, "morphosyntax": n_inflected, "drop/add": len(output) != len(reference)}
    return [name for name, count in counts.items() if count]


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the sheet with its last two columns filled in."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.treeformer.judge", description="fill in a sheet of grove compare by a rule"
    )
    parser.add_argument("sheet", type=Path, help="comparison.tsv")
    parser.add_argument("--out", type=Path, required=True, help="the judged sheet to write")
    options = parser.parse_args(arguments)
    with open(options.sheet, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, dialect="excel-tab"))
    for row in rows:
        for letter in "AB":
            row[f"errors {letter}"] = " ".join(errors(row[f"output {letter}"].split(), row["reference"].split()))
    with open(options.out, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, dialect="excel-tab", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(f"{options.out}: {len(rows)} sentences judged by a rule, not by a person")


if __name__ == "__main__":
    run_program(main)
