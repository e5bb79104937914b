"""COGS' categories: a row for each, and the means over those of a word that training has once, and over the others."""

from __future__ import annotations

from examples.categories import categories
from examples.task_results import TaskResult


def of_model(model: str, prim: float, subj: float) -> TaskResult:
    values = {"accuracy, gen": 1, "accuracy, prim_a": prim, "accuracy, prim_b": prim + 2, "accuracy, subj_c": subj,
              "accuracy, subj_c, checkpoint-00000002": 9}  # fmt: skip
    return {"model": model, "measures": [{"name": name, "unit": "%", "value": x} for name, x in values.items()]}


def test_means_over_two_groups() -> None:
    old = [of_model("old", value, 50) for value in (0, 1, 2)]
    new = [of_model("new", value, 40) for value in (3, 5, 7)]
    assert categories({"old": "Old", "new": "New"}, [*old, *new]).splitlines() == [
        "| category, 1,000 sentences each | Old | New | difference (95 %) |",
        "|---|---:|---:|---:|",
        "| prim a | 1.0 ± 1.0 | 5.0 ± 2.0 |  |",
        "| prim b | 3.0 ± 1.0 | 7.0 ± 2.0 |  |",
        "| subj c | 50.0 ± 0.0 | 40.0 ± 0.0 |  |",
        "| mean of prim to ... | 2.0 ± 1.0 | 6.0 ± 2.0 | +4.0 (-0.2 to +8.2) |",
        "| mean of the others | 50.0 ± 0.0 | 40.0 ± 0.0 |  |",
    ]
