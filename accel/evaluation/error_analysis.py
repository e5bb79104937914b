"""Errors of two translations, judged by people who do not know which system wrote which (Treeformer, section 6.7)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import NamedTuple

import numpy as np

from accel.evaluation.significance import holm, sign_test

CORRECT = "correct"
CATEGORIES = {
    CORRECT: "correct translation",
    "lexical": "incorrect lexical choice",
    "pred-arg": "incorrect predicate-argument structure, such as subject and object swapped",
    "morphosyntax": "morphosyntactic error: inflection, tense, number or determiner",
    "drop/add": "missing or incorrectly added tokens",
    "other": "another error",
}
"""The categories of Table 5, with their meanings; a translation has `CORRECT` alone, or one or more of the others."""
TOTAL = "total errors"


class Row(NamedTuple):
    """A row of Table 5: a category or `TOTAL`, its count in both systems, and how their sentences differ.

    `only_first` and `only_second` count the sentences in which that system alone has the category; for `TOTAL`, the
    sentences in which that system has more errors. `p` is from the sign test, `adjusted` is p after Holm's procedure
    over all rows.
    """

    name: str
    first: int
    second: int
    only_first: int
    only_second: int
    p: float
    adjusted: float


def draw(count: int, n: int, seed: int) -> list[tuple[int, bool]]:
    """Return `count` of `n` sentences in random order, each with whether the first system's output is output A.

    Spec: ERR-1. Raises ValueError if `count` is not in 1..n.

    >>> sorted(i for i, _ in draw(3, 3, seed=0))
    [0, 1, 2]
    """
    if not 1 <= count <= n:
        raise ValueError(f"count {count}: of {n} sentences 1 to {n} can be drawn")
    random = np.random.Generator(np.random.Philox(seed))
    numbers, is_a = random.permutation(n)[:count], random.integers(0, 2, count)
    return [(int(i), bool(a)) for i, a in zip(numbers, is_a, strict=True)]


def judgement(text: str) -> frozenset[str]:
    """Return the categories that a cell of a sheet names, separated by blanks or commas, in upper or lower case.

    Spec: ERR-2. Raises ValueError for an empty cell, an unknown category, and `CORRECT` beside an error.

    >>> sorted(judgement("Lexical, pred-arg"))
    ['lexical', 'pred-arg']
    """
    names = text.lower().replace(",", " ").split()
    if not names:
        raise ValueError(f"is empty; use one or more of {', '.join(CATEGORIES)}")
    for name in names:
        if name not in CATEGORIES:
            meant = "".join(f"did you mean {match}? " for match in get_close_matches(name, CATEGORIES, 1))
            raise ValueError(f"{name}: no such category: {meant}use one or more of {', '.join(CATEGORIES)}")
    if CORRECT in names and len(set(names)) > 1:
        raise ValueError(f"{' '.join(names)}: {CORRECT} stands alone; remove it, or the errors")
    return frozenset(names)


def count_errors(judgements: Sequence[tuple[Collection[str], Collection[str]]]) -> list[Row]:
    r"""Return the rows of Table 5, from the categories that both systems have in every sentence.

    Spec: ERR-2, ERR-3.  $n_c = \sum_s [c \in J_s]$, $E = \sum_{c \ne \text{correct}} n_c$

    Raises ValueError for no sentence.

    >>> count_errors([({"lexical"}, {"correct"})])[0]
    Row(name='correct', first=0, second=1, only_first=0, only_second=1, p=1.0, adjusted=1.0)
    """
    if not judgements:
        raise ValueError("judgements: no sentence")
    counts = {name: [(int(name in first), int(name in second)) for first, second in judgements] for name in CATEGORIES}
    counts[TOTAL] = [(len({*first} - {CORRECT}), len({*second} - {CORRECT})) for first, second in judgements]
    tests = [sign_test([first - second for first, second in rows]) for rows in counts.values()]
    adjusted = holm([test.p for test in tests])
    sums = [(sum(first for first, _ in rows), sum(second for _, second in rows)) for rows in counts.values()]
    return [
        Row(name, *both, test.positive, test.negative, test.p, p)
        for name, both, test, p in zip(counts, sums, tests, adjusted, strict=True)
    ]
