"""Who attends to whom in a Transformer Grammar: STACK and COMPOSE attention (section 2.1, Algorithm 1).

Every function takes the types of the positions of one sequence after `refimpl.trees.double_closing`;
position 0 is the start symbol, an ONT.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from refimpl.trees import ActionType

Reading = Literal["corrected", "printed"]
ONT, T, CNT1, CNT2 = ActionType


def attend_sets(types: Sequence[int], reading: Reading = "corrected") -> list[list[int]]:
    """Return, for every position, the positions it may attend to, in ascending order.

    Spec: SC-1.  Algorithm 1, line by line.

    Parameters
    ----------
    types : [T'] ActionType
        Types of the positions; the first is the start symbol's, ONT.
    reading : "corrected" or "printed"
        As printed, CNT2 attends to the stack but not to itself.

    Raises
    ------
    ValueError
        If the types are no prefix of a sequence of trees with doubled closing non-terminals.

    Examples
    --------
    ``<s> (NP bird NP) NP)``

    >>> attend_sets([ONT, ONT, T, CNT1, CNT2])
    [[0], [0, 1], [0, 1, 2], [1, 2, 3], [0, 3, 4]]
    """
    check_types(types)
    sets: list[list[int]] = []
    stack: list[int] = []
    for i, kind in enumerate(types):
        if kind == CNT1:  # COMPOSE
            allowed = [i]
            while types[j := stack.pop()] != ONT:
                allowed.append(j)
            allowed.append(j)
            stack.append(i)
        else:  # STACK
            if kind != CNT2:
                stack.append(i)
            allowed = list(stack)
            if kind == CNT2 and reading == "corrected":
                allowed.append(i)
        sets.append(sorted(allowed))
    return sets


def attention_mask(types: Sequence[int], reading: Reading = "corrected") -> NDArray[np.bool_]:
    """Return the attention mask A: true at (i, j) if and only if i may attend to j.

    Spec: SC-2.  [T', T'] bool, lower triangular.

    Examples
    --------
    >>> attention_mask([ONT, ONT, T, CNT1, CNT2]).astype(int)[3:]
    array([[0, 1, 1, 1, 0],
           [1, 0, 0, 1, 1]])
    """
    mask = np.zeros((len(types), len(types)), dtype=bool)
    for i, allowed in enumerate(attend_sets(types, reading)):
        for j in allowed:
            mask[i, j] = True
    return mask


def depths(types: Sequence[int]) -> list[int]:
    """Return the depth of every position in the tree: 0 for the start symbol, 1 for a root.

    Spec: SC-3.  An ONT lies one deeper than the constituent it opens in, a T too; a CNT lies where its ONT does.

    Raises
    ------
    ValueError
        As `attend_sets`.

    Examples
    --------
    >>> depths([ONT, ONT, T, CNT1, CNT2])
    [0, 1, 2, 1, 1]
    """
    check_types(types)
    out: list[int] = []
    n_open = 0
    for kind in types:
        if kind == ONT:
            out.append(n_open)
            n_open += 1
        elif kind == T:
            out.append(n_open)
        elif kind == CNT1:
            n_open -= 1
            out.append(n_open)
        else:
            out.append(n_open)
    return out


def relative_positions(types: Sequence[int], reading: Reading = "corrected") -> NDArray[np.int_]:
    """Return R with R_ij = depth(i) - depth(j) where i may attend to j, and 0 elsewhere.

    Spec: SC-4.  [T', T'] int; -1 occurs at COMPOSE, from a constituent to its children.

    Examples
    --------
    >>> relative_positions([ONT, ONT, T, CNT1, CNT2])[3:]
    array([[ 0,  0, -1,  0,  0],
           [ 1,  0,  0,  0,  0]])
    """
    depth = depths(types)
    relative = np.zeros((len(types), len(types)), dtype=int)
    for i, allowed in enumerate(attend_sets(types, reading)):
        for j in allowed:
            relative[i, j] = depth[i] - depth[j]
    return relative


def check_types(types: Sequence[int]) -> None:
    """Raise ValueError unless the types are a prefix of trees with doubled closing non-terminals.

    Spec: SC-5.  The sequence starts with ONT; a CNT1 closes an ONT other than the start symbol; a CNT2 stands after
    every CNT1 (unless the sequence ends there) and nowhere else.

    Examples
    --------
    >>> check_types([ONT, T, CNT1])
    Traceback (most recent call last):
    ValueError: position 2: CNT1 closes no open non-terminal
    """
    if len(types) == 0 or types[0] != ONT:
        raise ValueError("position 0: the first type is not ONT")
    n_open = 0
    before = None
    for i, kind in enumerate(types):
        if kind not in (ONT, T, CNT1, CNT2):
            raise ValueError(f"position {i}: unknown type {kind}")
        if (before == CNT1) != (kind == CNT2):
            raise ValueError(f"position {i}: CNT1 and CNT2 must come in pairs")
        if kind == ONT:
            n_open += 1
        elif kind == CNT1:
            n_open -= 1
            if n_open == 0:
                raise ValueError(f"position {i}: CNT1 closes no open non-terminal")
        before = kind
