"""`grove syntaxgym`: which items of SyntaxGym's suites a model predicts correctly; or the means of published results.

The words of a suite are read as written, between blanks: with capitals unless --lower is given; punctuation marks and
's are words. A word outside the vocabulary becomes the unknown word; if there is none, the item is skipped and counted,
and --out has the reason. An item with a word that no hypothesis of the search reaches is skipped too. The column chance
is the accuracy of random surprisals.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import accel
from accel.commands.opened import add_ensemble, check_outs, figures, progress, write_out
from accel.commands.search_options import (
    OF_TREES,
    add_models,
    add_proposals,
    add_search,
    open_ensemble,
    search_settings,
    surprisals_of,
)
from accel.commands.tables import print_table, shown
from accel.commands.threads import processes
from accel.data.files.lines import LineError
from accel.data.published.syntax_suites import Suite, read_suite, suite_files
from accel.evaluation.syntaxgym import (
    CIRCUITS,
    LEFT_OUT,
    Means,
    Outcome,
    accuracy,
    chance,
    circuit_of,
    means,
    read_results,
    suite_outcomes,
    unknown_words,
)
from accel.tasks.numbers import at_least
from accel.trained.options import typed

Results = Mapping[str, list[Outcome]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    source = parser.add_mutually_exclusive_group(required=True)
    add_models(source, required=False)
    source.add_argument(
        "--results", type=Path, metavar="CSV", help="published results: lines of model,suite,item,correct"
    )
    parser.add_argument(
        "suites", type=Path, nargs="*", metavar="SUITES", help="a suite's .json, or a folder or an archive of suites"
    )
    add_ensemble(parser)
    parser.add_argument("--lower", action="store_true", help="read the words in lower case")
    add_search(parser)
    add_proposals(parser)
    parser.add_argument("--batch-size", type=at_least(1), default=8, help="sentences searched side by side")
    parser.add_argument("--backend", default="cpu", choices=accel.BACKENDS)
    parser.add_argument(
        "--out", type=Path, metavar="JSON", help="write every item, its sums and predictions, to a file"
    )


def run(options: argparse.Namespace) -> int:
    if options.results is not None:
        for name in ("suites", "out", "lower", "ensemble", "beam", *OF_TREES, "parser", "proposals_per_sentence"):
            if getattr(options, name):
                option = "SUITES" if name == "suites" else typed(name)
                raise ValueError(f"{option}: is for --checkpoint, and --results are given: leave it out")
        for name, published in read_results(options.results).items():
            print(name)
            _print(published)
        return 0
    check_outs(options, "out", reads=(file for source in options.suites for file in suite_files(source)))
    suites = _suites(options.suites)
    ops = accel.load(options.backend)
    model, others = open_ensemble(ops, options)
    search = surprisals_of(ops, model, options, others)
    reading = {"lower": options.lower, "batch_size": options.batch_size, "processes": processes(ops, model)}
    results = suite_outcomes(ops, model, suites, progress=partial(progress, unit="sentence"), **reading, **search)
    chances = {suite.name: chance(suite) for suite in suites}
    if options.out is not None:
        settings = {"checkpoint": str(options.checkpoint[0]), "lower": options.lower} | search_settings(search)
        write_out(options.out, json.dumps(settings | _content(results, chances), indent=1, ensure_ascii=False) + "\n")
    with figures(options.out):
        _print(results, chances)
        unknown, count = unknown_words(model, suites, options.lower, search.get("parser"))
        print(f"unknown words: {unknown} of {count}")
        for suite, outcome in _skipped(results)[:1]:
            first = f"the first item {outcome.item} of {suite}: {outcome.skipped}"
            print(f"skipped: {len(_skipped(results))} items, {first}")
    return 0


def _suites(paths: list[Path]) -> list[Suite]:
    """Return all suites; LineError if two have the same name."""
    if not paths:
        raise ValueError("SUITES: give suites, or a folder or an archive of suites")
    suites: dict[str, Suite] = {}
    for path in (file for source in paths for file in suite_files(source)):
        suite = read_suite(path)
        if suite.name in suites:
            raise LineError(path, 0, f"a second suite {suite.name}: give each once")
        suites[suite.name] = suite
    return list(suites.values())


def _print(results: Results, chances: dict[str, float] | None = None) -> None:
    """Print a line for every suite, and the means over all suites and over those of the paper."""
    rows = [["suite", "circuit", "right", "items", "skipped", "accuracy", *(["chance"] if chances else [])]]
    for suite, outcomes in results.items():
        judged_outcomes = [outcome for outcome in outcomes if not outcome.skipped]
        right = sum(outcome.predictions[0] for outcome in judged_outcomes)
        counts = map(str, (right, len(judged_outcomes), len(outcomes) - len(judged_outcomes)))
        by_chance = [shown(chances[suite])] if chances else []
        rows.append([suite, circuit_of(suite) or "-", *counts, shown(accuracy(outcomes)), *by_chance])
    print_table(rows, n_names=2)
    overall, paper = _means(results).values()
    columns = [overall, paper, *([means(chances, LEFT_OUT)] if chances else [])]
    heads = [f"{overall.suites} suites", f"{paper.suites} of Transformer Grammars", "those by chance"][: len(columns)]
    rows = [["", *heads]]
    rows += [[name, *(shown(column.circuits.get(name)) for column in columns)] for name in CIRCUITS]
    rows.append(["mean over circuits", *(shown(column.over_circuits) for column in columns)])
    rows.append(["mean over suites", *(shown(column.over_suites) for column in columns)])
    print()
    print_table(rows, n_names=1)
    print()


def _means(results: Results) -> dict[str, Means]:
    accuracies = {suite: accuracy(outcomes) for suite, outcomes in results.items()}
    return {"all suites": means(accuracies), "as in the paper": means(accuracies, LEFT_OUT)}


def _skipped(results: Results) -> list[tuple[str, Outcome]]:
    return [(suite, outcome) for suite, outcomes in results.items() for outcome in outcomes if outcome.skipped]


def _content(results: Results, chances: dict[str, float]) -> dict[str, Any]:
    """Return the content of --out: the means, and for every suite its accuracy, that of chance, and its items."""
    suites = {
        suite: {"circuit": circuit_of(suite), "accuracy": accuracy(outcomes), "chance": chances[suite],
                "items": list(map(_item, outcomes))}
        for suite, outcomes in results.items()
    }  # fmt: skip
    return {"means": {name: asdict(of_suites) for name, of_suites in _means(results).items()}, "suites": suites}


def _item(outcome: Outcome) -> dict[str, Any]:
    if outcome.skipped:
        return {"item": outcome.item, "skipped": outcome.skipped}
    outcome_fields = {"correct": outcome.predictions[0], "predictions": outcome.predictions, "bits": outcome.bits}
    return {"item": outcome.item, **outcome_fields}
