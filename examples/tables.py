"""The tables of RESULTS.md, in Markdown, from results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from math import log
from statistics import fmean
from typing import Any

import numpy as np

from accel.evaluation.significance import bootstrap, interval_of_means
from accel.evaluation.syntaxgym import CIRCUITS, circuit_of
from examples.claims import LOWER
from examples.markdown import compared, of_seeds, spread, table, with_interval
from examples.result_files import (
    ESTIMATED,
    MODELS,
    NAMES,
    PAPER,
    PAPER_FIGURES,
    Result,
    grouped,
    is_still_improving,
    of_documents,
    split_of,
    trained_on,
    value_of,
    values_of,
)
from examples.scores import item_differences
from examples.verdicts import judge


def table_1(results: Sequence[Result]) -> str:
    """Return perplexity, F1 and syntactic generalisation of the models of one experiment, over its seeds."""
    head = ("model", "seeds", "perplexity", "ends counted", "gold tree alone", "estimate, its error, its excess",
            "F1, reranked", "F1, own search", "SG score", "paper: perplexity, F1, SG")  # fmt: skip
    tested = [result for result in results if split_of(result) == "test"]
    by_model = {model: [result for result in tested if result["model"] == model] for model in MODELS}
    return table(head, [_table_1_row(model, group) for model, group in by_model.items() if group])


def _table_1_row(model: str, group: Sequence[Result]) -> tuple[str, ...]:
    bounds, searched, suites = (
        [result[name] for result in group if name in result] for name in ("perplexity", "search", "syntaxgym")
    )
    estimates = [bound["estimate"] for bound in bounds if "estimate" in bound]
    error = f", {fmean(estimate['error'] for estimate in estimates):.1f}" if estimates else ""
    error += f", {fmean(_excess(bound) for bound in bounds if 'estimate' in bound):.1f}" if estimates else ""
    interval = _percent(suites[0]["interval"]) if len(suites) == 1 else ""  # over items
    return (
        MODELS[model],
        ", ".join(str(result["seed"]) for result in group),
        ("≤ " if any(bound["is_bound"] for bound in bounds) else "") + spread([bound["value"] for bound in bounds], 1),
        spread([_with_ends(bound) for bound in bounds], 1) if model == "txl_terminals" else "",
        spread([bound["gold_tree"] for bound in bounds if "gold_tree" in bound], 1),
        spread([estimate["value"] for estimate in estimates], 1) + error,
        spread(values_of(group, "F1").get(model, [])),
        spread([scores["f1"] for scores in searched if "f1" in scores]),
        spread([100 * scores["mean"] for scores in suites], 1) + interval,
        PAPER_FIGURES[model],
    )


def _with_ends(scores: Result) -> float:
    """Return the perplexity of a model of words in which the end of every sentence counts as a word (MARG-2, L4)."""
    n_words: int = scores["words"]
    n_ends: int = scores.get("ends", scores["sentences"])
    return float(scores["value"] ** (n_words / (n_words + n_ends)))


def _excess(scores: Result) -> float:
    """Return by how much an estimate is too high on average, to the second order (IS-3)."""
    value, error = scores["estimate"]["value"], scores["estimate"]["error"]
    return float(value * (error / value) ** 2 * scores["words"] / 2)


def documents(results: Sequence[Result]) -> str:
    """Return the perplexity on documents, and with each sentence read as the first of a document; means over seeds."""
    rows = []
    for group in grouped([result for result in results if of_documents(result)]).values():
        for model, name in NAMES.items():
            of_model = [result for result in group if result["model"] == model]
            if of_model:
                scores = [result["perplexity"] for result in of_model]
                falling = sum(map(is_still_improving, of_model))
                rows.append((
                    trained_on(of_model[0]), name, ", ".join(str(result["seed"]) for result in of_model),
                    spread([score["value"] for score in scores]), spread([score["alone"] for score in scores]),
                    spread([log(score["alone"] / score["value"]) for score in scores], 3),
                    spread([value for result in of_model if (value := value_of(result, "F1")) is not None]),
                    f"{falling} of {len(of_model)}",
                ))  # fmt: skip
    head = ("trained on", "model", "seeds", "documents", "each sentence alone", "worth of context, nats a word", "F1",
            "last validation is the best")  # fmt: skip
    return table(head, rows, n_names=3)


def table_2(results: Sequence[Result]) -> str:
    """Return the measures of all models on the validation split, and Welch's p of the difference to TG."""
    measures, rows = [measure for measure in PAPER if measure != ESTIMATED], []
    for name, group in grouped([result for result in results if split_of(result) == "valid"]).items():
        measured = {measure: values_of(group, measure) for measure in measures}
        for model in NAMES:
            counts = [len(values[model]) for values in measured.values() if model in values]
            if counts:
                cells = (_with_p(values, model) for values in measured.values())
                rows.append((name.removesuffix(", valid"), NAMES[model], str(max(counts)), *cells))
    return table(("trained on", "model", "seeds", *measures), rows, n_names=2)


