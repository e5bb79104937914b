"""A picture of a tree, every constituent above its words."""

from __future__ import annotations

from dataclasses import dataclass

from accel.drawing.svg import INK, Line, Picture, Shape, Text, shortened, text_width
from refimpl.trees import ActionType, Tree, action_type, actions

LABEL, EDGE = "#4c78a8", "#999999"
_PAD, _ROW, _GAP, _SIZE = 12.0, 48.0, 14.0, 14.0


@dataclass
class _Node:
    """A label or a word: `width` is that of its text or of its children together, `middle` where its text stands."""

    text: str
    depth: int
    children: list[int]
    width: float = 0.0
    begin: float = 0.0
    middle: float = 0.0


def draw_tree(tree: Tree) -> Picture:
    """Return a picture of the tree with blue labels, each above the middle between its first and its last child.

    Edges are vertical and horizontal lines, so that no two edges coincide.
    """
    nodes = _nodes(tree)
    _place(nodes)
    shapes: list[Shape] = []
    for node in nodes:
        y = _height(node)
        if node.children:
            middles = [nodes[child].middle for child in node.children]
            bar = y + _ROW / 2
            shapes.append(Line(((node.middle, y + 10), (node.middle, bar)), EDGE))
            ends = sorted((middles[0], node.middle, middles[-1]))
            if ends[0] < ends[-1]:
                shapes.append(Line(((ends[0], bar), (ends[-1], bar)), EDGE))
            shapes += [Line(((x, bar), (x, y + _ROW - 10)), EDGE) for x in middles]
        shapes.append(Text(node.middle, y, node.text, "middle", _SIZE, LABEL if node.children else INK))
    height = max(map(_height, nodes)) + 8 + _PAD
    return Picture(nodes[0].width + 2 * _PAD, height, tuple(shapes), shortened(str(tree)))


def _height(node: _Node) -> float:
    return _PAD + 8 + _ROW * node.depth


def _nodes(tree: Tree) -> list[_Node]:
    """Return the nodes in the order in which they begin; children come after their parents."""
    nodes: list[_Node] = []
    stack: list[int] = []
    for action in actions(tree):
        node_type = action_type(action)
        if node_type == ActionType.CNT1:
            stack.pop()
            continue
        if stack:
            nodes[stack[-1]].children.append(len(nodes))
        nodes.append(_Node(action.removeprefix("("), len(stack), []))
        if node_type == ActionType.ONT:
            stack.append(len(nodes) - 1)
    return nodes


def _place(nodes: list[_Node]) -> None:
    """Set the places of all nodes: a constituent is as wide as its children together or as its label."""
    for node in reversed(nodes):
        node.width = max(text_width(node.text, _SIZE), _together(nodes, node))
    nodes[0].begin = _PAD
    for node in nodes:
        x = node.begin + (node.width - _together(nodes, node)) / 2
        for child in node.children:
            nodes[child].begin = x
            x += nodes[child].width + _GAP
    for node in reversed(nodes):
        half = text_width(node.text, _SIZE) / 2
        ends = [nodes[child].middle for child in node.children]
        middle = (ends[0] + ends[-1]) / 2 if ends else node.begin + node.width / 2
        node.middle = min(max(middle, node.begin + half), node.begin + node.width - half)


def _together(nodes: list[_Node], node: _Node) -> float:
    return sum(nodes[child].width + _GAP for child in node.children) - (_GAP if node.children else 0.0)
