"""Trees in Penn Treebank brackets, read from lines of text; their part-of-speech tags, function tags and traces.

Nothing here recurses, so a tree may be 100,000 levels deep.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from typing import NamedTuple

from refimpl.trees import START, ActionType, Tree, TreeError, action_type, actions

_WORD = r"[^ \t\r\n\f\v()]+"
_TOKEN = re.compile(
    rf"\(({_WORD})[ \t]+({_WORD})[ \t]*\)|(\((?:{_WORD})?|\)|{_WORD})"
)  # a tag and its word; or else a bracket, with or without a label, or a word
NOTHING_LEFT = "empty constituent: nothing but traces"


class Read(NamedTuple):
    """A tree, the line and column where it starts, and whether every word has a part-of-speech tag of its own."""

    tree: Tree
    line: int
    column: int
    is_tagged: bool


def read_trees(
    lines: Iterable[str],
    *,
    drop_traces: bool = False,
    drop_function_tags: bool = False,
    drop_preterminals: bool = False,
) -> Iterator[Tree]:
    """Yield the bracketed trees in lines of text.

    Spec: TREE-4.  The three switches change every tree as the functions without_... below do (TREE-6).

    Raises TreeError at the line and column (from 1) of the offending token.

    >>> list(read_trees(["( (S (NP-SBJ (DT the) (NN bird))", "     (VP sings)) ) (X y)"], drop_function_tags=True))
    [Tree('(S (NP (DT the) (NN bird)) (VP sings))'), Tree('(X y)')]
    """
    brackets = Brackets(drop_traces, drop_function_tags, drop_preterminals)
    for number, line in enumerate(lines, 1):
        for entry in brackets.read(number, line):
            yield entry.tree
    brackets.end()


class Brackets:
    """A reader of trees, which gets the lines one after another; all errors are TreeErrors. Spec: TREE-4, TREE-6.

    >>> brackets = Brackets()
    >>> [read.tree for read in brackets.read(1, "(X y) (S (NP bird)")], brackets.is_open
    ([Tree('(X y)')], True)
    >>> [(read.tree, read.line, read.column) for read in brackets.read(2, "(VP sings))")]
    [(Tree('(S (NP bird) (VP sings))'), 1, 7)]
    """

    def __init__(
        self, drop_traces: bool = False, drop_function_tags: bool = False, drop_preterminals: bool = False
    ) -> None:
        self._drops = drop_traces, drop_function_tags, drop_preterminals
        self._opened: list[_Open] = []
        self._first: tuple[int, str, int] = (0, "", 0)  # line, text and number of the token where the tree starts
        self._is_tagged = True

    @property
    def is_open(self) -> bool:
        """Whether the last line has ended within a tree."""
        return bool(self._opened)

    def read(self, line: int, text: str) -> Iterator[Read]:
        """Yield the trees that end in the text of a line."""
        return self._build(_TOKEN.findall(text), line, text)

    def end(self) -> None:
        """Raise TreeError if a tree has no end."""
        if self._opened:
            raise TreeError(*self._start(), f"unclosed bracket: ({_short(self._opened[0].label)}")

    def _build(self, tokens: Iterable[tuple[str, str, str]], line: int = 0, text: str = "") -> Iterator[Read]:
        """Yield the trees that are complete after these tokens.

        A token is (tag, word, ""), ("", word, "") or ("", "", bracket or word).
        """
        stack, (drop_traces, drop_function_tags, drop_tags) = self._opened, self._drops
        for number, (tag, word, token) in enumerate(tokens):
            if tag and word != START and stack and stack[-1].label:  # the same as three tokens, in one step
                parent = stack[-1]
                if drop_traces and tag == "-NONE-":
                    parent.has_lost = True
                elif drop_tags:
                    parent.children.append(word)
                else:
                    parent.children.append(Tree(cut_label(tag) if drop_function_tags else tag, (word,)))
                continue
            tree = None
            if tag:
                self._open(tag, line, text, number)
                self._word(word, line, text, number)
                tree = self._close(line, text, number)
            elif token == ")":
                tree = self._close(line, text, number)
            elif token.startswith("("):
                self._open(token[1:], line, text, number)
            else:
                self._word(token or word, line, text, number)
            if tree is not None:
                yield Read(tree, *self._start(), self._is_tagged)

    def _open(self, label: str, line: int, text: str, number: int) -> None:
        stack = self._opened
        if not stack:
            self._first, self._is_tagged = (line, text, number), True
        elif stack[-1].children and not stack[-1].label:
            raise _error(line, text, number, f"two roots in one tree: ({_short(label)}")
        elif not label:
            raise _error(line, text, number, "empty label: write one after the bracket, such as (-LRB- -LRB-)")
        stack.append(_Open(label))

    def _word(self, word: str, line: int, text: str, number: int) -> None:
        if not self._opened or not self._opened[-1].label:
            raise _error(line, text, number, f"terminal outside the root: {_short(word)}")
        if word == START:
            raise _error(line, text, number, f"{START} begins the actions of every tree, and is no word: write another")
        self._opened[-1].children.append(word)
        self._opened[-1].n_bare += 1

    def _close(self, line: int, text: str, number: int) -> Tree | None:
        """Close the last constituent; return the tree if it is the root."""
        stack, (drop_traces, drop_function_tags, drop_tags) = self._opened, self._drops
        if not stack:
            raise _error(line, text, number, "extra closing bracket")
        node = stack.pop()
        label, children = node.label, node.children
        if not children and not node.has_lost:
            raise _error(line, text, number, f"empty constituent: ({_short(label)}" if label else "no root")
        if drop_traces and (not children or label == "-NONE-"):
            if not stack:
                raise TreeError(*self._start(), NOTHING_LEFT)
            stack[-1].has_lost = True
            return None
        is_tag = node.n_bare == len(children) == 1
        self._is_tagged = self._is_tagged and (is_tag or not node.n_bare)
        if is_tag and drop_tags and stack and stack[-1].label:
            stack[-1].children.append(children[0])
            return None
        tree = Tree(cut_label(label) if drop_function_tags else label, tuple(children)) if label else children[0]
        if stack:
            stack[-1].children.append(tree)
            return None
        assert isinstance(tree, Tree)
        return tree

    def _start(self) -> tuple[int, int]:
        line, text, number = self._first
        return line, _column(text, number) if text else 0


class _Open:
    """A constituent that is open: its label and children, the number of words that stood directly in its bracket, and
    whether a trace was dropped from it."""

    __slots__ = ("label", "children", "n_bare", "has_lost")

    def __init__(self, label: str) -> None:
        self.label, self.n_bare, self.has_lost = label, 0, False
        self.children: list[Tree | str] = []


def _error(line: int, text: str, number: int, reason: str) -> TreeError:
    return TreeError(line, _column(text, number), reason)


def _column(text: str, number: int) -> int:
    """Return the column (from 1) of token `number` (from 0)."""
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

    Spec: TREE-6.  Apply it only once: without its tags, ``(VP sings)`` looks like a tag itself.

    >>> without_preterminals(Tree("NP", (Tree("DT", ("the",)), Tree("NN", ("bird",)))))
    Tree('(NP the bird)')
    """
    result = _changed(tree, Brackets(drop_preterminals=True))
    assert result is not None
    return result


