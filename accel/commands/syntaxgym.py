"""`grove syntaxgym`: which items of SyntaxGym's suites a model has right; or the means of results as published.

The words of a suite are read as they stand there, between blanks: with capitals unless --lower is given, marks of
punctuation and 's as words of their own. A word that the vocabulary lacks is its unknown word, if there is one; if not,
the item is skipped and counted, and --out has the reason. So is an item with a word that no
hypothesis of the search goes on with.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tqdm import tqdm

import accel
from accel.commands.search_options import add_proposals, add_search, surprisals_of
from accel.commands.tables import print_table, shown
from accel.data.files.lines import LineError
from accel.data.published.syntax_suites import Suite, read_suite, suite_files
from accel.evaluation.syntaxgym import (
    CIRCUITS,
    LEFT_OUT,
    Means,
    Outcome,
    accuracy,
    circuit_of,
    means,
    read_results,
    suite_outcomes,
    unknown_words,
)
from accel.scoring.surprisals import check_surprisals
from accel.trained.opening import open_model
from accel.training.directory import write_text

Results = Mapping[str, list[Outcome]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--checkpoint",
        type=Path,
        metavar="RUN",
        help="a model of trees or words: a run's directory, or a file",
    )
    source.add_argument(
        "--results", type=Path, metavar="CSV", help="published results: lines of model,suite,item,correct"
    )
    parser.add_argument(
        "suites", type=Path, nargs="*", metavar="SUITES", help="a suite's .json, or a folder or an archive of suites"
    )
    parser.add_argument("--lower", action="store_true", help="read the words in lower case")
    add_search(parser)
    add_proposals(parser)
    parser.add_argument("--batch-size", type=int, default=8, help="sentences searched side by side")
    parser.add_argument("--backend", default="cpu", choices=accel.BACKENDS)
    parser.add_argument(
        "--out", type=Path, metavar="JSON", help="write every item, its sums and predictions, to a file"
    )


def run(options: argparse.Namespace) -> int:
    if options.results is not None:
        if options.suites or options.out is not None:
            raise ValueError("--results: its items have been judged: neither SUITES nor --out go with it")
        for name, published in read_results(options.results).items():
            print(name)
            _print(published)
        return 0
    suites = _suites(options.suites)
    if options.batch_size < 1:
        raise ValueError(f"--batch-size {options.batch_size}: at least 1 is needed")
    if options.out is not None and (options.out.is_dir() or not options.out.parent.is_dir()):
        raise ValueError(f"--out {options.out}: not a file that can be written")
    ops = accel.load(options.backend)
    model = open_model(ops, options.checkpoint)
    check_surprisals(model)
    search = surprisals_of(ops, model, options)
    read = {"lower": options.lower, "batch_size": options.batch_size, "progress": _progress}
    results = suite_outcomes(ops, model, suites, **read, **search)
    _print(results)
    unknown, count = unknown_words(model, suites, options.lower)
    print(f"unknown words: {unknown} of {count}")
    for suite, outcome in _skipped(results)[:1]:
        print(f"skipped: {len(_skipped(results))} items, the first item {outcome.item} of {suite}: {outcome.skipped}")
    if options.out is not None:
        asked = {"checkpoint": str(options.checkpoint), "lower": options.lower}
        asked |= {name: str(value.path) if name == "parser" else value for name, value in search.items()}
        write_text(options.out, json.dumps(asked | _content(results), indent=1, ensure_ascii=False) + "\n")
    return 0


def _suites(paths: list[Path]) -> list[Suite]:
    """Return all suites, each there once."""
    if not paths:
        raise ValueError("SUITES: give suites, a folder or an archive of them")
    suites: dict[str, Suite] = {}
    for path in (file for given in paths for file in suite_files(given)):
        suite = read_suite(path)
        if suite.name in suites:
            raise LineError(path, 0, f"a second suite {suite.name}")
        suites[suite.name] = suite
    return list(suites.values())


def _print(results: Results) -> None:
    """Print a line for every suite, and the means over all of them, and without those that the paper leaves out."""
    rows = [["suite", "circuit", "right", "items", "skipped", "accuracy"]]
    for suite, outcomes in results.items():
        judged = [outcome for outcome in outcomes if not outcome.skipped]
        right = sum(outcome.predictions[0] for outcome in judged)
        counts = map(str, (right, len(judged), len(outcomes) - len(judged)))
        rows.append([suite, circuit_of(suite) or "-", *counts, shown(accuracy(outcomes))])
    print_table(rows, n_names=2)
    every, of_paper = _means(results).values()
    rows = [["", f"{every.suites} suites", f"{of_paper.suites} as in the paper"]]
    rows += [[name, shown(every.circuits.get(name)), shown(of_paper.circuits.get(name))] for name in CIRCUITS]
    rows.append(["mean over circuits", shown(every.over_circuits), shown(of_paper.over_circuits)])
    rows.append(["mean over suites", shown(every.over_suites), shown(of_paper.over_suites)])
    print()
    print_table(rows, n_names=1)
    print()


def _means(results: Results) -> dict[str, Means]:
    accuracies = {suite: accuracy(outcomes) for suite, outcomes in results.items()}
    return {"all suites": means(accuracies), "as in the paper": means(accuracies, LEFT_OUT)}


def _skipped(results: Results) -> list[tuple[str, Outcome]]:
    return [(suite, outcome) for suite, outcomes in results.items() for outcome in outcomes if outcome.skipped]


def _content(results: Results) -> dict[str, Any]:
    """Return what --out has: the means, and of every suite its accuracy and its items."""
    suites = {
        suite: {"circuit": circuit_of(suite), "accuracy": accuracy(outcomes), "items": list(map(_item, outcomes))}
        for suite, outcomes in results.items()
    }
    return {"means": {name: asdict(of_suites) for name, of_suites in _means(results).items()}, "suites": suites}


def _item(outcome: Outcome) -> dict[str, Any]:
    if outcome.skipped:
        return {"item": outcome.item, "skipped": outcome.skipped}
    judged = {"correct": outcome.predictions[0], "predictions": outcome.predictions, "bits": outcome.bits}
    return {"item": outcome.item, **judged}


def _progress(bits: Iterable[list[float]], count: int) -> Iterable[list[float]]:
    """Show on a terminal how many sentences have been read."""
    shown: Iterable[list[float]] = tqdm(bits, total=count, unit="sentence", disable=None, leave=False)
    return shown
