"""Wrong kernels: mistakes that a writer or a generator of kernels makes, imitated by changing right answers.

An error changes the answers of one call: a list of examples, each a list of outputs (all gradients are one example).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Answers = list[list[np.ndarray]]
Error = Callable[[Answers, dict[str, Any]], Answers]  # answers, and what the kernel remembers between its calls
FIRST_ROW_BEYOND = 64
DILUTION = 100_000  # elements beside one wrong one


def each(change: Callable[[np.ndarray], np.ndarray]) -> Error:
    """Return an error that changes every float array."""
    return lambda answers, memory: [
        [change(x.copy()) if x.dtype.kind == "f" and x.size else x for x in outputs] for outputs in answers
    ]


def last_answer(answers: Answers, memory: dict[str, Any]) -> Answers:
    dtype = answers[0][0].dtype.name
    earlier, memory[dtype] = memory.get(dtype, answers), answers
    flat = [np.concatenate([outputs[i].ravel() for outputs in earlier]) for i in range(len(answers[0]))]
    return [[np.resize(flat[i], x.shape) if flat[i].size else x for i, x in enumerate(outputs)] for outputs in answers]


def one_element(answers: Answers, memory: dict[str, Any]) -> Answers:
    """The last element of the first output is off by a thousandth of the largest."""
    copies = [[x.copy() for x in outputs] for outputs in answers]
    x = copies[-1][0]
    if x.size:
        x.flat[-1] += 1e-3 * max(float(np.abs(np.where(np.isfinite(x), x, 0)).max()), 1e-3)
    return copies


def ragged_end(x: np.ndarray) -> np.ndarray:
    """The last row is the one before it."""
    if len(x) > 1:
        x[-1] = x[-2]
    return x


def transposed_tile(x: np.ndarray) -> np.ndarray:
    if x.ndim > 1:
        side = min(*x.shape[:2], 4)
        x[:side, :side] = x[:side, :side].swapaxes(0, 1).copy()
    return x


def neighbour(x: np.ndarray) -> np.ndarray:
    """A thousandth of the row before leaks into every row."""
    x[1:] += (1e-3 * np.where(np.isfinite(x[:-1]), x[:-1], 0)).astype(x.dtype)
    return x


def beyond_a_size(answers: Answers, memory: dict[str, Any]) -> Answers:
    """Rows from the 64th of a batch on are 0."""
    copies = [[x.copy() for x in outputs] for outputs in answers]
    before = 0
    for outputs in copies:
        for x in outputs:
            x[max(FIRST_ROW_BEYOND - before, 0) :] = 0
        before += len(outputs[0])
    return copies


ERRORS: dict[str, Error] = {
    "zeros": each(np.zeros_like),
    "a constant": each(lambda x: np.full_like(x, 0.5)),
    "the last call's answer": last_answer,
    "one element in 100,000": one_element,
    "off by one at a ragged end": each(ragged_end),
    "a transposed tile": each(transposed_tile),
    "a neighbour leaks in": each(neighbour),
    "1e-5 off": each(lambda x: (x * (1 + 1e-5)).astype(x.dtype)),
    "wrong beyond 64 rows": beyond_a_size,
}
LOW_PRECISION = {"float16 inside": "float16", "bfloat16 inside": "bfloat16"}
"""The inputs are rounded to this precision, but only in float32 calls: the float64 answers are right."""
