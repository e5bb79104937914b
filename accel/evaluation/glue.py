"""Tables of figures of GLUE: their columns, means over seeds, and averages (GPST, Table 1; Treeformer, Table 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Column(NamedTuple):
    """A column: its heading, the name of the set, the metric, and which development file of the set is measured."""

    head: str
    name: str
    metric: str
    part: str = ""


class Table(NamedTuple):
    """The columns of a table, and whether the average counts every set once, not every column."""

    columns: tuple[Column, ...]
    by_set: bool


class Cell(NamedTuple):
    """The figures of a column over seeds: how many, their mean, and their standard deviation (None for one seed)."""

    seeds: int
    mean: float
    deviation: float | None


_COLA = Column("CoLA", "cola", "matthews")
_SST2 = Column("SST-2", "sst2", "accuracy")
_MRPC = (Column("MRPC F1", "mrpc", "f1"), Column("MRPC", "mrpc", "accuracy"))
_QQP = (Column("QQP F1", "qqp", "f1"), Column("QQP", "qqp", "accuracy"))
_STSB = (Column("STS-B r", "stsb", "pearson"), Column("STS-B rho", "stsb", "spearman"))
_MNLI = (Column("MNLI m", "mnli", "accuracy", "matched"), Column("MNLI mm", "mnli", "accuracy", "mismatched"))
_OF_TWO = (Column("QNLI", "qnli", "accuracy"), Column("RTE", "rte", "accuracy"))

TABLES = {
    "gpst": Table((_SST2, _COLA, _MRPC[0], _QQP[0], *_OF_TWO, *_MNLI), by_set=False),
    "treeformer": Table((_COLA, *_MNLI, *reversed(_MRPC), _SST2, *_STSB), by_set=True),
    "glue": Table((_COLA, _SST2, *_MRPC, *_STSB, *_QQP, *_MNLI, *_OF_TWO), by_set=True),
}
"""The tables by name; "glue" has every figure."""


def cell(figures: Sequence[float]) -> Cell:
    r"""Return the cell of the figures of one or more seeds.

    Spec: GLUE-1.  $f_c = \frac1n \sum_s f_{c,s}$, $d_c$ their standard deviation

    Raises ValueError for no figure.

    >>> cell([0.25, 0.5, 0.75]), cell([0.5])
    (Cell(seeds=3, mean=0.5, deviation=0.25), Cell(seeds=1, mean=0.5, deviation=None))
    """
    if not figures:
        raise ValueError("figures: there are none; give one or more")
    deviation = float(np.std(figures, ddof=1)) if len(figures) > 1 else None
    return Cell(len(figures), float(np.mean(figures)), deviation)


def average(figures: Sequence[float], sets: Sequence[str] | None = None) -> float:
    r"""Return the mean of the figures; or of the sets' means, where `sets` names the set of every figure.

    Spec: GLUE-2.  $\frac1C \sum_c f_c$

    Raises ValueError for no figure.

    >>> average([0.5, 0.25, 0.75]), average([0.5, 0.0, 0.5], ["cola", "mnli", "mnli"])
    (0.5, 0.375)
    """
    if not figures:
        raise ValueError("figures: there are none; give one or more")
    by_set: dict[object, list[float]] = {}
    for number, value in enumerate(figures):
        by_set.setdefault(number if sets is None else sets[number], []).append(value)
    return float(np.mean([np.mean(values) for values in by_set.values()]))
