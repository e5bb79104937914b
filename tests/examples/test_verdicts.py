"""What NOT_REPRODUCED.md says: the rule of its verdicts, the orders of the papers, and where its figures stand."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from examples.claims import CLAIMS, Claim
from examples.result_files import ESTIMATED, values_of
from examples.results import PAGES
from examples.task_results import FIELDS, TaskResult
from examples.task_tables import TASKS
from examples.verdicts import decided, judge, verdicts
from tests.house.spec_pages import section, stands_in

ROOT = Path(__file__).parents[2]
RESULTS, PAGE = PAGES


@pytest.mark.parametrize(
    ("better", "worse", "verdict"),
    [
        ([6.0, 8.0], [1.0, 3.0], "open"),  # by hand: 5 +- 6.08
        ([7.1, 9.1], [1.0, 3.0], "confirmed"),  # 6.1 +- 6.08
        ([1.0, 3.0], [7.1, 9.1], "refuted"),
        ([1.0, 3.0], [7.0], "open: one seed, no interval"),
        ([1.0, 3.0], [7.0, 7.0], "open: equal values, no interval"),
    ],
)
def test_a_verdict_needs_an_interval_on_one_side_of_0(better: list[float], worse: list[float], verdict: str) -> None:
    assert judge(better, worse)[1] == verdict
    assert judge(worse, better, lower=True)[1] == verdict
    assert judge([7.1, 9.1], [1.0, 3.0])[0] == "+6.10 (+0.02 to +12.18)"


def of_task(task: str, model: str, values: list[float], measure: str = "accuracy, 10", **more: Any) -> list[TaskResult]:
    measures = [[{"name": measure, "unit": "%", "value": value}] for value in values]
    fields = dict.fromkeys(FIELDS) | {"task": task, "model": model, "steps": 9} | more
    return [fields | {"seed": seed, "measures": of_seed} for seed, of_seed in enumerate(measures)]


def test_a_model_is_compared_with_trees_that_need_no_training() -> None:
    """The deviation of the three differences is 1; Student's quantile of two degrees of freedom is 4.303."""
    task, measure = "fasttrees/language_model_10_epochs", "F1, WSJ, layer 2"
    results = of_task(task, "on_lstm", [43.0, 44.0, 45.0], still_improving=True)
    for result in results:
        result["measures"] = [result["measures"][0] | {"name": measure}, {"name": "F1, WSJ, right", "value": 40.0}]
    rows = [cells(row) for row in verdicts("fasttrees", [], results).splitlines() if "right-branching" in row]
    assert rows[2] == ["Table 7, WSJ", "ON-LSTM before right-branching trees", "language_model_10_epochs",
                       "+4.00 (+1.52 to +6.48)", "3", "9", "3 of 3", "confirmed so far"]  # fmt: skip
    assert [row[-1] for row in rows] == ["not run", "not run", "confirmed so far", "not run"]


def cells(row: str) -> list[str]:
    return row.strip("| ").split(" | ")


def rows_at(place: str, results: list[TaskResult]) -> list[list[str]]:
    rows = map(cells, verdicts("fasttrees", [], results).splitlines())
    return [row for row in rows if row[0] == place]


def test_the_first_training_that_both_models_have_counts() -> None:
    """That of ten epochs is the first one; with it alone, one model has a result."""
    few, many = (f"fasttrees/language_model_{n}_epochs" for n in (10, 25))
    longer = [*of_task(many, "on_lstm", [50.0, 51.0, 52.0], "perplexity", still_improving=True),
              *of_task(many, "fasttrees", [60.0, 61.0, 62.0], "perplexity", still_improving=True)]  # fmt: skip
    first = of_task(few, "on_lstm", [80.0], "perplexity", steps=50)
    row, without, *_ = rows_at("Table 1", [*longer, *first])
    assert row[1:4] == ["ON-LSTM before FastTrees", "language_model_25_epochs", "-10.00 (-12.27 to -7.73)"]
    assert row[4:] == ["3", "9", "6 of 6", "confirmed so far"]
    assert without[-1] == "not run" and "Conv. FastTrees" in without[1]
    row, *_ = rows_at("Table 1", [*longer, *first, *of_task(few, "fasttrees", [81.0, 82.0], "perplexity")])
    assert row[2:] == ["language_model_10_epochs", "-1.50", "1, 2", "9 to 50", "", "open: one seed, no interval"]


