"""Write the tables of RESULTS.md from result files; the files of the runs named are first copied to results/.

    python -m examples.results runs/craft runs/tg_example runs/union     # runs of examples.measure
    python -m examples.results                                           # write the tables again

A table is between two comments, `<!-- table NAME -->` and `<!-- end -->`; the rest of the page is written by hand.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np

from accel.evaluation.significance import bootstrap, welch
from accel.evaluation.syntaxgym import CIRCUITS
from accel.training.directory import write_text

MODELS = {"tg": "TG", "txl_cc": "TXL (CC)", "txl_terminals": "TXL (terminals)"}
VARIANTS = {
    "tg_distinct": "TG (distinct MHA)",
    "tg_shift": "TG (TXL mem.)",
    "tg_linear": "TG (TXL mem. & rel. pos.)",
}
NAMES = {"tg": MODELS["tg"]} | VARIANTS | MODELS
"""Of all models, in the order of the paper's Table 2."""
PAPER = {
    "perplexity": ("txl_cc", "tg", "txl_terminals"),
    "F1": ("tg", "txl_cc"),
    "SG": ("tg", "txl_cc", "txl_terminals"),
}
"""The order of the paper's Table 1, the best first."""
PAGE = Path(__file__).with_name("RESULTS.md")
FOLDER = Path(__file__).with_name("results")
Result = dict[str, Any]


def result_name(split: str) -> str:
    """Return the name of a result file in the directory of a run."""
    return "result.json" if split == "test" else f"result-{split}.json"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="*", help="directories that examples.measure wrote to")
    options = parser.parse_args(arguments)
    for path in (path for run in options.runs for path in sorted(run.glob("*/result*.json"))):
        result = json.loads(path.read_text(encoding="utf-8"))
        FOLDER.mkdir(exist_ok=True)
        of_split = "" if _split(result) == "test" else f"-{_split(result)}"
        name = f"{result['experiment']}-{result['model']}-{result['seed']}{of_split}.json"
        write_text(FOLDER / name, path.read_text(encoding="utf-8"))
    write_text(PAGE, page(PAGE.read_text(encoding="utf-8"), read_results(FOLDER)))


def _split(result: Result) -> str:
    return str(result.get("split", "test"))  # older results have none


def read_results(folder: Path) -> list[Result]:
    """Return the results of a folder, models in the order of the tables."""
    results = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    order = list(NAMES)
    return sorted(results, key=lambda result: (result["experiment"], order.index(result["model"]), result["seed"]))


def page(text: str, results: Sequence[Result]) -> str:
    """Return the page with every table written from the results."""

    def written(match: re.Match[str]) -> str:
        kind, _, experiment = match[1].partition(" ")
        rows = [result for result in results if not experiment or result["experiment"] == experiment]
        return f"<!-- table {match[1]} -->\n{TABLES[kind](rows)}\n<!-- end -->"

    return re.sub(r"<!-- table ([\w ]+) -->\n(?:.*?\n)??<!-- end -->", written, text, flags=re.DOTALL)


def table_1(results: Sequence[Result]) -> str:
    """Return perplexity, F1 and syntactic generalisation of the models of one experiment."""
    rows = [_table_1_row(result) for result in results]
    return _table(
        (
            "model",
            "seed",
            "perplexity",
            "ends counted",
            "F1, reranked",
            "of q's best tree",
            "oracle",
            "gold among them, %",
            "SG score",
        ),
        rows,
    )


def _table_1_row(result: Result) -> tuple[str, ...]:
    bounds, reranked, suites = (result.get(name) for name in ("perplexity", "rerank", "syntaxgym"))
    bound = "≤ " if bounds and bounds["is_bound"] else ""
    return (
        NAMES[result["model"]],
        str(result["seed"]),
        f"{bound}{bounds['value']:.1f}" if bounds else "",
        f"{_with_ends(bounds):.1f}" if bounds and not bounds["is_bound"] else "",
        *(f"{reranked[name]:.2f}" if reranked else "" for name in ("f1", "parser_f1", "oracle_f1")),
        f"{100 * reranked['gold_among']:.1f}" if reranked else "",
        f"{100 * suites['mean']:.1f}{_interval(suites['interval'], 100)}" if suites else "",
    )


def _with_ends(scores: Result) -> float:
    """Return the perplexity of a model of words in which the end of every sentence counts as a word (MARG-2, L4)."""
    n_words: int = scores["words"]
    return float(scores["value"] ** (n_words / (n_words + scores["sentences"])))


def circuits(results: Sequence[Result]) -> str:
    """Return the accuracy of every circuit, as the paper's Figure 4, with its interval where the result has one."""
    rows = []
    for result in results:
        if suites := result.get("syntaxgym"):
            intervals = suites.get("circuit_intervals", {})
            ends = (_interval(intervals[name], 100) if name in intervals else "" for name in CIRCUITS)
            means = (f"{100 * suites['circuits'][name]:.1f}" for name in CIRCUITS)
            rows.append((NAMES[result["model"]], *map("".join, zip(means, ends, strict=True))))
    return _table(("model", *CIRCUITS), rows)


