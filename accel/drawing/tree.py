"""A picture of a tree, every constituent above its words."""

from __future__ import annotations

from accel.drawing.svg import INK, Line, Picture, Shape, Text, shortened, text_width
from refimpl.trees import ActionType, Tree, action_type, actions

LABEL = "#4c78a8"
_PAD = 12.0


def draw_tree(tree: Tree) -> Picture:
    """Return the tree with blue labels; a constituent is as wide as its children together or as its label."""
    row, gap, size = 44.0, 14.0, 14.0
    sequence = [(action, action_type(action)) for action in actions(tree)]
    widths: list[float] = []  # of every node, in the order in which they begin
    inner: list[float] = []  # of its children together
    opened: list[int] = []
    for action, node_type in sequence:
        node = opened.pop() if node_type == ActionType.CNT1 else len(widths)
        if node_type == ActionType.CNT1:
            widths[node] = max(widths[node], inner[node])
        else:
            widths.append(text_width(action.removeprefix("("), size))
            inner.append(0.0)
        if node_type == ActionType.ONT:
            opened.append(node)
        elif opened:
            inner[opened[-1]] += widths[node] + (gap if inner[opened[-1]] else 0.0)
    shapes: list[Shape] = []
    parents: list[float] = []  # the middles of the open nodes
    begins = [_PAD]  # where the next child of each of them begins
    node = deepest = 0
    for action, node_type in sequence:
        if node_type == ActionType.CNT1:
            parents.pop()
            begins.pop()
            continue
        begin, middle, y = begins[-1], begins[-1] + widths[node] / 2, _PAD + 8 + row * len(parents)
        shapes.append(
            Text(middle, y, action.removeprefix("("), "middle", size, LABEL if node_type == ActionType.ONT else INK)
        )
        if parents:
            shapes.append(Line(((parents[-1], y - row + 10), (middle, y - 10)), "#999999"))
        begins[-1] += widths[node] + gap
        if node_type == ActionType.ONT:
            parents.append(middle)
            begins.append(begin + (widths[node] - inner[node]) / 2)
        deepest = max(deepest, len(parents))
        node += 1
    return Picture(widths[0] + 2 * _PAD, _PAD * 2 + 16 + row * deepest, tuple(shapes), shortened(str(tree)))