def test_open_claims_are_left_out_of_those_decided() -> None:
    results = [*of_task("fasttrees/logic_published", "conv_fasttrees", [60.0, 61.0, 62.0]),
               *of_task("fasttrees/logic_published", "fasttrees", [50.0, 51.0, 52.0]),
               *of_task("fasttrees/logic_published", "on_lstm", [59.0, 60.5, 62.5])]  # fmt: skip
    _, _, *rows = map(cells, decided([], results).splitlines())
    assert rows and {(row[0], row[2], row[-1]) for row in rows} == {
        ("FastTrees", "Conv. FastTrees before FastTrees", "confirmed")
    }


def test_a_verdict_is_softened_if_most_models_still_improve() -> None:
    task = "fasttrees/logic_published"
    results = [*of_task(task, "conv_fasttrees", [50.0, 51.0, 52.0], still_improving=True),
               *of_task(task, "fasttrees", [60.0, 61.0, 62.0], still_improving=False)]  # fmt: skip
    row, _ = rows_at("Table 2, 10 operators", results)
    assert row[-2:] == ["3 of 6", "refuted"]
    results[-1] |= {"still_improving": True}
    row, _ = rows_at("Table 2, 10 operators", results)
    assert row[-2:] == ["4 of 6", "refuted so far"]


def grammar(model: str, seed: int, perplexity: float, f1: float | None = None) -> dict[str, Any]:
    scores = {"value": perplexity, "is_bound": f1 is not None}
    return {
        "experiment": "toy", "model": model, "seed": seed, "perplexity": scores, "settings": {"steps": 5},
        "validation": [[1, 2.0], [2, 1.0 + (model == "tg")], [3, 1.5]],
    } | ({} if f1 is None else {"rerank": {"f1": f1}})  # fmt: skip


def test_a_bound_above_an_exact_value_shows_nothing() -> None:
    seeds = ((0, 0.0), (1, 0.1), (2, 0.2))
    results = [grammar("tg", seed, 20 + more, 80 + more) for seed, more in seeds]
    results += [grammar("txl_cc", seed, 30 + more, 70 + more) for seed, more in seeds]
    results += [grammar("txl_terminals", seed, 25 + more) for seed, more in seeds]
    rows = [cells(line) for line in verdicts("transformer_grammars", results, []).splitlines()[2:]]
    assert {(row[0], row[1]): row[-1] for row in rows} == {
        ("Table 1, perplexity", "TXL (CC) before TG"): "refuted",
        ("Table 1, perplexity", "TXL (CC) before TXL (terminals)"): "open: a bound",
        ("Table 1, perplexity", "TG before TXL (terminals)"): "confirmed",
        ("Table 1, F1", "TG before TXL (CC)"): "confirmed",
    }
    assert [row[6] for row in rows] == ["3 of 6", "0 of 6", "3 of 6", "3 of 6"]  # TG is best at its last step


def test_variants_are_compared_on_the_validation_set() -> None:
    """Table 2 has the perplexities of TG and its variants alone."""
    seeds = ((0, 0.0), (1, 0.1), (2, 0.2))
    results = [grammar(model, seed, value + more, 80 + more) | {"split": "valid"}
               for model, value in (("tg", 20), ("tg_linear", 19), ("txl_cc", 30)) for seed, more in seeds]  # fmt: skip
    rows = [cells(line) for line in verdicts("transformer_grammars", results, []).splitlines()[2:]]
    difference = "+1.00 (+0.77 to +1.23)"
    assert [row[:4] + row[-1:] for row in rows] == [
        ["Table 2, perplexity", "TG before TG (TXL mem. & rel. pos.)", "toy, valid", difference, "refuted"]
    ]


@pytest.mark.parametrize(
    ("exact", "verdict"),
    [((25, 25.1, 25.2), "open: a sum over some trees"), ((25, 26, 40), "open"), ((35, 35.1, 35.2), "refuted")],
)
def test_a_sum_over_some_trees_of_a_document_shows_nothing(exact: tuple[float, ...], verdict: str) -> None:
    """Words of documents need no trees in TXL (terminals); a value of TG below its exact one is decided."""
    results = [grammar("tg", seed, 33.0 + 0.1 * seed) for seed in range(3)]
    results += [grammar("txl_terminals", seed, value) for seed, value in enumerate(exact)]
    for result in results:
        result["perplexity"]["documents"] = 2
    [row] = (cells(line) for line in verdicts("transformer_grammars", results, []).splitlines()[2:])
    assert (row[0], row[1], row[-1]) == ("Table 1, documents", "TXL (terminals) before TG", verdict)


