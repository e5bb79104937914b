"""Trees, and the sequences of actions that build them (Transformer Grammars, section 2, Figures 1 and 2).

A tree is written in brackets, ``(S (NP the bird) (VP sings))``,
and as actions, ``(S (NP the bird NP) (VP sings VP) S)``.
Nothing here recurses, so a tree may be 100,000 levels deep.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

START = "<s>"
"""The start symbol: the root of every action sequence, an open non-terminal that is never closed."""


class ActionType(IntEnum):
    """What an action does to the stack. Spec: TREE-1."""

    ONT = 0
    T = 1
    CNT1 = 2
    CNT2 = 3


class TreeError(ValueError):
    """An ill-formed tree: `line` and `column` (from 1; line 0 for a sequence of actions), and the `reason`."""

    def __init__(self, line: int, column: int, reason: str) -> None:
        where = f"line {line}, column {column}" if line else f"action {column}"
        super().__init__(f"{where}: {reason}")
        self.line, self.column, self.reason = line, column, reason


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Tree:
    """A constituent: its label and its children, each a `Tree` or a word. Spec: TREE-1.

    Trees are equal when their actions are.

    Examples
    --------
    >>> Tree("NP", ("the", "bird"))
    Tree('(NP the bird)')
    """

    label: str
    children: tuple[Tree | str, ...]

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
    """Return the type of an action as it is written: `ONT` for ``"(NP"``, `CNT1` for ``"NP)"``, else `T`.

    Spec: TREE-1. The start symbol is an open non-terminal.

    Examples
    --------
    >>> [action_type(a).name for a in ("<s>", "(NP", "bird", "NP)")]
    ['ONT', 'ONT', 'T', 'CNT1']
    """
    if action == START or (action.startswith("(") and len(action) > 1):
        return ActionType.ONT
    if action.endswith(")") and len(action) > 1:
        return ActionType.CNT1
    return ActionType.T


def actions(tree: Tree) -> list[str]:
    """Return the actions that build a tree top-down and left to right.

    Spec: TREE-2.  One ONT ``"(NP"`` and one CNT ``"NP)"`` a constituent, one T a word.

    Examples
    --------
    >>> actions(Tree("S", (Tree("NP", ("the", "bird")), Tree("VP", ("sings",)))))
    ['(S', '(NP', 'the', 'bird', 'NP)', '(VP', 'sings', 'VP)', 'S)']
    """
    out: list[str] = []
    agenda: list[Tree | str] = [tree]
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

    Raises
    ------
    TreeError
        Line 0, column = the action's number from 1: label mismatch, empty constituent, unclosed bracket, no root,
        extra closing bracket, two roots in one tree, terminal outside the root.

    Examples
    --------
    >>> tree_from_actions(["(NP", "the", "bird", "NP)"])
    Tree('(NP the bird)')
    >>> tree_from_actions(["(NP", "the", "VP)"])  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    TreeError: action 3: label mismatch: (NP closed by VP)
    """
    builder = _Builder()
    for number, action in enumerate(sequence, 1):
        if action == START or not _ACTION.fullmatch(action):
            raise TreeError(0, number, f"not an action of a tree: {action!r}")
        kind = action_type(action)
        if kind == ActionType.ONT:
            builder.open(action[1:], 0, number)
        elif kind == ActionType.T:
            builder.word(action, 0, number)
        else:
            builder.close(action[:-1], 0, number)
    return builder.root(0, len(sequence) + 1)


def double_closing(sequence: Sequence[str]) -> tuple[list[str], list[ActionType]]:
    """Return the sequence with every closing non-terminal twice, and the type of every position.

    Spec: TREE-3.  The first of each pair is CNT1 and composes, the second is CNT2 and goes onto the stack.

    Examples
    --------
    >>> doubled, types = double_closing(["<s>", "(NP", "bird", "NP)"])
    >>> doubled
    ['<s>', '(NP', 'bird', 'NP)', 'NP)']
    >>> [t.name for t in types]
    ['ONT', 'ONT', 'T', 'CNT1', 'CNT2']
    """
    doubled: list[str] = []
    types: list[ActionType] = []
    for action in sequence:
        kind = action_type(action)
        doubled.append(action)
        types.append(kind)
        if kind == ActionType.CNT1:
            doubled.append(action)
            types.append(ActionType.CNT2)
    return doubled, types