def without_traces(tree: Tree) -> Tree | None:
    """Return the tree without ``(-NONE- ...)`` and the constituents that this empties; None if nothing remains.

    Spec: TREE-6.

    >>> without_traces(Tree("S", (Tree("NP", (Tree("-NONE-", ("*T*-1",)),)), Tree("VP", ("sings",)))))
    Tree('(S (VP sings))')
    """
    return _changed(tree, Brackets(drop_traces=True))


def without_function_tags(tree: Tree) -> Tree:
    """Return the tree with labels cut at the first ``-``, ``=`` or ``#`` that is not their first character.

    Spec: TREE-6.  Labels such as ``-LRB-``, ``-NONE-`` and ``#`` stay.

    >>> without_function_tags(Tree("NP-SBJ-1", (Tree("-LRB-", ("-LRB-",)), "bird")))
    Tree('(NP (-LRB- -LRB-) bird)')
    """
    result = _changed(tree, Brackets(drop_function_tags=True))
    assert result is not None
    return result


def _changed(tree: Tree, brackets: Brackets) -> Tree | None:
    """Return a tree as `brackets` reads it, without what it drops; None if nothing is left."""
    tokens = {
        ActionType.ONT: lambda action: ("", "", action),
        ActionType.T: lambda action: ("", action, ""),
        ActionType.CNT1: lambda action: ("", "", ")"),
    }
    try:
        return next(brackets._build(tokens[action_type(action)](action) for action in actions(tree))).tree
    except TreeError:
        return None


@cache
def cut_label(label: str) -> str:
    """Return a label without its function tags, as `without_function_tags` cuts it. Spec: TREE-6.

    >>> cut_label("NP-SBJ-1"), cut_label("-LRB-")
    ('NP', '-LRB-')
    """
    return label if label.startswith("-") else re.split("[-=#]", label)[0] or label
