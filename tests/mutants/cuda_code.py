"""The mutants of a CUDA source: other operators and bounds, numbers and indices changed by 1, dropped terms, swapped
arguments.

A removed `__syncthreads` is no mutant here, because on the host only the race detector notices it.
"""

from __future__ import annotations

import re
from itertools import chain

from tests.mutants.mutant import Mutant, mutant_of

REPLACED = {
    " + ": (" - ",),
    " - ": (" + ",),
    " * ": (" / ",),
    " / ": (" * ",),
    " < ": (" <= ", " >= "),
    " <= ": (" < ", " > "),
    " > ": (" >= ", " <= "),
    " >= ": (" > ", " < "),
    " == ": (" != ",),
    " != ": (" == ",),
    " && ": (" || ",),
    " || ": (" && ",),
    " += ": (" -= ", " = "),
    " -= ": (" += ",),
    "fmax(": ("fmin(",),
    "max(": ("min(",),
    "min(": ("max(",),
}
_OPERATOR = re.compile("|".join(re.escape(text) for text in sorted(REPLACED, key=len, reverse=True)))
_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")
_INDEX = re.compile(r"(?<=\w)\[([^\[\]]+)\]")
_TERM = re.compile(r" [+-] (?:\w+\([^()]*\)|[\w.]+(?:\[[^\[\]]*\])?)(?= [-+]|[;)\]])")
_ARGUMENTS = re.compile(r"(?<=\w\()([^(),]+), ([^(),]+)(?=[,)])")
_DECLARATION = re.compile(
    r"__global__|__device__|^\s*(const )?(REAL|int|Long|Bits|unsigned)\b[^=;(]*[,)]|^\s*#|template"
)


def places(path: str, source: str) -> list[list[Mutant]]:
    """Return the mutants for every place of the code that can be mutated."""
    groups = []
    start = 0
    for line in source.split("\n"):
        code = line.split("//")[0]
        if not _DECLARATION.search(code):
            for begin, end, texts in chain(
                _operators(code), _numbers(code), _indices(code), _terms(code), _swaps(code)
            ):
                a, b = start + begin, start + end
                groups.append([(name, source[:a] + text + source[b:]) for name, text in texts])
        start += len(line) + 1
    return [[mutant_of(path, name, source, text) for name, text in alternatives] for alternatives in groups]


Change = tuple[int, int, list[tuple[str, str]]]


def _operators(code: str) -> list[Change]:
    return [(m.start(), m.end(), [("operator", text) for text in REPLACED[m[0]]]) for m in _OPERATOR.finditer(code)]


def _numbers(code: str) -> list[Change]:
    return [
        (m.start(), m.end(), [("number", str(int(m[0]) + step)) for step in (1, -1) if int(m[0]) + step >= 0])
        for m in _NUMBER.finditer(code)
        if "__shared__" not in code
    ]


def _indices(code: str) -> list[Change]:
    if "__shared__" in code or re.match(r"\s*(const )?(REAL|int|Long)\b", code) and "=" not in code:
        return []
    return [(m.start(), m.end(), [("index", f"[{m[1]} {sign} 1]") for sign in "+-"]) for m in _INDEX.finditer(code)]


def _terms(code: str) -> list[Change]:
    return [(m.start(), m.end(), [("dropped term", "")]) for m in _TERM.finditer(code)]


def _swaps(code: str) -> list[Change]:
    swaps = ((m.start(), m.end(), f"{m[2]}, {m[1]}") for m in _ARGUMENTS.finditer(code) if m[1] != m[2])
    return [(begin, end, [("swapped arguments", text)]) for begin, end, text in swaps]
