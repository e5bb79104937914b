"""The vectors can be read without our code, with JSON, NumPy and the rules of specs/vectors/README.md."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "specs/vectors"
MANIFEST = json.loads((FOLDER / "manifest.json").read_text(encoding="utf-8"))
VECTORS = [json.loads((FOLDER / name).read_text(encoding="utf-8")) for name in MANIFEST["files"]]


def value(x):
    """Return a value with arrays for lists, and numbers for "inf", "-inf" and "nan"."""
    if isinstance(x, dict):
        return {key: value(y) for key, y in x.items()}
    if x in ("inf", "-inf", "nan"):
        return float(x)
    return np.array([value(y) for y in x]) if isinstance(x, list) else x


def agrees(got, expected):
    """Return whether values agree by the page's rule: finite floats to 1e-10 relative or 1e-12, all else exactly."""
    if isinstance(expected, list):
        return len(got) == len(expected) and all(map(agrees, got, expected))
    if isinstance(expected, float) and math.isfinite(expected):
        return abs(got - expected) <= max(MANIFEST["relative"] * abs(expected), MANIFEST["absolute"])
    return got == value(expected)


def softmax(x):
    if not np.isfinite(x.max()):
        raise ValueError("infinite")
    e = np.exp(x - x.max())
    return e / e.sum()


def layer_norm(x, scale, bias):
    if scale.shape != x.shape[-1:]:
        raise ValueError("scale")
    c = x - x.mean(axis=1, keepdims=True)
    return c / np.sqrt((c**2).mean(axis=1, keepdims=True) + 1e-5) * scale + bias


def embedding(table, ids):
    if not ((ids >= 0) & (ids < len(table))).all():
        raise ValueError("ids")
    return table[ids]


def splitmix64(state):
    z = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


FUNCTIONS = {
    "refimpl.layers.softmax": softmax,
    "refimpl.layers.layer_norm": layer_norm,
    "refimpl.layers.embedding": embedding,
    "refimpl.randomness.splitmix64": splitmix64,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_agree_with_their_vectors(name: str) -> None:
    vectors = [vector for vector in VECTORS if vector["function"] == name]
    assert vectors
    for vector in vectors:
        try:
            result = FUNCTIONS[name](**value(vector["inputs"]))
        except ValueError as error:
            assert vector["error"].removeprefix("ValueError: ") in str(error), vector["id"]
        else:
            assert agrees(result, vector["expect"]), vector["id"]


def test_wrong_answers_do_not_agree() -> None:
    assert not agrees(1.0 + 2e-10, 1.0) and agrees(1.0 + 9e-11, 1.0) and agrees(9e-13, 0.0)
    assert not agrees([1.0], [1.0, 1.0]) and not agrees(1.0, "-inf") and agrees(-math.inf, "-inf") and not agrees(2, 1)
    assert not agrees(math.nan, 1.0)


def test_the_manifest_names_every_file() -> None:
    assert MANIFEST["format"] == "grove-vectors" and MANIFEST["version"] == 1
    paths = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.glob("*/*/*.json"))
    assert MANIFEST["files"] == paths, "run: make vectors"
    assert [f"{vector['id']}.json" for vector in VECTORS] == paths


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
def test_files_are_as_the_page_says(vector: dict) -> None:
    fields = {"id", "clause", "source", "comment", "flags", "function", "inputs"}
    assert set(vector) in (fields | {"expect"}, fields | {"error"})
    assert vector["source"].partition(":")[0] in ("paper", "derived", "enumeration", "pin")
    json.dumps(vector, allow_nan=False)
    assert "error" not in vector or vector["error"].split(": ", 1)[0].isidentifier()


def test_the_page_shows_all_that_a_reader_needs() -> None:
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert all(f"`{field}`" in page for field in ("id", "clause", "source", "comment", "flags", "function", "inputs"))
    assert all(repr(MANIFEST[name]) in page for name in ("relative", "absolute"))
