"""The page of results is what its script writes from the result files."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from accel.drawing.svg import Box, Text
from accel.evaluation.syntaxgym import CIRCUITS
from examples import queue_tables, results
from examples.queue_commands import Run as QueuedRun
from examples.queue_tables import read_runs
from examples.result_files import FOLDER, PAPER, SILVER, read_results, stored_name
from examples.results import PAGES, page, pictures, to_store
from examples.scores import circuit_intervals
from examples.tables import (
    circuits,
    differences,
    documents,
    evaluated,
    figure_3,
    orders,
    picture_name,
    seeds,
    table_1,
    table_2,
)
from examples.task_results import read_task_results
from tests.fixtures.readme_blocks import ROOT


def result(model: str, nats: float, matched: int | None = None, right: float = 0.5) -> dict[str, Any]:
    """Return the result of a model on four sentences of two words."""
    rows: list[list[float]] = [[2, -nats - i] for i in range(4)]
    content: dict[str, Any] = {
        "experiment": "toy",
        "model": model,
        "seed": 0,
        "perplexity": {"value": nats, "is_bound": matched is not None, "words": 8, "sentences": 4},
        "syntaxgym": {"mean": right, "interval": [0.25, 0.75], "circuits": dict.fromkeys(CIRCUITS, right)},
        "rows": rows,
    }
    if matched is not None:
        content["rerank"] = {"f1": 100 * matched / 5, "parser_f1": 60.0, "oracle_f1": 90.0, "gold_among": 0.25}
        for row in rows:
            row += [matched, 5, 5]
    return content


TOY = [result("tg", 30.0, 4, right=0.75), result("txl_cc", 29.0, 3), result("txl_terminals", 28.0)]


def test_tables_of_the_queue() -> None:
    """Parsers are sorted by treebank, the best first; every model has its least loss."""
    shared = {"last_step": {"step": 1200}, "still_improving": True, "core_hours": 0.254, "commit": "0123456789"}
    shared |= {"validation_loss": [[1000, 2.0], [1200, 1.5]]}
    parsers = [
        {"name": f"{name}", "figures": {"x": {"f1": f1, "exact": 12.34, "sentences": 1991}}} | shared
        for name, f1 in (("a/parser-lstm", 70.0), ("a/parser-pieces", 71.26), ("b/parser-lstm", 60.0))
    ]
    trained = shared | {"name": "a/txl_cc-1", "seed": 1, "validation_loss": [[1000, 2.0], [1100, 1.5], [1200, 1.75]]}
    of_all = "1,200 | yes | 16.7 | 0.25 | 0123456 |"  # the loss at step 1,080 is 1.8
    assert queue_tables.parsers([*parsers, trained]).splitlines()[2:] == [
        f"| a | self-attentive, SentencePiece | 71.3 | 12.3 | 1,991 | {of_all}",
        f"| a | LSTM over words and characters | 70.0 | 12.3 | 1,991 | {of_all}",
        f"| b | LSTM over words and characters | 60.0 | 12.3 | 1,991 | {of_all}",
    ]
    rows = queue_tables.trainings([*parsers, trained]).splitlines()[2:]
    assert rows == ["| a | TXL (CC) | 1 | 1.5000 | 1,200 | yes | -9.4 | 0.25 | 0123456 |"]  # 1.6 at step 1,080


def test_windows_are_compared_epoch_by_epoch() -> None:
    curve = [[953 * epoch, 0.5 + epoch / 100] for epoch in range(1, 39)]
    runs = [{"name": name, "validation_accuracy": curve} for name in ("logic/fasttrees-0", "logic/fasttrees-1")]
    _, fasttrees, _, five = queue_tables.windows(runs).splitlines()[2:]
    assert fasttrees == "| FastTrees | 1 | 52.0 | 54.0 | 56.0 | 58.0 | 60.0 | 62.0 |"
    assert five == "| Conv. FastTrees | 5 | not run: `make results DATA=data` |  |  |  |  |  |"


def test_the_page_names_the_runs_of_logic_that_still_move() -> None:
    """In RESULTS.md, Table 2 of FastTrees: all other runs stay within 0.4 points in the last ten epochs."""
    moves = {}
    for run in read_runs(FOLDER / "queue"):
        if run["name"].startswith("logic/"):
            accuracies = [100 * accuracy for _, accuracy in run["validation_accuracy"][-10:]]
            moves[run["name"]] = round(max(accuracies) - min(accuracies), 1)
    assert len(moves) > 5
    assert {name: most for name, most in moves.items() if most > 0.4} == {
        "logic/faster_fasttrees-0": 1.0,
        "logic/fasttrees-1": 0.9,
        "logic/fasttrees-2": 0.8,
    }


def test_commits_are_in_the_history_or_named_on_the_page() -> None:
    def git(*words: str) -> str:
        return subprocess.run(("git", "-C", str(ROOT), *words), capture_output=True, text=True, check=False).stdout

    if git("rev-parse", "--is-shallow-repository").strip() != "false":
        pytest.skip("the history is not here")
    history = tuple(git("rev-list", "HEAD").splitlines())
    text = "".join(path.read_text(encoding="utf-8") for path in FOLDER.rglob("*.json"))
    commits = sorted(set(re.findall(r'"(?:commit|trained|measured)": "([0-9a-f]{7,40})"', text)))
    missing_commits = [commit[:12] for commit in commits if not any(one.startswith(commit) for one in history)]
    [names] = re.findall(r"not in the published\s+history: ([^.]+)", PAGES[0].read_text(encoding="utf-8"))
    assert len(commits) > 20 and missing_commits == sorted(re.findall(r"[0-9a-f]{12}", names))


def test_hours_that_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hours of finished runs are those that they took; the other runs count with their estimate."""
    monkeypatch.setattr(queue_tables, "RUNS", [QueuedRun(f"a/{n}", "A", 2.0, ()) for n in range(3)])
    queue_results = [{"name": "a/1", "core_hours": 1.25}, {"name": "b/0", "core_hours": 9.0}]
    assert queue_tables.left(queue_results).splitlines()[2:] == ["| A | 1 of 3 | 1.2 | 4.0 |"]


