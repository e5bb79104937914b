"""The result files that `examples.measure` writes: their names, and the names of models and measures in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from examples.queue_state import is_last_best

MODELS = {"tg": "TG", "txl_cc": "TXL (CC)", "txl_terminals": "TXL (terminals)"}
VARIANTS = {
    "tg_distinct": "TG (distinct MHA)",
    "tg_shift": "TG (TXL mem.)",
    "tg_linear": "TG (TXL mem. & rel. pos.)",
}
NAMES = {"tg": MODELS["tg"]} | VARIANTS | MODELS
"""The names of all models in tables, in the order of the paper's Table 2."""
SILVER = "silver"
"""The treebank whose trees come from a parser: they are no gold trees, so its results have no F1."""
ESTIMATED = "perplexity, estimated"
PAPER = {
    "perplexity": ("txl_cc", "tg", "txl_terminals"),
    ESTIMATED: ("txl_cc", "tg", "txl_terminals"),
    "documents": ("txl_cc", "txl_terminals", "tg"),
    "F1": ("tg", "txl_cc"),
    "SG": ("tg", "txl_cc", "txl_terminals"),
}
"""The measures, and the order of the models in the paper's Table 1, the best first."""
PAPER_FIGURES = {"tg": "30.3, 93.7, 82.5", "txl_cc": "29.8, 93.6, 80.2", "txl_terminals": "31.2, , 69.5"}
"""From the paper's Table 1: perplexity and SG of models trained on BLLIP's sentences, and between them F1 of models
trained on the Penn Treebank."""
FOLDER = Path(__file__).with_name("results")
Result = dict[str, Any]


def result_name(split: str) -> str:
    """Return the name of a result file in the directory of a run."""
    return "result.json" if split == "test" else f"result-{split}.json"


def stored_name(result: Result) -> str:
    """Return the name of a result file in the folder of all results."""
    of_split = "" if split_of(result) == "test" else f"-{split_of(result)}"
    return f"{result['experiment']}-{result['model']}-{result['seed']}{of_split}.json"


def split_of(result: Result) -> str:
    return str(result.get("split", "test"))  # older results have none


def trained_on(result: Result) -> str:
    """Return the treebank, and the split if it is not the test set."""
    split = split_of(result)
    return f"{result['experiment']}{'' if split == 'test' else f', {split}'}"


def of_documents(result: Result) -> bool:
    """Return whether sentences were read in their documents."""
    return "documents" in result.get("perplexity", {})


def is_still_improving(result: Result) -> bool:
    """Return whether the last validation was the best one."""
    losses = [loss for _, loss in result["validation"]]
    return is_last_best(losses, min(losses))


def value_of(result: Result, measure: str) -> float | None:
    """Return a measure of a result; F1 and SG in per cent; None if it was not measured."""
    value: float | None = _VALUES[measure](result)
    return value


def _of_sentences(result: Result) -> Result:
    return {} if of_documents(result) else result.get("perplexity", {})


def _estimated(result: Result) -> float | None:
    """Return the estimate of a perplexity; an exact one stands beside the estimates."""
    scores = _of_sentences(result)
    return scores.get("estimate", {}).get("value") if scores.get("is_bound") else scores.get("value")


_VALUES: dict[str, Callable[[Result], Any]] = {
    "perplexity": lambda result: _of_sentences(result).get("value"),
    ESTIMATED: _estimated,
    "documents": lambda result: result["perplexity"]["value"] if of_documents(result) else None,
    "F1": lambda result: result["rerank"]["f1"] if "rerank" in result and result["experiment"] != SILVER else None,
    "SG": lambda result: 100 * result["syntaxgym"]["mean"] if "syntaxgym" in result else None,
}


def values_of(results: Sequence[Result], measure: str) -> dict[str, list[float]]:
    """Return the values of every model that has the measure, in the order of `NAMES`."""
    of_models: dict[str, list[float]] = {model: [] for model in NAMES}
    if measure == ESTIMATED and not any("estimate" in result.get("perplexity", {}) for result in results):
        return {}
    for result in results:
        if (value := value_of(result, measure)) is not None:
            of_models[result["model"]].append(value)
    return {model: values for model, values in of_models.items() if values}


def grouped(results: Sequence[Result]) -> dict[str, list[Result]]:
    """Return the results by treebank and split."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(trained_on(result), []).append(result)
    return groups


def read_results(folder: Path) -> list[Result]:
    """Return the results of a folder, models in the order of the tables."""
    results = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    order = list(NAMES)
    return sorted(results, key=lambda result: (trained_on(result), order.index(result["model"]), result["seed"]))
