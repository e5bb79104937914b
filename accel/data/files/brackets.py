"""Trees in Penn Treebank brackets, read from lines of text; their part-of-speech tags, function tags and traces.

Nothing here recurses, so a tree may be 100,000 levels deep.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from refimpl.trees import Tree, TreeError

_WORD = r"[^ \t\r\n\f\v()]+"
_TOKEN = re.compile(rf"\((?:{_WORD})?|\)|{_WORD}")


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

    >>> list(read_trees(["( (S (NP-SBJ (DT the) (NN bird))", "     (VP sings)) )"], drop_function_tags=True))
    [Tree('(S (NP (DT the) (NN bird)) (VP sings))')]
    """
    for tree, line, column in _bracketed(lines):
        result: Tree | None = without_traces(tree) if drop_traces else tree
        if result is None:
            raise TreeError(line, column, "empty constituent: nothing but traces")
        if drop_function_tags:
            result = without_function_tags(result)
        if drop_preterminals:
            result = without_preterminals(result)
        yield result


def _bracketed(lines: Iterable[str]) -> Iterator[tuple[Tree, int, int]]:
    """Yield every tree with the line and column where it starts."""
    builder, start = _Builder(), (0, 0)
    line = 0
    for line, text in enumerate(lines, 1):
        for match in _TOKEN.finditer(text):
            token, column = match.group(), match.start() + 1
            if token == ")":
                builder.close(line, column)
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
        label, _, line, column = builder.open_nodes[0]
        raise TreeError(line, column, f"unclosed bracket: ({_short(label)}")


class _Builder:
    """Builds a tree from opening and closing brackets and words, and raises TreeError for ill-formed ones."""

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

    def close(self, line: int, column: int) -> None:
        if not self.open_nodes:
            raise TreeError(line, column, "extra closing bracket")
        label, children, _, _ = self.open_nodes.pop()
        if not children:
            raise TreeError(line, column, f"empty constituent: ({_short(label)}" if label else "no root")
        node = Tree(label, tuple(children)) if label else children[0]
        if not self.open_nodes:
            assert isinstance(node, Tree)
            self.done = node
        else:
            self.open_nodes[-1][1].append(node)


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