def test_an_estimate_above_an_exact_value_shows_nothing() -> None:
    """An estimate is too high if the draws miss trees that are probable by the model."""
    seeds = ((0, 0.0), (1, 0.1), (2, 0.2))
    results = [grammar("tg", seed, 30 + more, 80) for seed, more in seeds]
    for (_, more), result in zip(seeds, results, strict=True):
        result["perplexity"]["estimate"] = {"value": 27 + more, "error": 0.1}
    results += [grammar("txl_terminals", seed, 25 + more) for seed, more in seeds]
    rows = [cells(line) for line in verdicts("transformer_grammars", results, []).splitlines()[2:]]
    assert [(row[0], row[3], row[-1]) for row in rows] == [
        ("Table 1, perplexity", "+5.00 (+4.77 to +5.23)", "open: a bound"),
        ("Table 1, perplexity, estimated", "+2.00 (+1.77 to +2.23)", "open: an estimate, which may be too high"),
    ]
    assert values_of(results, ESTIMATED) == {"tg": [27.0, 27.1, 27.2], "txl_terminals": [25.0, 25.1, 25.2]}
    assert values_of(results[3:], ESTIMATED) == {}  # no model has an estimate


def test_items_of_syntaxgym_decide_over_one_seed() -> None:
    """In two suites of 40 items, TG has 3 / 4 and all right, TXL (CC) half; items that either skips do not count."""
    answers = {"tg": ("1110" * 10, "-111" * 10), "txl_cc": ("1010" * 10, "10-0" * 10)}
    suites = {model: {"mean": 0.5, "answers": dict(zip(("npi", "cleft"), of, strict=True))}
              for model, of in answers.items()}  # fmt: skip
    results = [grammar(model, 0, 9.0) | {"syntaxgym": suites[model]} for model in answers]
    [row] = (cells(line) for line in verdicts("transformer_grammars", results, []).splitlines() if "SG" in line)
    assert row[1] == "TG before TXL (CC)" and row[-1] == "one seed: confirmed"
    assert row[3].startswith("+62.50 (")  # the mean of 25 and 100
    with_seed_1 = [*results, results[0] | {"seed": 1}]
    [row] = (cells(line) for line in verdicts("transformer_grammars", with_seed_1, []).splitlines() if "SG" in line)
    assert row[4:5] + row[-1:] == ["2, 1", "one seed: confirmed so far"]
    del results[0]["syntaxgym"]["answers"]
    [row] = (cells(line) for line in verdicts("transformer_grammars", results, []).splitlines() if "SG" in line)
    assert row[-1] == "open: one seed, no interval"


WITHOUT_FIGURES = {
    ("Table 1", "treeformer"), ("Table 3, SST-2", "albert_treeformer"),
    *((f"Figure 4, encoder layers: {n}", f"{chart}-{n}-10") for n in (1, 2)
      for chart in ("treeformer", "treeformer_released")),
}  # fmt: skip
"""Claims whose figures the tables of `examples.task_tables` do not have: the place and the better model."""


def figures_of_paper(claim: Claim) -> list[tuple[float, float]]:
    """Return the paper's figures of both models in every task; over several lengths of formulas the means."""
    kind, _, lengths = claim.measure.partition(", ")
    first, separator, last = lengths.partition(" to ")
    names = [f"{kind}, {n}" for n in range(int(first), int(last) + 1)] if separator else [claim.measure]
    pairs = []
    for task in (TASKS[task] for task in claim.tasks if task in TASKS):
        rows = [dict(zip(task.measures, task.paper.get(model, "").split(", "), strict=False))
                for model in (claim.better, claim.worse)]  # fmt: skip
        if all(row.get(name) for row in rows for name in names):
            better, worse = (fmean(float(row[name]) for name in names) for row in rows)
            pairs.append((better, worse))
    return pairs


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim.place}, {claim.better}, {claim.worse}")
def test_a_claim_has_the_order_of_the_papers_figures(claim: Claim) -> None:
    pairs = figures_of_paper(claim)
    assert (not pairs) == (bool(claim.constant) or (claim.place, claim.better) in WITHOUT_FIGURES)
    assert all((better < worse) if claim.lower else (better > worse) for better, worse in pairs)


