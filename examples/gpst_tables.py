"""The tables of GPST in RESULTS.md, written from the result files of the queue: the paper's Tables 3 and 4."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from accel.evaluation.induced_f1 import BASELINES
from accel.evaluation.induction import ORACLE
from accel.evaluation.significance import Interval, bootstrap_interval
from accel.evaluation.syntaxgym import CIRCUITS
from examples.gpst.ablations import COLUMNS, IMPROVING, LEAN, STEPS, TREES
from examples.gpst.ablations import MODELS as ABLATED
from examples.gpst.measure import NO_SYNC, TIES, WAYS
from examples.markdown import less, of_seeds, spread, table, with_interval
from examples.queue_tables import NOT_RUN, OF_RUN, Run, of_run

LONGER, GENERATED = "gpst_longer", "gpst_generated"
SIZES = {"gpst_small": "small", LONGER: "longer", "gpst": "larger"}
MODELS = {"gpst": "GPST", "gpt2": "GPT-2"}
TREEBANKS = {"wsj": "WSJ", "tg_example": "tg_example"}
SYNC = "left-to-right"
RIGHT = "right"
PAPER_F1 = {"inside": "57.46", SYNC: "55.25", NO_SYNC: "43.64", ORACLE: "84.3"}
"""F1 of the small model on WikiText-103, from the paper's Table 4."""
PAPER_CIRCUITS = {
    "GPST": ("59.65", "73.21", "87.10", "97.83", "57.89", "64.78", "73.41"),
    "GPT-2": ("50.88", "73.21", "77.88", "97.83", "33.95", "65.98", "66.62"),
}
"""Accuracies of the small models on WikiText-103, from the paper's Table 3: each circuit, and their mean."""
AHEAD = {
    **dict.fromkeys(("mean of circuits", "Agreement", "Garden-Path Effects", "Licensing"), ("GPST", "GPT-2")),
    "Long-Distance Dependencies": ("GPT-2", "GPST"),
}
"""Where one of the models is ahead in the paper's Table 3: this model, and the other one."""
F1 = TREES["inside"]
PAPER_ABLATIONS = {"GPST": "57.46", "without surrogates": "50.27", "without gradient stop": "42.46"}
"""F1 of the small model's trees of whole sentences, from the paper's Table 4."""
ABLATIONS = (
    ("Table 4, ablations", "with surrogates before without", F1, "GPST", "without surrogates"),
    ("Table 4, ablations", "with the gradient stop before without", F1, "GPST", "without gradient stop"),
    ("Section 3.2", "trees lean more to the left without the stop", LEAN, "without gradient stop", "GPST"),
)
"""Where the paper says it, what it says, the measure, and the model that has more of it, and less."""
TREE_ORDERS = {
    "synchronised search before the search without": (SYNC, NO_SYNC),
    "whole sentences before left to right": ("inside", SYNC),
}
"""The orders of trees in the paper's Table 4, the better ones first."""
DIFFERENCES = {
    "left-to-right, sync minus no sync": (SYNC, NO_SYNC),
    "inside minus left-to-right": ("inside", SYNC),
    "inside minus right-branching": ("inside", RIGHT),
    "left-to-right minus right-branching": (SYNC, RIGHT),
}


def trees(runs: Sequence[Run]) -> str:
    """Return the sentence F1 of every kind of trees, means and deviations over seeds, beside the paper's Table 4."""
    rows = []
    for size, treebank, parts in _of_treebanks(runs):
        if not parts:
            rows.append((size, treebank, "", NOT_RUN, "", "", "0"))
            continue
        for kind in (*WAYS, *BASELINES, ORACLE):
            scores = [part["scores"][kind] for part in parts.values()]
            cells = (spread([one[name] for one in scores], 1) for name in ("sentence_f1", "corpus_f1"))
            if kind not in WAYS:  # they are the same for all seeds
                cells = (f"{scores[0][name]:.1f}" for name in ("sentence_f1", "corpus_f1"))
            paper = PAPER_F1.get(kind, "") if treebank == TREEBANKS["wsj"] else ""
            rows.append((size, treebank, kind, *cells, paper, str(len(parts))))
    return table(("size", "treebank", "trees", "sentence F1", "corpus F1", "paper", "seeds"), rows, n_names=3)


