"""Trees in Penn Treebank brackets, read from lines of text; their part-of-speech tags, function tags and traces.

Nothing here recurses, so a tree may be 100,000 levels deep.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from refimpl.trees import Tree, TreeError

_WORD = r"[^ \t\r\n\f\v()]+"
_TOKEN = re.compile(rf"\((?:{_WORD})?|\)|{_WORD}")
NOTHING_LEFT = "empty constituent: nothing but traces"


def read_trees(
    lines: Iterable[str],
    *,
    drop_traces: bool = False,
    drop_function_tags: bool = False,
    drop_preterminals: bool = False,
) -> Iterator[Tree]:
    """Yield the trees of decoded lines in brackets.

    Spec: TREE-4.  The three switches pass every tree through the functions of the same names (TREE-6).

    Raises TreeError at the line and column (from 1) of the offending token.

    >>> list(read_trees(["( (S (NP-SBJ (DT the) (NN bird))", "     (VP sings)) ) (X y)"], drop_function_tags=True))
    [Tree('(S (NP (DT the) (NN bird)) (VP sings))'), Tree('(X y)')]
    """
    brackets = Brackets()
    for number, line in enumerate(lines, 1):
        for tree, first_line, column in brackets.read(number, line):
            result: Tree | None = without_traces(tree) if drop_traces else tree
            if result is None:
                raise TreeError(first_line, column, NOTHING_LEFT)
            if drop_function_tags:
                result = without_function_tags(result)
            if drop_preterminals:
                result = without_preterminals(result)
            yield result
    brackets.end()


class Brackets:
    """The trees of lines, which are given one after another; all errors are TreeErrors. Spec: TREE-4.

    >>> brackets = Brackets()
    >>> [list(brackets.read(1, "(X y) (S (NP bird)")), brackets.is_open, list(brackets.read(2, "(VP sings))"))]
    [[(Tree('(X y)'), 1, 1)], True, [(Tree('(S (NP bird) (VP sings))'), 1, 7)]]
    """

    def __init__(self) -> None:
        self._opened: list[tuple[str, list[Tree | str]]] = []  # label and children
        self._first: tuple[int, str, int] = (0, "", 0)  # line, text and number of the token where the tree starts

    @property
    def is_open(self) -> bool:
        """Whether the last line has ended within a tree."""
        return bool(self._opened)

    def read(self, line: int, text: str) -> Iterator[tuple[Tree, int, int]]:
        """Yield the trees that end in the text of a line, each with the line and column where it starts."""
        opened = self._opened
        for number, token in enumerate(_TOKEN.findall(text)):
            if token == ")":
                if not opened:
                    raise _error(line, text, number, "extra closing bracket")
                label, children = opened.pop()
                if not children:
                    reason = f"empty constituent: ({_short(label)}" if label else "no root"
                    raise _error(line, text, number, reason)
                node = Tree(label, tuple(children)) if label else children[0]
                if opened:
                    opened[-1][1].append(node)
                else:
                    assert isinstance(node, Tree)
                    yield node, *self._start()
            elif token[0] == "(":
                label = token[1:]
                if not opened:
                    self._first = line, text, number
                elif opened[-1][1] and not opened[-1][0]:
                    raise _error(line, text, number, f"two roots in one tree: ({_short(label)}")
                elif not label:
                    raise _error(line, text, number, "empty label")
                opened.append((label, []))
            elif opened and opened[-1][0]:
                opened[-1][1].append(token)
            else:
                raise _error(line, text, number, f"terminal outside the root: {_short(token)}")

    def end(self) -> None:
        """Raise TreeError if a tree has no end."""
        if self._opened:
            raise TreeError(*self._start(), f"unclosed bracket: ({_short(self._opened[0][0])}")

    def _start(self) -> tuple[int, int]:
        line, text, number = self._first
        return line, _column(text, number)


def _error(line: int, text: str, number: int, reason: str) -> TreeError:
    return TreeError(line, _column(text, number), reason)


def _column(text: str, number: int) -> int:
    """Return the column, from 1, of the token of that number, from 0."""
    return next(islice(_TOKEN.finditer(text), number, None)).start() + 1


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."


def is_preterminal(node: Tree | str) -> bool:
    """Return whether a node is a part-of-speech tag: a constituent whose only child is a word. Spec: TREE-6.

    >>> is_preterminal(Tree("NN", ("bird",))), is_preterminal(Tree("NP", (Tree("NN", ("bird",)),)))
    (True, False)
    """
    return isinstance(node, Tree) and len(node.children) == 1 and isinstance(node.children[0], str)


def without_preterminals(tree: Tree) -> Tree:
    """Return the tree with every part-of-speech tag replaced by its word; a tree that is only a tag stays.

    Spec: TREE-6.  Once only: without its tags, ``(VP sings)`` looks like a tag itself.

    >>> without_preterminals(Tree("NP", (Tree("DT", ("the",)), Tree("NN", ("bird",)))))
    Tree('(NP the bird)')
    """
    changed = _rebuild(tree, lambda node, rebuilt: rebuilt.children[0] if is_preterminal(node) else rebuilt)
    return changed if isinstance(changed, Tree) else tree


def without_traces(tree: Tree) -> Tree | None:
    """Return the tree without ``(-NONE- ...)`` and the constituents that this empties; None if nothing remains.

    Spec: TREE-6.

    >>> without_traces(Tree("S", (Tree("NP", (Tree("-NONE-", ("*T*-1",)),)), Tree("VP", ("sings",)))))
    Tree('(S (VP sings))')
    """
    changed = _rebuild(tree, lambda node, rebuilt: rebuilt if node.label != "-NONE-" and rebuilt.children else None)
    return changed if isinstance(changed, Tree) else None


def without_function_tags(tree: Tree) -> Tree:
    """Return the tree with labels cut at the first ``-``, ``=`` or ``#`` that is not their first character.

    Spec: TREE-6.  Labels such as ``-LRB-``, ``-NONE-`` and ``#`` stay.

    >>> without_function_tags(Tree("NP-SBJ-1", (Tree("-LRB-", ("-LRB-",)), "bird")))
    Tree('(NP (-LRB- -LRB-) bird)')
    """

    def change(node: Tree, rebuilt: Tree) -> Tree:
        label = node.label if node.label.startswith("-") else re.split("[-=#]", node.label)[0]
        return Tree(label or node.label, rebuilt.children)

    changed = _rebuild(tree, change)
    assert isinstance(changed, Tree)
    return changed


def _rebuild(tree: Tree, change: Callable[[Tree, Tree], Tree | str | None]) -> Tree | str | None:
    """Return the tree with `change(node, node with changed children)` for every constituent; None drops the node."""
    levels: list[list[Tree | str]] = [[]]
    agenda: list[tuple[Tree | str, bool]] = [(tree, False)]
    while agenda:
        node, is_expanded = agenda.pop()
        changed: Tree | str | None
        if isinstance(node, str):
            changed = node
        elif not is_expanded:
            levels.append([])
            agenda.append((node, True))
            agenda.extend((child, False) for child in reversed(node.children))
            continue
        else:
            changed = change(node, Tree(node.label, tuple(levels.pop())))
        if changed is not None:
            levels[-1].append(changed)
    return levels[0][0] if levels[0] else None