def test_the_fall_in_the_last_tenth() -> None:
    """After 90 of 100 steps the loss is 4, on the line from 5 at step 80 to 3 at step 100."""
    assert queue_tables.last_fall([[80, 5.0], [100, 3.0]]) == pytest.approx(0.25)
    assert queue_tables.last_fall([[10, 9.0], [90, 2.0], [100, 3.0]]) == pytest.approx(-0.5)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_page_is_up_to_date(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    of_queue = read_runs(FOLDER / "queue")
    assert page(text, read_results(FOLDER), read_task_results(FOLDER), of_queue) == text
    assert all((FOLDER / picture_name(name)).exists() for name in pictures(read_results(FOLDER)))


def test_table_1() -> None:
    """One seed has an interval of SG over items; several seeds have means and deviations of the parts they have."""
    assert table_1(TOY).splitlines()[2:] == [
        "| TG | 0 | ≤ 30.0 |  |  |  | 80.00 |  | 75.0 (25.0 to 75.0) | 30.3, 93.7, 82.5 |",
        "| TXL (CC) | 0 | ≤ 29.0 |  |  |  | 60.00 |  | 50.0 (25.0 to 75.0) | 29.8, 93.6, 80.2 |",
        "| TXL (terminals) | 0 | 28.0 | 9.2 |  |  |  |  | 50.0 (25.0 to 75.0) | 31.2, , 69.5 |",
    ]
    second = result("tg", 32.0, 5, right=0.25) | {"seed": 1, "search": {"f1": 55.5, "beam": 9, "coverage": 1.0}}
    second["perplexity"] |= {"gold_tree": 40.0, "estimate": {"value": 25.0, "error": 1.5, "draws": 5.0}}
    assert table_1([TOY[0], second]).splitlines()[2:] == [
        "| TG | 0, 1 | ≤ 31.0 ± 1.4 |  | 40.0 | 25.0, 1.5, 0.4 "
        "| 90.00 ± 14.14 | 55.50 | 50.0 ± 35.4 | 30.3, 93.7, 82.5 |"
    ]


def test_trees_of_a_parser_judge_no_f1() -> None:
    """Their F1 is not shown: it would favour a model that makes the same mistakes as the parser."""
    silver = [model | {"experiment": SILVER} for model in TOY]
    assert [line.split(" | ")[6] for line in table_1(silver).splitlines()[2:]] == [""] * 3
    assert all(line.endswith(" |  |") for line in differences(silver).splitlines()[2:])
    assert "F1" not in orders(silver) and "SG" in orders(silver)


def test_the_proposals_of_every_seed() -> None:
    models = result("tg", 30.0, 3), result("txl_terminals", 29.0), result("tg", 32.0, 3) | {"seed": 1}
    for measured, proposals in zip(models, (7.5, 1.0, 8.0), strict=True):
        measured["perplexity"] |= {"skipped": 1, "proposals": proposals}
    assert evaluated(models).splitlines()[2:] == [
        "| toy | 0 | 4 | 8 | 1 | 7.5 | 60.00 | 90.00 | 25.0 |",
        "| toy | 1 | 4 | 8 | 1 | 8.0 | 60.00 | 90.00 | 25.0 |",
    ]


def test_orders_beside_those_of_the_paper() -> None:
    perplexity, f1, sg = (line.strip("| ").split(" | ") for line in orders(TOY).splitlines()[2:])
    assert perplexity[2:] == ["TXL (CC), TG, TXL (terminals)", "TXL (terminals), TXL (CC), TG", "no"]
    assert f1[2:] == ["TG, TXL (CC)", "TG, TXL (CC)", "yes"]
    assert sg[4] == "yes"


def test_circuits_with_and_without_intervals() -> None:
    one, other = result("tg", 30.0, 4), result("txl_cc", 29.0, 3)
    items = {"npi_orc": [1.0] * 20, "reflexive_orc": [0.0] * 20, "nn-nv-rpl": [1.0, 0.0]}  # the last has no circuit
    other["syntaxgym"]["circuit_intervals"] = circuit_intervals(items | {"cleft": [0.0, 1.0] * 20})
    first, second, chances = (line.strip("| ").split(" | ") for line in circuits([one, other]).splitlines()[2:])
    assert chances[:4] == ["random surprisals", "", "25.0", "50.0"]
    assert first == ["TG", "0", *["50.0"] * 6]
    assert second[:7] == ["TXL (CC)", "0", *["50.0"] * 4, "50.0 (50.0 to 50.0)"]  # equal items in each suite: no spread
    low, high = map(float, second[7].removeprefix("50.0 (").removesuffix(")").split(" to "))
    assert 30 < low < 40 and 60 < high < 70  # 50 plus and minus 1.96 * 7.9


def test_circuits_of_several_seeds() -> None:
    """By hand: the difference is 50, the deviations are 0.141 and 0, and Student's quantile for 1 degree is 12.7."""
    results = [result("tg", 30.0, 4), result("tg", 30.0, 4), result("txl_cc", 29.0, 3), result("txl_cc", 29.0, 3)]
    for number, one in enumerate(results):
        one["seed"] = number % 2
        one["syntaxgym"]["circuits"] = dict.fromkeys(CIRCUITS, (0.9, 0.902, 0.4, 0.4)[number])
    *_, last = (line.strip("| ").split(" | ") for line in circuits(results).splitlines()[2:])
    assert last == ["TG minus TXL (CC)", "over seeds", *["+50.1"] * 6]
    results[3]["syntaxgym"]["circuits"] = dict.fromkeys(CIRCUITS, 0.402)
    *_, last = (line.strip("| ").split(" | ") for line in circuits(results).splitlines()[2:])
    assert last == ["TG minus TXL (CC)", "over seeds", *["+50.0 (+49.4 to +50.6)"] * 6]


def test_equal_differences_have_no_spread() -> None:
    tg_cc, tg_terminals, _ = (line.strip("| ").split(" | ") for line in differences(TOY).splitlines()[2:])
    assert tg_cc[3:] == ["+0.5000 (+0.5000 to +0.5000)", "+20.00 (+20.00 to +20.00)"]
    assert tg_terminals[1:4] == ["TG minus TXL (terminals)", "0", "+1.0000 (+1.0000 to +1.0000)"]


def test_differences_on_documents_have_an_interval_over_the_documents() -> None:
    """By one and by three nats a word on two documents, 2 on average; Student's quantile is 12.7."""
    one, other = result("tg", 1.0), result("txl_cc", 1.0)
    for each, logps in ((one, (-1, -1, -1, -1)), (other, (1, 1, 5, 5))):
        each["perplexity"]["documents"] = [[2, 9], [2, 2]]
        each["rows"] = [[2, logp] for logp in logps]
    assert "| +2.0000 (-10.7062 to +14.7062) |  |" in differences([one, other])


def test_a_seed_with_a_model_of_words_alone_has_no_proposals() -> None:
    assert evaluated(TOY[2:]).count("\n") == 1


def test_several_seeds_are_tested_by_welch() -> None:
    results_of_seeds = [result("tg", nats, 4) for nats in (1.0, 2.0, 3.0)] + [
        result("txl_cc", nats, 4) for nats in (4.0, 6.0, 8.0)
    ]
    for number, one in enumerate(results_of_seeds):
        one["rerank"]["f1"] += number
        one["syntaxgym"]["mean"] += number
    rows = [line.strip("| ").split(" | ") for line in seeds(results_of_seeds).splitlines()[2:]]
    assert rows[0] == ["toy", "perplexity", "TG minus TXL (CC)", "2.00 ± 1.00", "6.00 ± 2.00", "-4.00", "0.055"]
    assert [row[1] for row in rows] == ["perplexity", "F1", "SG"]
    assert len(seeds(TOY).splitlines()) == 2
    assert seeds([one | {"split": "valid"} for one in results_of_seeds]).splitlines()[2].startswith("| toy, valid | ")


def of_documents(model: str, value: float, seed: int, last: float) -> dict[str, Any]:
    content = result(model, value) | {"seed": seed, "validation": [[100, 3.0], [200, last]]}
    content["perplexity"] |= {"documents": [[3, 4]], "alone": 2 * value, "is_bound": False}
    return content


def test_documents() -> None:
    measured = [of_documents("tg", 20.0, 0, 2.0), of_documents("tg", 30.0, 1, 4.0), of_documents("txl_cc", 9.0, 0, 1.0)]
    assert documents([*TOY, *measured]).splitlines()[2:] == [
        "| toy | TG | 0, 1 | 25.00 ± 7.07 | 50.00 ± 14.14 | 0.693 ± 0.000 |  | 1 of 2 |",
        "| toy | TXL (CC) | 0 | 9.00 | 18.00 | 0.693 |  | 1 of 1 |",
    ]
    assert len(differences(measured).splitlines()) == 2  # no rows: sentences of a document are not independent
    (row,) = seeds([*measured, of_documents("txl_cc", 8.0, 1, 1.0)]).splitlines()[2:]  # SG is the same everywhere
    assert row.split(" | ")[1] == "documents"
    order = orders([*measured, of_documents("txl_terminals", 8.0, 0, 1.0)]).splitlines()[2]
    assert order == ("| toy | documents | TXL (CC), TXL (terminals), TG | TXL (terminals), TXL (CC), TG | no |")


def test_table_2() -> None:
    """Variants on the validation split have the order of the paper, and Welch's p if they have two seeds or more."""
    valid = [
        result(model, nats, 4) | {"split": "valid", "seed": seed}
        for model, both in {"tg_linear": (3.0, 4.0), "tg": (1.0, 2.0), "tg_shift": (5.0,)}.items()
        for seed, nats in enumerate(both)
    ]
    rows = [line.strip("| ").split(" | ") for line in table_2([*TOY, *valid]).splitlines()[2:]]
    assert [row[1] for row in rows] == ["TG", "TG (TXL mem.)", "TG (TXL mem. & rel. pos.)"]
    assert rows[0][:4] == ["toy", "TG", "2", "1.50 ± 0.71"] and rows[1][2:4] == ["1", "5.00"]
    assert rows[2][3] == "3.50 ± 0.71 (p = 0.11)"
    assert stored_name(valid[0]) == "toy-tg_linear-0-valid.json" and stored_name(TOY[0]) == "toy-tg-0.json"
    assert len(table_1(valid).splitlines()) == len(orders(valid).splitlines()) == 2


def test_figure_3_has_a_panel_for_each_measure() -> None:
    measured = [result("tg", nats, 4) | {"seed": seed} for seed, nats in enumerate((1.0, 2.0, 4.0))]
    images = pictures([*measured, result("txl_cc", 3.0, 3)])
    assert list(images) == ["toy"] and pictures(TOY) == {}
    texts = [shape.text for shape in images["toy"].shapes if isinstance(shape, Text)]
    assert {"TG", "TXL (CC)", "perplexity", "F1, reranked", "SG score, %"} <= set(texts)
    squares = sum(isinstance(shape, Box) for shape in images["toy"].shapes)
    assert squares == 3 * (3 + 1)  # three measures of four runs
    assert figure_3(measured) == "![Distributions over seeds, toy](results/figure_3-toy.svg)"
    assert set(results.TITLES) == set(PAPER)


def test_text_outside_the_tables_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "TABLES", {"seen": lambda contents: str(len(contents))})
    text = (
        "before\n<!-- table seen toy -->\n<!-- end -->\nbetween\n<!-- table seen other -->\nold\n<!-- end -->\nafter\n"
    )
    assert page(text, TOY) == (
        "before\n<!-- table seen toy -->\n3\n<!-- end -->\nbetween\n<!-- table seen other -->\n0\n<!-- end -->\nafter\n"
    )


def test_folders_without_results_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="typo: holds no results: give a folder that examples.measure or"):
        to_store(tmp_path / "typo")
    path = tmp_path / "tg-0" / "result.json"
    path.parent.mkdir()
    path.write_text(json.dumps(TOY[0]))
    assert to_store(tmp_path) == [("toy-tg-0.json", json.dumps(TOY[0]))]
    path.write_text('{"model": "tg", "seed": 0}')  # of examples.transformer_grammars.train
    with pytest.raises(ValueError, match=r"result.json: is no result of examples.measure or .*: leave .* out"):
        to_store(tmp_path)