def _with_p(values: dict[str, list[float]], model: str) -> str:
    """Return mean and deviation of a model and, if its values and TG's vary, Welch's p of its difference to TG."""
    of_model, of_tg = values.get(model, []), values.get("tg", [])
    test = compared(of_model, of_tg) if model != "tg" else None
    return f"{spread(of_model)}{f' (p = {test.p:.2g})' if test else ''}"


CHANCE = dict(zip(CIRCUITS, (25.0, 50.0, 28.9, 25.2, 23.3, 33.2), strict=True))
"""The accuracy of random surprisals in % on the paper's suites (`accel.evaluation.syntaxgym.chance`)."""


def circuits(results: Sequence[Result]) -> str:
    """Return the accuracy of every circuit, as the paper's Figure 4, with its interval where the result has one.

    Then come the differences of every two models, paired over items, if the answers to the items are stored, and, of
    models with several seeds, Welch's over the seeds.
    """
    rows = []
    tested = [result for result in results if "syntaxgym" in result and split_of(result) == "test"]
    for result in tested:
        suites = result["syntaxgym"]
        intervals = suites.get("circuit_intervals", {})
        ends = (_percent(intervals[name]) if name in intervals else "" for name in CIRCUITS)
        means = (f"{100 * suites['circuits'][name]:.1f}" for name in CIRCUITS)
        rows.append((NAMES[result["model"]], str(result["seed"]), *map("".join, zip(means, ends, strict=True))))
    rows.append(("random surprisals", "", *(f"{CHANCE[name]:.1f}" for name in CIRCUITS)))
    answered = [result for result in results if "answers" in result.get("syntaxgym", {})]
    for one, other in combinations(answered, 2):
        if (one["experiment"], one["seed"]) == (other["experiment"], other["seed"]):
            of_suites = item_differences(one["syntaxgym"]["answers"], other["syntaxgym"]["answers"])
            groups = [[of_suites[suite] for suite in of_suites if circuit_of(suite) == name] for name in CIRCUITS]
            cells = (with_interval(interval_of_means(group), 1) if group else "" for group in groups)
            rows.append((f"{NAMES[one['model']]} minus {NAMES[other['model']]}", str(one["seed"]), *cells))
    return table(("model", "seed", *CIRCUITS), rows + _circuits_over_seeds(tested), n_names=2)


def _circuits_over_seeds(results: Sequence[Result]) -> list[tuple[str, ...]]:
    rows = []
    of_models = {model: [x["syntaxgym"]["circuits"] for x in results if x["model"] == model] for model in MODELS}
    for one, other in combinations([model for model, values in of_models.items() if len(values) > 1], 2):
        cells = [
            judge(*([100 * x[name] for x in of_models[m]] for m in (one, other)), digits=1)[0] for name in CIRCUITS
        ]
        rows.append((f"{NAMES[one]} minus {NAMES[other]}", "over seeds", *cells))
    return rows


def orders(results: Sequence[Result]) -> str:
    """Return the order of the models for every measure of an experiment, by their means, beside the paper's."""
    rows = []
    for name, group in grouped([result for result in results if split_of(result) == "test"]).items():
        for measure, paper in PAPER.items():
            values = {model: fmean(of) for model, of in values_of(group, measure).items() if model in MODELS}
            if len(values) < len(paper):
                continue
            better = 1 if measure.startswith(LOWER) else -1
            order = tuple(sorted(values, key=lambda model: better * values[model]))
            is_same = "yes" if order == paper else "no"
            rows.append((name, measure, *(", ".join(MODELS[model] for model in x) for x in (paper, order)), is_same))
    return table(("trained on", "measure", "paper: best to worst", "here, by the means", "same order"), rows, n_names=5)


def differences(results: Sequence[Result]) -> str:
    """Return the differences of models of one experiment and seed, with paired bootstrap intervals over sentences.

    The sentences of a document are not independent: there the interval is Student's, over the documents.
    """
    rows = []
    for one, other in combinations((result for result in results if "rows" in result), 2):
        if (trained_on(one), one["seed"]) == (trained_on(other), other["seed"]):
            names = f"{NAMES[one['model']]} minus {NAMES[other['model']]}"
            first, second = (np.array([row[:2] for row in result["rows"]], float).T for result in (one, other))
            f1 = ""
            if of_documents(one):
                sizes = [n_sentences for n_sentences, _ in one["perplexity"]["documents"]]
                first, second = (np.add.reduceat(x, np.cumsum([0, *sizes[:-1]]), axis=1) for x in (first, second))
                if len(sizes) < 2:
                    continue
                nats = of_seeds(((second[1] - first[1]) / first[0]).tolist())
            else:
                nats = bootstrap([first[0], first[1], second[1]], _nats, paired=True)
            if (
                not of_documents(one)
                and len(one["rows"][0]) == len(other["rows"][0]) == 5
                and value_of(one, "F1") is not None
            ):
                brackets = [np.array(result["rows"], float).T[2:] for result in (one, other)]
                f1 = with_interval(bootstrap([*brackets[0], *brackets[1]], _f1, paired=True), 2)
            rows.append((trained_on(one), names, str(one["seed"]), with_interval(nats, 4), f1))
    return table(("trained on", "models", "seed", "nats a word", "F1"), rows, n_names=2)