def test_a_claim_has_a_row_on_the_table_of_its_paper_alone() -> None:
    rows = {paper: verdicts(paper, [], []).splitlines()[2:] for paper in ("fasttrees", "treeformer")}
    orders = {paper: [tuple(cells(row)[:2]) for row in rows[paper]] for paper in rows}
    assert ("Table 7, WSJ", "ON-LSTM before FastTrees") in orders["fasttrees"]
    assert ("Table 4, CoGnition", "Treeformer, released chart before Transformer") in orders["treeformer"]
    assert len({order for paper in orders.values() for order in paper}) == sum(map(len, rows.values())) == len(CLAIMS)


def by_hand(text: str) -> str:
    """Return the text outside of generated tables, which stand between two comments."""
    return re.sub(r"<!-- table [^>]*-->.*?<!-- end -->", "", text, flags=re.DOTALL)


def test_figures_stand_where_their_row_links_to() -> None:
    rows = [line for line in by_hand(PAGE.read_text(encoding="utf-8")).splitlines() if line.startswith("| ")]
    assert len(rows) > 40
    for row in rows:
        links = re.findall(r"\]\(([^)#]+)#?([^)]*)\)", row)
        texts = [section(PAGE.parent / name, anchor) for name, anchor in links]
        here = "|".join(row.split("|")[3:5])  # the columns before are the paper's
        for figure in re.findall(r"\d+\.\d+", re.sub(r"\]\([^)]*\)|Section \d\.\d", "", here)):
            if figure != "0.05":
                assert any(stands_in(figure, text) for text in texts), f"{figure}: {row}"


def test_the_page_is_linked() -> None:
    top = RESULTS.read_text(encoding="utf-8").partition("\n## ")[0]
    assert f"]({PAGE.name})" in top
    assert (
        "](examples/NOT_REPRODUCED.md)" in (ROOT / "README.md").read_text(encoding="utf-8").partition("## The map")[2]
    )


def test_two_single_models_have_an_interval_over_the_examples() -> None:
    """40 of 100 pairs differ, 30 for one model: 1.96 * 10 * sqrt((40 - 20 * 20 / 100) / 99) = 11.8 to each side."""
    answers = {"conv_fasttrees": "f" * 10 + "0" * 15, "fasttrees": "8" * 10 + "8" * 10 + "0" * 5}
    equal = {str(length): {"pairs": 100, "right": ("f" if length < 10 else "0") * 25 + "0"} for length in range(7, 13)}
    results = [result for model, right in answers.items()
               for result in of_task("fasttrees/logic_published", model, [0.0],
                                     answers=equal | {"10": {"pairs": 100, "right": right + "0"}})]  # fmt: skip
    row, _ = rows_at("Table 2, 10 operators", results)
    assert (row[3], row[-1]) == ("+20.00 (+8.18 to +31.82)", "one seed: confirmed")
    row, _ = rows_at("Table 2, 10 operators", [result | {"still_improving": True} for result in results])
    assert row[-2:] == ["2 of 2", "one seed: confirmed so far"]
    row, _ = rows_at("Table 2, 10 to 12 operators", results)
    # 300 pairs, of which the same differ: sqrt((40 - 20 * 20 / 300) / 299)
    assert (row[3], row[-1]) == ("+6.67 (+2.60 to +10.74)", "one seed: confirmed")
    assert rows_at("Table 2, 7 to 12 operators", results)[1][3] == "+3.33 (+1.28 to +5.38)"
    with_seed_1 = [*results, results[0] | {"seed": 1, "answers": results[1]["answers"]}]
    row, _ = rows_at("Table 2, 10 operators", with_seed_1)
    assert row[3:5] + row[-1:] == ["+10.00 (+0.00 to +31.82)", "2, 1", "one seed: open"]
    row, _ = rows_at("Table 2, 10 operators", [results[0] | {"seed": 1}, results[1]])
    assert row[-1] == "one seed: confirmed"
    without_answers = {name: value for name, value in results[1].items() if name != "answers"}
    row, _ = rows_at("Table 2, 10 operators", [results[0], without_answers])
    assert row[-1] == "open: one seed, no interval"
