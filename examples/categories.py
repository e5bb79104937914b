"""The table of COGS' categories: which kinds of sentences a model has right, and in which of them the models differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from accel.evaluation.significance import Interval
from examples.markdown import compared, spread, table, with_interval
from examples.task_results import TaskResult, values_of

PRIMITIVE = "accuracy, prim_"
"""Begins the names of the categories of a word that training has only once, by itself."""


def categories(models: Mapping[str, str], results: Sequence[TaskResult]) -> str:
    """Return a row for each category, and a column for each of two models, given by their titles.

    The last two rows are means over the categories of `PRIMITIVE`, and over the others.
    """
    measures = dict.fromkeys(measure["name"] for result in results for measure in result["measures"])
    names = [name for name in sorted(measures) if "_" in name and ", checkpoint-" not in name]
    rows = []
    for name in names:
        shares = [spread(values_of(results, model, name), 1) for model in models]
        rows.append([name.removeprefix("accuracy, ").replace("_", " "), *shares, ""])
    for title, is_primitive in (("mean of prim to ...", True), ("mean of the others", False)):
        members = [name for name in names if name.startswith(PRIMITIVE) == is_primitive]
        means = [_means(results, model, members) for model in models]
        rows.append([title, *(spread(values, 1) for values in means), difference(*means)])
    return table(("category, 1,000 sentences each", *models.values(), "difference (95 %)"), rows)


def _means(results: Sequence[TaskResult], model: str, names: Sequence[str]) -> list[float]:
    """Return the mean of these measures for every result of a model."""
    return [fmean(values) for values in zip(*(values_of(results, model, name) for name in names), strict=True)]


def difference(one: Sequence[float], other: Sequence[float]) -> str:
    """Return by how much the second mean is above the first, with Welch's interval; "" unless the values of both vary.

    >>> difference([1, 2, 3], [4, 6, 8]), difference([1], [4, 6])
    ('+4.0 (-0.2 to +8.2)', '')
    """
    test = compared(other, one)
    return with_interval(Interval(test.difference, test.low, test.high), 1) if test else ""