class _Builder:
    """Puts a tree together from brackets that open and close, and names what is wrong with them."""

    def __init__(self) -> None:
        self.open_nodes: list[tuple[str, list[Tree | str], int, int]] = []
        self.done: Tree | None = None

    def open(self, label: str, line: int, column: int) -> None:
        inside_wrapper = bool(self.open_nodes) and self.open_nodes[-1][0] == ""
        if self.done is not None or (inside_wrapper and self.open_nodes[-1][1]):
            raise TreeError(line, column, f"two roots in one tree: ({_short(label)}")
        if not label and self.open_nodes:
            raise TreeError(line, column, "empty label")
        self.open_nodes.append((label, [], line, column))

    def word(self, word: str, line: int, column: int) -> None:
        if not self.open_nodes or self.open_nodes[-1][0] == "":
            raise TreeError(line, column, f"terminal outside the root: {_short(word)}")
        self.open_nodes[-1][1].append(word)

    def close(self, label: str | None, line: int, column: int) -> None:
        if not self.open_nodes:
            raise TreeError(line, column, "extra closing bracket")
        expected, children, _, _ = self.open_nodes.pop()
        if label is not None and label != expected:
            raise TreeError(line, column, f"label mismatch: ({expected} closed by {label})")
        if not children:
            raise TreeError(line, column, f"empty constituent: ({_short(expected)}" if expected else "no root")
        node = Tree(expected, tuple(children)) if expected else children[0]
        if not self.open_nodes:
            assert isinstance(node, Tree)
            self.done = node
        else:
            self.open_nodes[-1][1].append(node)

    def root(self, line: int, column: int) -> Tree:
        if self.open_nodes:
            label, _, line, column = self.open_nodes[0]
            raise TreeError(line, column, f"unclosed bracket: ({_short(label)}")
        if self.done is None:
            raise TreeError(line, column, "no root")
        return self.done


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."


_WORD = r"[^ \t\r\n\f\v()]+"
_TOKEN = re.compile(rf"\((?:{_WORD})?|\)|{_WORD}")
_ACTION = re.compile(rf"\(?{_WORD}|{_WORD}\)")


def read_trees(
    lines: Iterable[str],
    *,
    drop_traces: bool = False,
    drop_function_tags: bool = False,
    drop_preterminals: bool = False,
) -> Iterator[Tree]:
    """Yield the trees of a file in Penn Treebank brackets.

    Spec: TREE-4.  A tree may run over several lines; each starts on a line of its own.
    The wrapper ``( (S ...) )`` is removed.

    Parameters
    ----------
    lines : iterable of str
        The lines of the file, decoded.
    drop_traces, drop_function_tags, drop_preterminals : bool
        Pass every tree through the functions of the same names.

    Raises
    ------
    TreeError
        At the line and column (from 1) of the offending token: empty constituent, empty label, unclosed bracket, extra
        closing bracket, two roots in one tree, terminal outside the root, nothing left after dropping the traces.

    Examples
    --------
    >>> list(read_trees(["( (S (NP-SBJ (DT the) (NN bird))", "     (VP sings)) )"], drop_function_tags=True))
    [Tree('(S (NP (DT the) (NN bird)) (VP sings))')]
    """
    for tree, line, column in _bracketed(lines):
        kept: Tree | None = without_traces(tree) if drop_traces else tree
        if kept is None:
            raise TreeError(line, column, "empty constituent: nothing but traces")
        if drop_function_tags:
            kept = without_function_tags(kept)
        if drop_preterminals:
            kept = without_preterminals(kept)
        yield kept


def _bracketed(lines: Iterable[str]) -> Iterator[tuple[Tree, int, int]]:
    """Yield every tree with the line and column where it starts."""
    builder, start = _Builder(), (0, 0)
    line = 0
    for line, text in enumerate(lines, 1):
        for match in _TOKEN.finditer(text):
            token, column = match.group(), match.start() + 1
            if token == ")":
                builder.close(None, line, column)
            elif token.startswith("("):
                if not builder.open_nodes:
                    start = (line, column)
                builder.open(token[1:], line, column)
            else:
                builder.word(token, line, column)
        if not builder.open_nodes and builder.done is not None:
            yield builder.done, *start
            builder = _Builder()
    if builder.open_nodes:
        builder.root(line, 1)