def differences(runs: Sequence[Run]) -> str:
    """Return differences of F1: of every seed and of the mean, with intervals over sentences; then over the seeds."""
    rows = []
    for size, treebank, parts in _of_treebanks(runs):
        if not parts:
            rows.append((size, treebank, "", NOT_RUN, *[""] * (len(DIFFERENCES) - 1)))
            continue
        members_of = {seed: [part] for seed, part in parts.items()}
        if len(parts) > 1:
            members_of["all"] = list(parts.values())
        for seed, members in members_of.items():
            cells = (with_interval(_difference(members, *pair), 1) for pair in DIFFERENCES.values())
            rows.append((size, treebank, seed, *cells))
        if len(parts) > 1:
            all_parts = list(parts.values())
            cells = (with_interval(_over_seeds(all_parts, *pair), 1) for pair in DIFFERENCES.values())
            rows.append((size, treebank, "over seeds", *cells))
    return table(("size", "treebank", "seed", *DIFFERENCES), rows, n_names=3)


def syntax(runs: Sequence[Run]) -> str:
    """Return SyntaxGym, minimal pairs and perplexity of every model, beside the paper's Table 3."""
    rows = []
    for size, size_title in SIZES.items():
        values = {model: _columns(_of(runs, size, model)) for model in MODELS}
        for model, title in MODELS.items():
            columns, n_seeds = values[model], len(_of(runs, size, model))
            cells = [spread(column, 1) for column in columns] if n_seeds else [NOT_RUN, *[""] * len(HEAD[1:])]
            rows.append((size_title, title, *cells, str(n_seeds)))
        if all(len(column) > 1 for of_model in values.values() for column in of_model):
            pairs = zip(*values.values(), strict=True)
            rows.append((size_title, "GPST minus GPT-2 (p)", *(less(one, other) for one, other in pairs), ""))
    empty = [""] * (len(HEAD) - len(CIRCUITS) - 1)
    rows += [("paper, small", title, *circuits, *empty, "") for title, circuits in PAPER_CIRCUITS.items()]
    return table(("size", "model", *HEAD, "seeds"), rows, n_names=2)


HEAD = (*CIRCUITS, "mean of circuits", *(f"BLiMP, ties {worth}" for worth in TIES), "perplexity")


def one_tree(runs: Sequence[Run]) -> str:
    """Return the perplexity by one tree, and summed over the parses of a search, beside GPT-2's on the same lines."""
    rows = []
    measured = [_figures(run, "one_tree") for run in _of(runs, LONGER, "one_tree")]
    for model, title in MODELS.items():
        of_model = [content[model] for content in measured]
        cells = (spread([one[name] for one in of_model if name in one], 1) for name in ("apart", "apart, summed"))
        lines = f"{measured[0]['sentences']:,}" if measured else ""
        rows.append((SIZES[LONGER], title, *(cells if measured else (NOT_RUN, "")), lines, str(len(measured))))
    return table(("size", "model", "one tree", "sum over parses", "sentences", "seeds"), rows, n_names=2)


def ablations(runs: Sequence[Run]) -> str:
    """Return perplexities and trees of GPST without its parts, and of GPT-2, on generated English."""
    rows, of_runs = [], [_figures(run, "figures") for run in _of(runs, GENERATED, "ablations")]
    for model in ABLATED:
        measured = [figures[model] for figures in of_runs]
        cells = [spread([one[name] for one in measured if name in one], 1) for name in COLUMNS]
        missing = (NOT_RUN, *[""] * len(COLUMNS[1:]))
        paper = PAPER_ABLATIONS.get(model, "")
        pairs = [one[model][F1] - one["GPST"][F1] for one in of_runs if F1 in one[model] and model != "GPST"]
        paired = with_interval(of_seeds(pairs), 1) if len(pairs) > 1 else ""
        rows.append((model, *(cells if measured else missing), paper, paired, str(len(measured))))
    return table(("model", *COLUMNS, f"paper: {F1}", "F1 minus GPST, seeds paired", "seeds"), rows)


def trainings(runs: Sequence[Run]) -> str:
    """Return the steps and the price of every run, and whether its last validation was its best one."""
    rows = []
    for size, title in SIZES.items():
        for model, name in MODELS.items():
            for run in _of(runs, size, model):
                loss = min(loss for _, loss in run["validation_loss"])
                rows.append((title, name, str(run["seed"]), f"{loss:.4f}", *of_run(run)))
            if not _of(runs, size, model):
                rows.append((title, name, "", NOT_RUN, *[""] * len(OF_RUN)))
    return table(("size", "model", "seed", "least validation loss", *OF_RUN), rows, n_names=2)


def _of(runs: Iterable[Run], size: str, model: str) -> list[Run]:
    return [run for run in runs if run["name"].startswith(f"{size}/{model}-")]


