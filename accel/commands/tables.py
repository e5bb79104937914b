"""Tables that commands print."""

from __future__ import annotations

from collections.abc import Sequence


def print_table(rows: Sequence[Sequence[str]], n_names: int) -> None:
    """Print rows as a table: the first `n_names` columns flush left, all others flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(row, widths, strict=True)
        line = "  ".join(cell.ljust(n) if k < n_names else cell.rjust(n) for k, (cell, n) in enumerate(cells))
        print(line.rstrip())


def shown(part: float | None) -> str:
    """Return a share with four digits, or a dash for None."""
    return "-" if part is None else f"{part:.4f}"