def words(tree: Tree) -> list[str]:
    """Return the words of a tree from left to right. Spec: TREE-5.

    Examples
    --------
    >>> words(Tree("S", (Tree("NP", ("the", "bird")), "sings")))
    ['the', 'bird', 'sings']
    """
    return [a for a in actions(tree) if action_type(a) == ActionType.T]


def spans(tree: Tree) -> list[tuple[str, int, int]]:
    """Return (label, i, j) for every constituent in the order in which they open; words i to j, both included.

    Spec: TREE-5.

    Examples
    --------
    >>> spans(Tree("S", (Tree("NP", ("the", "bird")), "sings")))
    [('S', 0, 2), ('NP', 0, 1)]
    """
    out: list[tuple[str, int, int]] = []
    opened: list[int] = []
    n_words = 0
    for action in actions(tree):
        kind = action_type(action)
        if kind == ActionType.ONT:
            opened.append(len(out))
            out.append((action[1:], n_words, -1))
        elif kind == ActionType.T:
            n_words += 1
        else:
            number = opened.pop()
            label, i, _ = out[number]
            out[number] = (label, i, n_words - 1)
    return out


def is_preterminal(node: Tree | str) -> bool:
    """Return whether a node is a part-of-speech tag: a constituent whose only child is a word. Spec: TREE-5.

    Examples
    --------
    >>> is_preterminal(Tree("NN", ("bird",))), is_preterminal(Tree("NP", (Tree("NN", ("bird",)),)))
    (True, False)
    """
    return isinstance(node, Tree) and len(node.children) == 1 and isinstance(node.children[0], str)


def without_preterminals(tree: Tree) -> Tree:
    """Return the tree with every part-of-speech tag replaced by its word; a tree that is only a tag stays.

    Spec: TREE-5.  Once only: without its tags, ``(VP sings)`` looks like a tag itself.

    Examples
    --------
    >>> without_preterminals(Tree("NP", (Tree("DT", ("the",)), Tree("NN", ("bird",)))))
    Tree('(NP the bird)')
    """
    kept = _rebuild(tree, lambda node, rebuilt: rebuilt.children[0] if is_preterminal(node) else rebuilt)
    return kept if isinstance(kept, Tree) else tree


def without_traces(tree: Tree) -> Tree | None:
    """Return the tree without ``(-NONE- ...)`` and what is empty without them; None when nothing is left.

    Spec: TREE-5.

    Examples
    --------
    >>> without_traces(Tree("S", (Tree("NP", (Tree("-NONE-", ("*T*-1",)),)), Tree("VP", ("sings",)))))
    Tree('(S (VP sings))')
    """
    kept = _rebuild(tree, lambda node, rebuilt: rebuilt if node.label != "-NONE-" and rebuilt.children else None)
    return kept if isinstance(kept, Tree) else None


def without_function_tags(tree: Tree) -> Tree:
    """Return the tree with labels cut at the first ``-`` or ``=`` that is not their first character.

    Spec: TREE-5.  Labels such as ``-LRB-`` and ``-NONE-`` stay.

    Examples
    --------
    >>> without_function_tags(Tree("NP-SBJ-1", (Tree("-LRB-", ("-LRB-",)), "bird")))
    Tree('(NP (-LRB- -LRB-) bird)')
    """

    def change(node: Tree, rebuilt: Tree) -> Tree:
        label = node.label if node.label.startswith("-") else re.split("[-=]", node.label)[0]
        return Tree(label or node.label, rebuilt.children)

    kept = _rebuild(tree, change)
    assert isinstance(kept, Tree)
    return kept


def _rebuild(tree: Tree, change: Callable[[Tree, Tree], Tree | str | None]) -> Tree | str | None:
    """Return the tree with `change(node, node with changed children)` for every constituent; None drops the node."""
    levels: list[list[Tree | str]] = [[]]
    agenda: list[tuple[Tree | str, bool]] = [(tree, False)]
    while agenda:
        node, children_done = agenda.pop()
        changed: Tree | str | None
        if isinstance(node, str):
            changed = node
        elif not children_done:
            levels.append([])
            agenda.append((node, True))
            agenda.extend((child, False) for child in reversed(node.children))
            continue
        else:
            changed = change(node, Tree(node.label, tuple(levels.pop())))
        if changed is not None:
            levels[-1].append(changed)
    return levels[0][0] if levels[0] else None