def _figures(run: Run, name: str) -> dict[str, Any]:
    return next(dict(figures) for path, figures in run["figures"].items() if path.endswith(f"/{name}.json"))


def _of_treebanks(runs: Sequence[Run]) -> Iterable[tuple[str, str, dict[str, dict[str, Any]]]]:
    """Yield the size, the treebank, and for every seed what was measured of its trees."""
    for size, title in SIZES.items():
        measured = {str(run["seed"]): _figures(run, "measured") for run in _of(runs, size, "gpst")}
        for name, treebank in TREEBANKS.items():
            yield title, treebank, {seed: content[f"trees {name}"] for seed, content in measured.items()}


def _difference(parts: Sequence[dict[str, Any]], one: str, other: str) -> Interval:
    """Return the mean difference of F1; sentences are paired, and each has the mean of the seeds."""
    first, second = (np.mean([part["of_sentences"][kind] for part in parts], axis=0) for kind in (one, other))
    return bootstrap_interval((first - second).tolist())


def tree_verdicts(runs: Sequence[Run]) -> Iterator[tuple[str, str, str, list[Run], Interval]]:
    """Yield for every treebank its name, the paper's orders, the size of the longest trainings, these, the gain in F1.

    The interval is over the seeds or, if there is one seed, over the sentences.
    """
    trained = {size: of_size for size in SIZES if (of_size := _of(runs, size, "gpst"))}
    if trained:
        size, of_size = list(trained.items())[-1]
        for name, title in TREEBANKS.items():
            parts = [_figures(run, "measured")[f"trees {name}"] for run in of_size]
            difference = _over_seeds if len(parts) > 1 else _difference
            for order, kinds in TREE_ORDERS.items():
                yield title, order, size, of_size, difference(parts, *kinds)


def circuits_ahead(runs: Sequence[Run]) -> Iterator[tuple[str, str, str, list[list[Run]], list[list[float]]]]:
    """Yield every circuit, the paper's order in it, the size of the longest trainings, and runs and accuracies of both.

    The model that is ahead in the paper comes first.
    """
    trained = {size: both for size in SIZES if all(both := [_of(runs, size, model) for model in MODELS])}
    if trained:
        size, both = list(trained.items())[-1]
        columns = {MODELS[model]: _columns(of_model) for model, of_model in zip(MODELS, both, strict=True)}
        for name, order in AHEAD.items():
            yield name, " before ".join(order), size, both, [columns[title][HEAD.index(name)] for title in order]


def ablated(runs: Sequence[Run]) -> Iterator[tuple[str, str, list[list[float]], list[int], list[bool]]]:
    """Yield what the paper says of the ablations, and where: values of both, steps, and whether they still improve."""
    measured = [_figures(run, "figures") for run in _of(runs, GENERATED, "ablations")]
    for place, claim, measure, *models in ABLATIONS if measured else ():
        both = [[figures[model] for figures in measured] for model in models]
        values = [[figures[measure] for figures in of_model] for of_model in both]
        steps, improving = ([figures[name] for of_model in both for figures in of_model] for name in (STEPS, IMPROVING))
        yield place, claim, values, steps, list(map(bool, improving))


def _over_seeds(parts: Sequence[dict[str, Any]], one: str, other: str) -> Interval:
    """Return the mean difference of F1 with Student's interval over the seeds."""
    return of_seeds([fmean(part["of_sentences"][one]) - fmean(part["of_sentences"][other]) for part in parts])


def _columns(runs: Sequence[Run]) -> list[list[float]]:
    """Return the values of every column of `HEAD`, one for each seed."""
    measured = [_figures(run, "measured") for run in runs]
    suites, pairs = ([content[name] for content in measured] for name in ("syntaxgym", "blimp"))
    columns = [[100 * suite["circuits"][circuit] for suite in suites] for circuit in CIRCUITS]
    columns.append([100 * fmean(suite["circuits"][circuit] for circuit in CIRCUITS) for suite in suites])
    columns += [[100 * pair["accuracy"][worth]["mean"] for pair in pairs] for worth in TIES]
    return [*columns, [_figures(run, "evaluation")["perplexity"] for run in runs]]


TABLES_OF_GPST: dict[str, Callable[[Sequence[Run]], str]] = {
    "gpst_trees": trees, "gpst_differences": differences, "gpst_syntax": syntax, "gpst_one_tree": one_tree,
    "gpst_trainings": trainings, "gpst_ablations": ablations,
}  # fmt: skip
