"""Inputs of a failed check as a file, which `grove verify --replay` runs again.

JSON: `format`, `version`, `operation`, `check`, `failure` (one line), and `drawn`, what the check asked for. An array
is `{"dtype", "shape", "data"}`, `data` in row-major order; NaN and the infinities are the words "nan", "inf", "-inf".
A case is `{"shared", "examples"}`: what the examples of a batch have in common, and what each has of its own.
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from accel.verify.op import Case

FORMAT, VERSION = "grove-verify-input", 1
FIELDS = {"format", "version", "operation", "check", "failure", "drawn"}


@dataclass(frozen=True)
class Saved:
    operation: str
    check: str
    failure: str
    drawn: dict[str, Any]


def text_of(drawn: dict[str, Any]) -> str:
    """Return what was drawn as JSON; of two failing inputs, the one with the shorter text is the simpler."""
    return json.dumps(_plain(drawn), allow_nan=False)


def save(path: Path, saved: Saved) -> None:
    head = {"format": FORMAT, "version": VERSION, "operation": saved.operation, "check": saved.check}
    text = json.dumps(head | {"failure": saved.failure, "drawn": _plain(saved.drawn)}, allow_nan=False)
    path.write_text(f"{text}\n", encoding="utf-8")


def load(path: Path) -> Saved:
    """Return what `save` wrote to a file, or "-" for standard input. Raises ValueError with the file and its fault."""
    try:
        x = json.loads(sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path}: not JSON: {error}; --replay takes a file that grove verify has saved") from error
    if not isinstance(x, dict) or x.get("format") != FORMAT:
        raise ValueError(f"{path}: no input of grove verify: name a file that it has saved, grove-verify-OP-CHECK.json")
    if x.get("version") != VERSION or set(x) != FIELDS:
        raise ValueError(f"{path}: version {x.get('version')} of the format; this Grove reads version {VERSION}")
    try:
        return Saved(x["operation"], x["check"], x["failure"], _restored(x["drawn"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{path}: damaged: {type(error).__name__}: {error}; let grove verify save it again") from error


def _plain(x: Any) -> Any:
    if isinstance(x, Case):
        return {"shared": _plain(x.shared), "examples": _plain(x.examples)}
    if isinstance(x, np.ndarray):
        return {"dtype": str(x.dtype), "shape": list(x.shape), "data": [_word(y) for y in x.ravel().tolist()]}
    if isinstance(x, dict):
        return {key: _plain(value) for key, value in x.items()}
    if isinstance(x, (list, tuple)):
        return [_plain(y) for y in x]
    if isinstance(x, np.generic):
        return x.item()
    return int(x) if isinstance(x, int) and not isinstance(x, bool) else x


def _word(x: Any) -> Any:
    return str(x) if isinstance(x, float) and not math.isfinite(x) else x


def _restored(x: Any) -> Any:
    if isinstance(x, list):
        return [_restored(y) for y in x]
    if not isinstance(x, dict):
        return x
    if set(x) == {"shared", "examples"}:
        return Case(_restored(x["shared"]), _restored(x["examples"]))
    if set(x) == {"dtype", "shape", "data"}:
        return np.array(x["data"], x["dtype"]).reshape(x["shape"])
    return {key: _restored(value) for key, value in x.items()}