def orders(results: Sequence[Result]) -> str:
    """Return the order of the models for every measure of an experiment, beside the paper's."""
    rows = []
    for experiment in dict.fromkeys(result["experiment"] for result in results):
        of_experiment = [result for result in results if result["experiment"] == experiment]
        for measure, paper in PAPER.items():
            values = {
                result["model"]: value for result in of_experiment if (value := _value(result, measure)) is not None
            }
            if len(values) < len(paper):
                continue
            order = tuple(
                sorted(values, key=lambda model: values[model] if measure == "perplexity" else -values[model])
            )
            agrees = "yes" if order == paper else "no"
            rows.append(
                (experiment, measure, *(", ".join(NAMES[model] for model in x) for x in (paper, order)), agrees)
            )
    return _table(("trained on", "measure", "paper: best to worst", "here", "agrees"), rows, n_names=5)


def _value(result: Result, measure: str) -> float | None:
    name, field = {"perplexity": ("perplexity", "value"), "F1": ("rerank", "f1"), "SG": ("syntaxgym", "mean")}[measure]
    return result[name][field] if name in result else None


def differences(results: Sequence[Result]) -> str:
    """Return the differences of models of one experiment and seed, with paired bootstrap intervals over sentences."""
    rows = []
    for one, other in combinations((result for result in results if "rows" in result), 2):
        if (one["experiment"], one["seed"]) == (other["experiment"], other["seed"]):
            names = f"{NAMES[one['model']]} less {NAMES[other['model']]}"
            first, second = (np.array([row[:2] for row in result["rows"]], float).T for result in (one, other))
            nats = bootstrap([first[0], first[1], second[1]], _nats, paired=True)
            f1 = ""
            if len(one["rows"][0]) == len(other["rows"][0]) == 5:
                brackets = [np.array(result["rows"], float).T[2:] for result in (one, other)]
                f1_interval = bootstrap([*brackets[0], *brackets[1]], _f1, paired=True)
                f1 = f"{f1_interval.value:+.2f} ({f1_interval.low:+.2f} to {f1_interval.high:+.2f})"
            nats_a_word = f"{nats.value:+.4f} ({nats.low:+.4f} to {nats.high:+.4f})"
            rows.append((one["experiment"], names, str(one["seed"]), nats_a_word, f1))
    return _table(("trained on", "models", "seed", "nats a word", "F1"), rows, n_names=2)


def seeds(results: Sequence[Result]) -> str:
    """Return the difference of the means of every two models with several seeds, with Welch's test."""
    rows = []
    for experiment in dict.fromkeys(result["experiment"] for result in results):
        for measure in PAPER:
            values_of = {model: [v for r in results if (r["experiment"], r["model"]) == (experiment, model)
                             and (v := _value(r, measure)) is not None] for model in NAMES}  # fmt: skip
            for one, other in combinations([model for model, values in values_of.items() if len(values) > 1], 2):
                test = welch(values_of[one], values_of[other])
                names = f"{NAMES[one]} less {NAMES[other]}"
                spreads = (f"{fmean(values_of[model]):.2f} ± {stdev(values_of[model]):.2f}" for model in (one, other))
                rows.append((experiment, measure, names, *spreads, f"{test.difference:+.2f}", f"{test.p:.2g}"))
    return _table(("trained on", "measure", "models", "one", "other", "difference", "p (Welch)"), rows, n_names=3)


def _nats(words: np.ndarray, one: np.ndarray, other: np.ndarray, axis: int) -> Any:
    return (other - one).sum(axis=axis) / words.sum(axis=axis)


def _f1(*brackets: np.ndarray, axis: int) -> Any:
    """Return the difference of F1 of two models, each given by its matching, gold and chosen brackets."""
    matched, gold, chosen, *other = (counts.sum(axis=axis) for counts in brackets)
    return 200 * (matched / (gold + chosen) - other[0] / (other[1] + other[2]))


def evaluated(results: Sequence[Result]) -> str:
    """Return the sentences and words of perplexity and F1, and the sentences left out."""
    rows = []
    for result in results:
        if scores := result.get("perplexity"):
            counts = (f"{scores[name]:,}" for name in ("sentences", "words", "skipped"))
            rows.append((result["experiment"], NAMES[result["model"]], *counts, f"{scores['proposals']:.1f}"))
    return _table(("trained on", "model", "sentences", "words", "sentences skipped", "proposals a sentence"), rows, 2)


def sources(results: Sequence[Result]) -> str:
    """Return the provenance of every result."""
    rows = []
    for result in results:
        machine, hours = result["machine"], result["hours"]
        rows.append((
            result["experiment"], NAMES[result["model"]], str(result["seed"]), f"{result['settings']['steps']:,}",
            f"{result['settings']['parameters']:,}", result["commit"]["trained"], result["commit"]["measured"],
            ", ".join(f"{name} {60 * value:.0f}" for name, value in hours.items()),
            f"{machine['processor']}, {machine['threads']} of {machine['cores']} cores",
            ", ".join(f"{name} {digest[:8]}" for name, digest in result["data"].items()),
        ))  # fmt: skip
    head = ("trained on", "model", "seed", "steps", "parameters", "trained at", "measured at", "minutes", "machine",
            "data (SHA-256)")  # fmt: skip
    return _table(head, rows, n_names=len(head))


def _interval(bounds: Sequence[float], scale: float) -> str:
    return f" ({scale * bounds[0]:.1f} to {scale * bounds[1]:.1f})"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], n_names: int = 1) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * n_names + "---:|" * (len(head) - n_names)]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


TABLES: dict[str, Callable[[Sequence[Result]], str]] = {
    "table_1": table_1,
    "circuits": circuits,
    "orders": orders,
    "differences": differences,
    "seeds": seeds,
    "evaluated": evaluated,
    "sources": sources,
}


if __name__ == "__main__":
    main()
