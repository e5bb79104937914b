"""Tables that commands print."""

from __future__ import annotations

from collections.abc import Sequence


def print_table(rows: Sequence[Sequence[str]], n_names: int) -> None:
    """Print rows below one another, the first columns, which are names, from the left, all others from the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(row, widths, strict=True)
        line = "  ".join(cell.ljust(n) if k < n_names else cell.rjust(n) for k, (cell, n) in enumerate(cells))
        print(line.rstrip())


def shown(part: float | None) -> str:
    """Return a part of 1 in four digits, or a dash."""
    return "-" if part is None else f"{part:.4f}"
