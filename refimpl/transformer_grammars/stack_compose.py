"""Who attends to whom in a Transformer Grammar: STACK and COMPOSE attention (section 2.1, Algorithm 1).

Every function takes the types of a' [T'], see `refimpl.trees.double_closing`; position 0 is the start symbol, an ONT.
"""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from refimpl.checks import check_known
from refimpl.trees import CNT1, CNT2, ONT, T

Reading = Literal["corrected", "printed"]


def attend_sets(types: Sequence[int], reading: Reading = "corrected") -> list[list[int]]:
    """Return, for every position, the positions it may attend to, in ascending order.

    Spec: SC-1.  Algorithm 1; the comments are its line numbers.

    reading : "corrected" or "printed"; as printed, CNT2 does not attend to itself.
    Raises ValueError as `check_types`, and for another reading.

    >>> attend_sets([ONT, ONT, T, CNT1, CNT2])
    [[0], [0, 1], [0, 1, 2], [1, 2, 3], [0, 3, 4]]
    """
    check_types(types)
    check_known("reading", reading, get_args(Reading))
    S: list[int] = []  # 1: empty stack
    A: list[set[int]] = [set() for _ in types]  # 2: row i holds every j with A_ij = 1
    for i in range(len(types)):  # 3
        if types[i] == CNT1:  # 4: COMPOSE
            j = i  # 5
            while types[j] != ONT:  # 6
                A[i].add(j)  # 7
                j = S.pop()  # 8
            A[i].add(j)  # 10
            S.append(i)  # 11
        else:  # 12: STACK
            if types[i] != CNT2:  # 13
                S.append(i)  # 14
            for j in S:  # 16
                A[i].add(j)  # 17
            if reading == "corrected":  # not printed: see errata, A
                A[i].add(i)
    return [sorted(row) for row in A]  # 21


def attention_mask(types: Sequence[int], reading: Reading = "corrected") -> NDArray[np.bool_]:
    """Return the mask A, [T', T'] bool: true at (i, j) if and only if i may attend to j. Spec: SC-2."""
    return np.array([[j in row for j in range(len(types))] for row in attend_sets(types, reading)])


def depths(types: Sequence[int]) -> list[int]:
    """Return the depth of every position in the tree: 0 for the start symbol, 1 for a root. Spec: SC-3.

    >>> depths([ONT, ONT, T, CNT1, CNT2])
    [0, 1, 2, 1, 1]
    """
    check_types(types)
    return [list(types[:i]).count(ONT) - list(types[: i + 1]).count(CNT1) for i in range(len(types))]


def relative_positions(types: Sequence[int], reading: Reading = "corrected") -> NDArray[np.int_]:
    """Return R, [T', T'] int: depth(i) - depth(j) where i may attend to j, and 0 elsewhere. Spec: SC-4.

    >>> relative_positions([ONT, ONT, T, CNT1, CNT2])[3:]
    array([[ 0,  0, -1,  0,  0],
           [ 1,  0,  0,  0,  0]])
    """
    depth = np.array(depths(types))
    return np.where(attention_mask(types, reading), depth[:, None] - depth, 0)


def check_types(types: Sequence[int]) -> None:
    """Raise ValueError, with the position, unless the types are a prefix of trees with doubled CNTs. Spec: SC-5.

    >>> check_types([ONT, T, CNT1])
    Traceback (most recent call last):
    ValueError: position 2: CNT1 closes no open non-terminal
    """
    if len(types) == 0 or types[0] != ONT:
        raise ValueError("position 0: the first type is not ONT")
    n_open = 0
    for i in range(len(types)):
        if types[i] not in (ONT, T, CNT1, CNT2):
            raise ValueError(f"position {i}: unknown type {types[i]}")
        if (i > 0 and types[i - 1] == CNT1) != (types[i] == CNT2):
            raise ValueError(f"position {i}: CNT1 and CNT2 must come in pairs")
        n_open += int(types[i] == ONT) - int(types[i] == CNT1)
        if n_open == 0:
            raise ValueError(f"position {i}: CNT1 closes no open non-terminal")
