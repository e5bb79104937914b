"""Trees, and the sequences of actions that build them (Transformer Grammars, section 2, Figures 1 and 2).

A tree is written in brackets, ``(S (NP the bird) (VP sings))``,
and as actions, ``(S (NP the bird NP) (VP sings VP) S)``.
Nothing here recurses, so a tree may be 100,000 levels deep.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

START = "<s>"  # the root of every action sequence: an open non-terminal that nothing closes


class ActionType(IntEnum):
    """What an action does to the stack. Spec: TREE-1."""

    ONT = 0
    T = 1
    CNT1 = 2
    CNT2 = 3


ONT, T, CNT1, CNT2 = ActionType


class TreeError(ValueError):
    """An ill-formed tree: `line` and `column` (from 1; line 0 for a sequence of actions), and the `reason`."""

    def __init__(self, line: int, column: int, reason: str) -> None:
        where = f"line {line}, column {column}" if line else f"action {column}"
        super().__init__(f"{where}: {reason}")
        self.line, self.column, self.reason = line, column, reason


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Tree:
    """A constituent: its label and its children, each a `Tree` or a word. Trees are equal when their actions are.

    Spec: TREE-1.  Raises ValueError for a word that is empty, START, or holds a bracket or white space.

    >>> Tree("NP", ("the", "bird"))
    Tree('(NP the bird)')
    """

    label: str
    children: tuple[Tree | str, ...]

    def __post_init__(self) -> None:
        if bad := [x for x in self.children if isinstance(x, str) and (x == START or not _ACTION.fullmatch(f"({x}"))]:
            raise ValueError(f"words: {bad[0]!r} is {START}, or empty, or holds a bracket or white space")

    def __eq__(self, other: object) -> bool:
        return actions(self) == actions(other) if isinstance(other, Tree) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(actions(self)))

    def __str__(self) -> str:
        text = " ".join(")" if action_type(a) == ActionType.CNT1 else a for a in actions(self))
        return text.replace(" )", ")")

    def __repr__(self) -> str:
        return f"Tree({str(self)!r})"


def action_type(action: str) -> ActionType:
    """Return the type of an action as it is written: `ONT` for ``"(NP"`` and `START`, `CNT1` for ``"NP)"``, else `T`.

    Spec: TREE-1.

    >>> [action_type(a).name for a in ("<s>", "(NP", "bird", "NP)")]
    ['ONT', 'ONT', 'T', 'CNT1']
    """
    if action == START or (action.startswith("(") and len(action) > 1):
        return ActionType.ONT
    return ActionType.CNT1 if action.endswith(")") and len(action) > 1 else ActionType.T


def actions(tree: Tree) -> list[str]:
    """Return the actions that build a tree top-down and left to right.

    Spec: TREE-2.

    >>> actions(Tree("S", (Tree("NP", ("the", "bird")), Tree("VP", ("sings",)))))
    ['(S', '(NP', 'the', 'bird', 'NP)', '(VP', 'sings', 'VP)', 'S)']
    """
    out, agenda = list[str](), list[Tree | str]([tree])
    while agenda:
        node = agenda.pop()
        if isinstance(node, str):
            out.append(node)
        else:
            out.append(f"({node.label}")
            agenda.append(f"{node.label})")
            agenda.extend(reversed(node.children))
    return out


def tree_from_actions(sequence: Sequence[str]) -> Tree:
    """Return the tree that a sequence of actions builds; the inverse of `actions`.

    Spec: TREE-2.

    Raises TreeError with line 0 and the number of the action, from 1, as its column.

    >>> tree_from_actions(["(NP", "the", "bird", "NP)"])
    Tree('(NP the bird)')
    >>> tree_from_actions(["(NP", "the", "VP)"])  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    TreeError: action 3: label mismatch: (NP closed by VP)
    """
    stack: list[tuple[int, str, list[Tree | str]]] = []  # number of the action, label, children
    root: Tree | None = None
    for number, action in enumerate(sequence, 1):
        kind = action_type(action)
        if action == START or not _ACTION.fullmatch(action):
            raise TreeError(0, number, f"not an action of a tree: {action!r}")
        if kind == ActionType.ONT and root is not None:
            raise TreeError(0, number, f"two roots in one tree: {action}")
        if kind == ActionType.ONT:
            stack.append((number, action[1:], []))
        elif not stack:
            outside = f"terminal outside the root: {action}"
            raise TreeError(0, number, outside if kind == ActionType.T else "extra closing bracket")
        elif kind == ActionType.T:
            stack[-1][2].append(action)
        else:
            _, label, children = stack.pop()
            if label != action[:-1]:
                raise TreeError(0, number, f"label mismatch: ({label} closed by {action[:-1]})")
            if not children:
                raise TreeError(0, number, f"empty constituent: ({label}")
            node = Tree(label, tuple(children))
            if stack:
                stack[-1][2].append(node)
            else:
                root = node
    if stack:
        raise TreeError(0, stack[0][0], f"unclosed bracket: ({stack[0][1]}")
    if root is None:
        raise TreeError(0, len(sequence) + 1, "no root")
    return root


_ACTION = re.compile(r"\(?[^ \t\r\n\f\v()]+|[^ \t\r\n\f\v()]+\)")


def double_closing(sequence: Sequence[str]) -> tuple[list[str], list[ActionType]]:
    """Return the sequence with every closing non-terminal twice, and the type of every position.

    Spec: TREE-3.  The first of each pair is CNT1 and composes, the second is CNT2 and attends to the stack.

    >>> doubled, types = double_closing(["<s>", "(NP", "bird", "NP)"])
    >>> doubled, [kind.name for kind in types]
    (['<s>', '(NP', 'bird', 'NP)', 'NP)'], ['ONT', 'ONT', 'T', 'CNT1', 'CNT2'])
    """
    doubled, types = list[str](), list[ActionType]()
    for action in sequence:
        kind = action_type(action)
        kinds = [ActionType.CNT1, ActionType.CNT2] if kind == ActionType.CNT1 else [kind]
        doubled += [action] * len(kinds)
        types += kinds
    return doubled, types


def words(tree: Tree) -> list[str]:
    """Return the words of a tree from left to right. Spec: TREE-5.

    >>> words(Tree("S", (Tree("NP", ("the", "bird")), "sings")))
    ['the', 'bird', 'sings']
    """
    return [a for a in actions(tree) if action_type(a) == ActionType.T]


def spans(tree: Tree) -> list[tuple[str, int, int]]:
    """Return (label, i, j) for every constituent in the order in which they open; words i to j, both included.

    Spec: TREE-5.

    >>> spans(Tree("S", (Tree("NP", ("the", "bird")), "sings")))
    [('S', 0, 2), ('NP', 0, 1)]
    """
    out, stack, n_words = list[tuple[str, int, int]](), list[int](), 0
    for action in actions(tree):
        kind = action_type(action)
        if kind == ActionType.ONT:
            stack.append(len(out))
            out.append((action[1:], n_words, -1))
        elif kind == ActionType.T:
            n_words += 1
        else:
            number = stack.pop()
            out[number] = (*out[number][:2], n_words - 1)
    return out
