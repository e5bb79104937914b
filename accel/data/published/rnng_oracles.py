"""Oracles of recurrent neural network grammars (Dyer et al., 2016): sentences with the actions that build their trees.

A sentence is a block of lines, with a blank line after it. The lines are, in this order: ``# `` and the tree; the tags
(for the discriminative model only); the words; the words in lower case (for the discriminative model only); the words
with unknown classes; the actions, one a line: ``NT(label)``, ``SHIFT`` and ``REDUCE``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import groupby
from pathlib import Path

from accel.data.files.lines import LineError, read_lines
from refimpl.trees import Tree, TreeError, tree_from_actions

_FIRST_ACTION = {"generative": 3, "discriminative": 5}  # the place of the first action in a block
_WORDS = {"generative": 1, "discriminative": 2}


def read_oracle(path: str | Path, *, raw: bool = False) -> Iterator[Tree]:
    """Yield the trees of an oracle, over the words with unknown classes or, if `raw`, over the words as they are.

    Raises
    ------
    LineError
        At the line of a block that does not begin with ``#``, of an action that does not fit, or of a block that has
        more words than its actions shift, or whose actions are no tree; as `read_lines` does.
    """
    with closing(read_lines(path)) as numbered_lines:
        for is_text, block in groupby(numbered_lines, key=lambda line: bool(line[1].strip())):
            if is_text:
                lines = list(block)
                yield _tree(path, lines[0][0], [line for _, line in lines], raw)


def _tree(path: str | Path, first: int, block: Sequence[str], raw: bool) -> Tree:
    kinds = [kind for kind, place in _FIRST_ACTION.items() if block[place : place + 1] and block[place][:3] == "NT("]
    if not block[0].startswith("#") or not kinds:
        raise LineError(path, first, "not a block of an oracle: # and the tree, lines of words, actions from NT( on")
    begin = _FIRST_ACTION[kinds[0]]
    words = block[_WORDS[kinds[0]] if raw else begin - 1].split()
    labels, actions, n_shifted = list[str](), list[str](), 0
    for number, action in enumerate(block[begin:], first + begin):
        if action.startswith("NT(") and action.endswith(")"):
            labels.append(action[3:-1])
            actions.append(f"({labels[-1]}")
        elif action == "SHIFT" and n_shifted < len(words):
            actions.append(words[n_shifted])
            n_shifted += 1
        elif action == "REDUCE" and labels:
            actions.append(f"{labels.pop()})")
        else:
            raise LineError(path, number, f"{action!r} fits no tree over {len(words)} words here")
    if n_shifted < len(words):
        raise LineError(path, first, f"{len(words)} words, of which the actions shift {n_shifted}")
    try:
        return tree_from_actions(actions)
    except TreeError as error:
        raise LineError(path, first + begin + max(error.column - 1, 0), error.reason) from error
