"""The table of GLUE: its cells, its averages, and the averages of GPST's Table 1."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.data.published.glue import SETS
from accel.evaluation.glue import TABLES, average, cell
from accel.tasks.glue import METRICS, PARTS

SHARES = st.lists(st.floats(0, 1), min_size=1, max_size=9)
TABLE_1 = """
    88.11 27.75 80.80 85.37 83.71 53.91 75.85 75.77 71.41
    88.11 29.09 81.16 84.98 84.62 53.19 75.87 75.88 71.61
    88.07 29.24 80.98 85.08 84.05 52.71 76.47 76.36 71.62
    88.34 28.41 81.21 85.33 85.08 56.08 76.60 76.46 72.19
    90.71 40.53 83.20 86.55 85.60 58.72 79.53 79.75 75.57
    91.28 44.07 83.99 86.75 85.94 58.84 79.46 79.82 76.27
    90.94 44.51 84.72 86.70 86.91 64.98 79.60 80.15 77.31
    91.10 47.55 83.68 87.17 86.64 61.49 81.35 81.05 77.50
    91.55 46.81 83.43 87.27 86.99 59.92 81.19 80.78 77.24
    91.97 50.79 85.69 87.36 87.60 64.86 81.80 82.01 79.01
"""


def test_the_averages_of_table_1() -> None:
    """GLUE-2: all ten printed averages are the means of the eight columns, up to rounding."""
    for line in TABLE_1.split("\n")[1:-1]:
        *figures, paper_average = map(float, line.split())
        assert len(figures) == len(TABLES["gpst"].columns)
        assert average(figures) == pytest.approx(paper_average, abs=0.0101)


@given(SHARES)
def test_cells(figures: list[float]) -> None:
    """GLUE-1 L1 and L2; mean and deviation are those of Python's `statistics`."""
    seeds, mean, deviation = cell(figures)
    assert seeds == len(figures) and mean == pytest.approx(statistics.mean(figures))
    assert cell(figures[::-1]) == pytest.approx(cell(figures))
    if seeds == 1:
        assert mean == figures[0] and deviation is None
    else:
        assert deviation == pytest.approx(statistics.stdev(figures), abs=1e-12)


@given(SHARES)
def test_averages(figures: list[float]) -> None:
    """GLUE-2 L1 and L2."""
    assert average(figures, [str(k) for k in range(len(figures))]) == average(figures)
    sets = [str(k % 3) for k in range(len(figures))]
    assert min(figures) - 1e-12 <= average(figures, sets) <= max(figures) + 1e-12
    assert average(figures, ["one"] * len(figures)) == pytest.approx(average(figures))


def test_every_figure_of_a_table_is_one_of_the_task() -> None:
    every = {(name, metric, part) for name in SETS for metric in METRICS[name] for part in PARTS.get(name, ("",))}
    of_table = {name: {column[1:] for column in table.columns} for name, table in TABLES.items()}
    assert of_table["glue"] == every and of_table["gpst"] < every and of_table["treeformer"] < every


def test_columns_stand_as_the_papers_print_them() -> None:
    """GPST prints F1 for MRPC and QQP; Treeformer prints accuracy and F1 for MRPC, 88.9 / 92.0."""
    columns = {name: [" ".join(filter(None, column[1:])) for column in table.columns] for name, table in TABLES.items()}
    mnli = ["mnli accuracy matched", "mnli accuracy mismatched"]
    assert columns["gpst"] == [
        "sst2 accuracy", "cola matthews", "mrpc f1", "qqp f1", "qnli accuracy", "rte accuracy", *mnli
    ]  # fmt: skip
    assert columns["treeformer"] == [
        "cola matthews", *mnli, "mrpc accuracy", "mrpc f1", "sst2 accuracy", "stsb pearson", "stsb spearman"
    ]  # fmt: skip
    for column in TABLES["glue"].columns:
        assert column.head.endswith(" F1") == (column.metric == "f1")
    assert (TABLES["gpst"].by_set, TABLES["treeformer"].by_set) == (False, True)
