"""Every vector through the reference, and through every backend that has the operation."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, is_dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from accel.data.files.brackets import read_trees
from accel.verify.errors import says
from accel.verify.evalb_report import report
from accel.verify.expected import Expected, compare
from accel.verify.op import Case
from accel.verify.precision import held
from accel.verify.test_values import answers
from refimpl.gpst.inside_outside import Inside
from refimpl.gpst.pruned_chart import pruned_chart
from refimpl.treeformer import cky_pooling
from refimpl.trees import ActionType, Tree
from refimpl.word_level_search import Limits, Model, gpst_actions, tree_actions

FOLDER = Path(__file__).parent / "vectors"  # a link to specs/vectors; a folder in the wheel
FILES = sorted(FOLDER.glob("*/*/*.json"))
FIELDS = {"id", "clause", "source", "comment", "flags", "function", "inputs"}
SOURCES = ("paper: ", "derived: by hand", "enumeration", "pin: ")
NUMERIC = ("refimpl.attention.", "refimpl.fasttrees.", "refimpl.gpst.composition.", "refimpl.gpst.generator.",
           "refimpl.gpst.inside_outside.", "refimpl.gpst.losses.", "refimpl.gpst.parser.", "refimpl.layers.",
           "refimpl.randomness.", "refimpl.transformer.", "refimpl.transformer_grammars.marginal.",
           "refimpl.transformer_grammars.model.", "refimpl.transformer_grammars.span_parser.",
           "refimpl.treeformer.")  # fmt: skip
LISTS = ("keys", "relative", "words", "atoms", "tree", "trees", "actions")
SHARED = {"r", "content_bias", "position_bias", "scale", "bias", "table", "rate", "seed",
          "segment_length", "memory_length", "memory", "positions", "causal", "split",
          "max_height", "count"}  # fmt: skip


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def infinite(x: Any) -> Any:
    """Return the value with the words "inf", "-inf" and "nan" turned into numbers."""
    if isinstance(x, list):
        return [infinite(y) for y in x]
    if isinstance(x, dict):
        return {key: infinite(y) for key, y in x.items()}
    return float(x) if x in ("inf", "-inf", "nan") else x


def by_span(x: dict[str, Any]) -> dict[tuple[int, int], np.ndarray]:
    return {tuple(map(int, span.split(","))): np.array(infinite(value)) for span, value in x.items()}


def search_model(p: dict[str, Any], symbols: Sequence[str] = (), **x: Any) -> Model:
    """Return a model whose next probabilities are listed in `p` by the actions before, with "*" for all others.

    Without `symbols` the model is a GPST: listed are the probabilities of COMP, of GEN and of the words.
    """

    def probabilities(actions: Sequence[Any]) -> Any:
        return infinite(p.get(" ".join(map(str, actions)), p["*"]))

    def gpst(actions: Sequence[int]) -> tuple[float, float, np.ndarray]:
        with np.errstate(divide="ignore"):
            comp, gen, words = map(np.log, probabilities(actions))
        return float(comp), float(gen), words

    def tree(actions: Sequence[str]) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(probabilities(actions))

    if not symbols:
        return gpst_actions(gpst, **x)
    text = {key: x.pop(key) for key in ("sentence", "more") if key in x}
    return tree_actions(tree, symbols, Limits(1, **x), **text)


def next_logps(p: dict[str, Any]) -> Callable[[Sequence[int]], np.ndarray]:
    """Return the log-probabilities of the next token, listed in `p` by the tokens before, with "*" for all others."""

    def step_logp(tokens: Sequence[int]) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(infinite(p.get(" ".join(map(str, tokens)), p.get("*"))))

    return step_logp


def decoded(key: str, x: Any, module: str) -> Any:
    """Return an input as the reference takes it: trees and types from words, numbers as arrays."""
    if x is None:
        return None
    if key == "types" and isinstance(x, str):
        return [ActionType[name] for name in x.split()]
    if key == "types" and module == "refimpl.transformer_grammars.model":
        return np.array([int(ActionType[t]) if isinstance(t, str) else t for t in x])
    if key == "tree" and isinstance(x, str):
        return next(read_trees([x]))
    if key.endswith("_trees"):
        return [t and next(read_trees([t])) for t in x]
    if key == "config":
        return import_module(module).Config(**x)
    if key == "parameters" and isinstance(x, dict):
        return {name: np.array(infinite(value), float) for name, value in x.items()}
    if key == "parameters":
        return import_module("accel.evaluation.evalb_input").read_parameters(x)
    if key == "chart" and "merge_order" in x:
        return pruned_chart(x["merge_order"], len(x["merge_order"]) + 1, x["window"])
    if key == "chart":
        return cky_pooling.Chart(x["n"], {}, by_span(x["weights"]))
    if key == "inside":
        return Inside(by_span(x["vectors"]), {}, {}, {})
    if key == "model" and isinstance(x, dict):
        return search_model(**x)
    if key == "accuracies":
        return x
    if key == "step_logp":
        return next_logps(x)
    if key == "limits":
        return Limits(**x)
    if key == "sentences":
        return [np.array(ids, int) for ids in x]
    if key == "vectors":
        return [by_span(numbers) for numbers in x]
    if isinstance(x, dict):
        return by_span(x)
    numeric = key == "tokens" or (f"{module}.".startswith(NUMERIC) and key not in LISTS)
    return np.array(infinite(x)) if isinstance(x, list) and numeric else infinite(x)


def plain(x: Any) -> Any:
    """Return an answer as JSON would hold it."""
    if isinstance(x, Tree):
        return str(x)
    if is_dataclass(x) and not isinstance(x, type):
        return {key: plain(y) for key, y in asdict(x).items()} if not hasattr(x, "mask") else plain(vars(x))
    if isinstance(x, np.ndarray | np.generic):
        return plain(x.tolist())
    if isinstance(x, dict):
        return {",".join(map(str, key)) if isinstance(key, tuple) else key: plain(y) for key, y in x.items()}
    if isinstance(x, list | tuple | Iterator):
        return [plain(y) for y in x]
    if isinstance(x, frozenset):
        return sorted(plain(y) for y in x)
    if isinstance(x, Exception):
        return str(x)
    return int(x) if isinstance(x, bool) else x


def assert_same(got: Any, expected: Any, where: str) -> None:
    """Compare nested answers: floats to 1e-10, all else exactly; an expected dictionary may lack some keys."""
    if isinstance(expected, dict):
        assert expected or not got, f"{where}: {got}, expected nothing"
        for key, value in expected.items():
            assert_same(got[key], value, f"{where}.{key}")
    elif isinstance(expected, list):
        assert isinstance(got, list) and len(got) == len(expected), f"{where}: {got}, expected {expected}"
        for i, (a, b) in enumerate(zip(got, expected, strict=True)):
            assert_same(a, b, f"{where}[{i}]")
    elif isinstance(expected, float):
        assert got == pytest.approx(expected, rel=1e-10, abs=1e-12), f"{where}: {got}, expected {expected}"
    elif isinstance(got, ActionType) and isinstance(expected, str):
        assert got.name == expected, where
    else:
        assert got == expected, f"{where}: {got}, expected {expected}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_vectors(path: Path) -> None:
    vector = read(path)
    assert FIELDS | {"expect" if "expect" in vector else "error"} == set(vector)
    assert vector["source"].startswith(SOURCES), vector["source"]
    module, _, name = vector["function"].rpartition(".")
    function = getattr(import_module(module), name)
    function = report if "gold_lines" in vector["inputs"] else function
    try:
        inputs = {key: decoded(key, x, module) for key, x in vector["inputs"].items()}
        result = plain(function(**inputs))
    except ValueError as error:
        assert "error" in vector, f"{path}: {error}"
        kind, words = vector["error"].split(": ", 1)
        assert type(error).__name__ == kind and says(str(error), words), f"{error} is not {vector['error']}"
    else:
        assert "expect" in vector, f"{path}: no error, but {result}"
        assert_same(result, infinite(vector["expect"]), path.stem)


def cases(op_name: str) -> list[tuple[str, Case]]:
    """Return the vectors of an operation as batches of one example."""
    batches = []
    for path in FILES:
        vector = read(path)
        module, _, name = vector["function"].rpartition(".")
        unusual = "error" in vector or vector["inputs"].get("reading") == "printed" or "keep" in vector["inputs"]
        unusual = unusual or vector["inputs"].get("variant") == "released"
        unusual = unusual or vector["inputs"].get("seed", 0) is None  # not in training
        if name != op_name or unusual or module == "refimpl.brute":
            continue
        inputs = {key: decoded(key, x, module) for key, x in vector["inputs"].items()}
        inputs = {k: x.astype(float) if isinstance(x, np.ndarray) and k not in ("ids", "labels") else x
                  for k, x in inputs.items() if k != "reading"}  # fmt: skip
        defaults = {
            "segments": {"memory": "stack", "positions": "depth"},
            "sparse_attention": {"rate": 0.0, "seed": 0},
            "causal_attention": {"rate": 0.0, "seed": 0},
            "dot_product_attention": {"causal": False, "rate": 0.0, "seed": 0},
            "distance_trees": {"split": "biased"},
            "cky_pool": {"max_height": None},
            "chart_trees": {"max_height": None},
        }.get(name, {})
        shared = defaults | {key: x for key, x in inputs.items() if key in SHARED}
        arguments = {key: x for key, x in inputs.items() if key not in SHARED}
        if name == "double_closing":
            arguments = {"actions": arguments["sequence"]}
        if name == "distance_trees":
            arguments = {"distances": arguments["distances"]}
        if name == "cky_pool":
            p = arguments.pop("parameters")
            shared |= {"compose": p["compose"], "direction": p["key"] @ (p["w"] @ p["query"]) / np.sqrt(len(p["w"]))}
        if name == "chart_trees":
            chart = arguments["chart"]
            weights = [chart.weights[i, i + h] for h in range(1, chart.n) for i in range(chart.n - h)]
            arguments = {"weights": np.concatenate([np.zeros(0), *weights]), "n": chart.n}
        if name == "pruned_chart":
            shared = {"window": arguments.get("window", 2)}
            arguments = {"scores": np.argsort(np.array(arguments["merge_order"], int)).astype(float)}
        if name == "locked_dropout":
            arguments["sequence"] = 0
        if name in ("cumax", "tree_gate"):  # the reference takes one row
            arguments = {key: x[np.newaxis] for key, x in arguments.items()}
        for key in ("ids", "labels"):
            if key in arguments:
                arguments[key] = arguments[key].astype(np.int32)
        batches.append((path.stem, Case(shared, [arguments])))
    return batches


def test_vectors_through_backends(backend: ModuleType, op: Any) -> None:
    for _, case in cases(op.name):
        check_vector(backend, op, case)


def check_vector(backend: ModuleType, op: Any, case: Case) -> None:
    case, (dtype, *_), precision = held(backend, op, case)
    compare(Expected(op, case, precision), answers(op, backend, case, dtype), dtype)