def seeds(results: Sequence[Result]) -> str:
    """Return the difference of the means of every two models with several values, with Welch's test."""
    rows = []
    for name, group in grouped(results).items():
        for measure in PAPER:
            for (one, values), (other, others) in combinations(values_of(group, measure).items(), 2):
                if test := compared(values, others):
                    spreads = spread(values), spread(others)
                    names = f"{NAMES[one]} minus {NAMES[other]}"
                    rows.append((name, measure, names, *spreads, f"{test.difference:+,.2f}", f"{test.p:.2g}"))
    return table(("trained on", "measure", "models", "one", "other", "difference", "p (Welch)"), rows, n_names=3)


def figure_3(results: Sequence[Result]) -> str:
    """Return links to the pictures of the treebanks with several seeds."""
    names = [name for name, group in grouped(results).items() if has_distribution(group)]
    return "\n\n".join(f"![Distributions over seeds, {name}](results/{picture_name(name)})" for name in names)


def has_distribution(group: Sequence[Result]) -> bool:
    """Return whether a model has a measure for several seeds."""
    return any(len(values) > 1 for measure in PAPER for values in values_of(group, measure).values())


def picture_name(name: str) -> str:
    return f"figure_3-{name.replace(', ', '-')}.svg"


def _nats(words: np.ndarray, one: np.ndarray, other: np.ndarray, axis: int) -> Any:
    return (other - one).sum(axis=axis) / words.sum(axis=axis)


def _f1(*brackets: np.ndarray, axis: int) -> Any:
    """Return the difference of F1 of two models, each given by its matching, gold and chosen brackets."""
    matches, gold, choices, *other = (counts.sum(axis=axis) for counts in brackets)
    return 200 * (matches / (gold + choices) - other[0] / (other[1] + other[2]))


def evaluated(results: Sequence[Result]) -> str:
    """Return for every seed the numbers of measured and skipped sentences, and how good the proposals are."""
    rows = []
    for name, group in grouped(results).items():
        for seed in sorted({result["seed"] for result in group}):
            first = next((x for x in group if x["seed"] == seed and "rerank" in x), None)
            if first is None:  # so far only a model of words, which needs no proposals
                continue
            scores, limits = first["perplexity"], first["rerank"]
            counts = (f"{scores[field]:,}" for field in ("sentences", "words", "skipped"))
            f1 = (f"{limits[field]:.2f}" for field in ("parser_f1", "oracle_f1"))
            gold_among = f"{100 * limits['gold_among']:.1f}"
            rows.append((name, str(seed), *counts, f"{scores['proposals']:.1f}", *f1, gold_among))
    head = ("trained on", "seed", "sentences", "words", "skipped", "proposals a sentence", "F1 of the parser's best",
            "oracle F1", "gold among them, %")  # fmt: skip
    return table(head, rows, n_names=2)


def sources(results: Sequence[Result]) -> str:
    """Return the provenance of every result."""
    rows = []
    for result in results:
        machine, hours = result["machine"], result["hours"]
        rows.append((
            trained_on(result), NAMES[result["model"]], str(result["seed"]), f"{result['settings']['steps']:,}",
            f"{result['settings']['parameters']:,}", result["commit"]["trained"], result["commit"]["measured"],
            ", ".join(f"{name} {60 * value:.0f}" for name, value in hours.items()),
            f"{machine['processor']}, {machine['threads']} of {machine['cores']} cores",
            ", ".join(f"{name} {digest[:8]}" for name, digest in result["data"].items()),
        ))  # fmt: skip
    head = ("trained on", "model", "seed", "steps", "parameters", "trained at", "measured at", "minutes", "machine",
            "data (SHA-256)")  # fmt: skip
    return table(head, rows, n_names=len(head))


def _percent(ends: Sequence[float]) -> str:
    return f" ({100 * ends[0]:.1f} to {100 * ends[1]:.1f})"


TABLES: dict[str, Callable[[Sequence[Result]], str]] = {
    "table_1": table_1,
    "table_2": table_2,
    "documents": documents,
    "figure_3": figure_3,
    "circuits": circuits,
    "orders": orders,
    "differences": differences,
    "seeds": seeds,
    "evaluated": evaluated,
    "sources": sources,
}
