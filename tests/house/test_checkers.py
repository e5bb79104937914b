"""The measurement of checking rules: each rule, the wrong kernels, and the orders in which right kernels add."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import benchmarks.checker_table
import benchmarks.checkers
from accel.verify.ops.table import OPS
from benchmarks.checker_draws import draws, verdicts
from benchmarks.checker_errors import ERRORS
from benchmarks.checker_kernels import ORDERS, reference_in
from benchmarks.checker_rules import RULES, passes
from benchmarks.checker_table import MARKS, PAGE, page_text, read_rows, write_page
from benchmarks.checkers import SLOW, main, missing_ops, run_wrong

NORM = next(op for op in OPS if op.name == "layer_norm")


def passed(fast: float, exact: float, plain: float) -> set[str]:
    arrays = [np.array([x, 1.0]) for x in (fast, exact, plain)]
    return {name for name, rule in RULES.items() if passes(rule, *arrays)}


def test_rules_are_those_of_their_sources() -> None:
    assert passed(2.0, 2.0, 2.0) == set(RULES)
    assert passed(2.029, 2.0, 2.02) == {"allclose 1e-2", "error ratio, CI", "twice the reference"}
    assert passed(2.29, 2.0, 2.0) == {"error ratio, CI"}
    assert passed(2.001, 2.0, 2.0) == {"allclose 1e-2", "error ratio", "error ratio, CI", "1e-3 and 1e-7"}
    assert passed(0.009, 0.0, 0.0) == {"allclose 1e-2", "error ratio, CI"}
    assert passed(np.nan, 0.0, 0.0) == passed(np.inf, 0.0, 0.0) == set()
    assert passed(-np.inf, -np.inf, -np.inf) == set(RULES)


@pytest.mark.parametrize("name", ORDERS)
def test_sums_in_every_order(name: str) -> None:
    """The arrays of right kernels give NumPy's sums and products, up to rounding."""
    x, y = np.random.default_rng(0).standard_normal((2, 5, 13)).astype(np.float32)
    a, b = (reference_in(name).xp.asarray(z) for z in (x, y))
    for result, expected in [
        (a.sum(), x.sum()), (a.sum(axis=0), x.sum(axis=0)), (a.mean(axis=1, keepdims=True), x.mean(axis=1)[:, None]),
        (a @ b.T, x @ y.T), (a @ b[0], x @ y[0]), (a[0] @ b[0], x[0] @ y[0]), (a[:, :0] @ b.T[:0], np.zeros((5, 5))),
    ]:  # fmt: skip
        assert np.shape(result) == np.shape(expected)
        np.testing.assert_allclose(result, expected, rtol=0, atol=20 * np.finfo(np.float32).eps)


def test_errors_change_answers() -> None:
    answers = [[np.arange(1.0, 9.0).reshape(4, 2)], [np.ones((70, 2))]]
    memory: dict[str, object] = {}
    for name, error in ERRORS.items():
        error([[x + 1 for x in outputs] for outputs in answers], memory) if name.startswith("the last") else None
        result = error(answers, memory)
        shapes = [[x.shape for x in outputs] for outputs in result]
        assert shapes == [[(4, 2)], [(70, 2)]] and any(
            (a[0] != b[0]).any() for a, b in zip(result, answers, strict=True)
        )


def test_right_answers_pass_and_wrong_ones_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for draw in draws(NORM, 0, 4):
        wide = draw.exact or draw.expected.wide
        narrow = [[np.float32(x) for x in outputs] for outputs in wide]
        assert "Grove" not in verdicts(NORM, draw, wide, narrow)
    rows = run_wrong(NORM, 0, 3)
    zeros = [row for row in rows if row["error"] == "zeros"]
    assert {row["kind"] for row in zeros} == {"values", "gradients"} and all("Grove" in row["first"] for row in zeros)
    right = {"part": "right", "kernel": "cpu", "draws": 1200, "share": 0.5, "refused": {"1e-3 and 1e-7": 2}}
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n{MARKS[0]}\nold\n{MARKS[1]}\nafter\n")
    monkeypatch.setattr(benchmarks.checker_table, "PAGE", page)
    write_page(page_text([*rows, right], {"cpu": "one"}))
    text = page.read_text()
    assert "old" not in text and text.endswith(f"{MARKS[1]}\nafter\n") and "| zeros | 2 | 2 (100 %) |" in text
    assert "| cpu | 1,200 | 0 | 0 | 0 | 0 | 0 | 2 | 0 | 0.50 |" in text


def test_the_page_has_the_tables_of_the_rows_in_the_checkout() -> None:
    [path] = benchmarks.checkers.RESULTS.glob("checkers-*.jsonl")
    of_page = PAGE.read_text().partition(MARKS[0])[2].partition(MARKS[1])[0].strip()
    rows = read_rows(path)
    assert of_page.partition("\n\n")[2] == page_text(rows, {}).partition("\n\n")[2]
    draws_of: Counter[str] = Counter()
    for row in rows:
        if row["part"] == "right":
            draws_of[row["group"]] += row["draws"]
            draws_of["slow" if row["op"] in SLOW else "fast"] += row["draws"]
    assert draws_of["slow"] == 6 * 76
    assert f"{draws_of['one thread']:,} of {draws_of['slow'] + draws_of['fast']:,} are" in PAGE.read_text()
    assert f"and {draws_of['fast']:,} are" in PAGE.read_text()


@pytest.mark.parametrize("option", [("--only", "layer_norm", "--groups", "wrong"), ("--groups", "wrong"), ()])
def test_a_measurement_of_a_part_writes_nothing(
    option: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a part, no row is kept and the page does not change; of everything, both are written."""
    page = tmp_path / "page.md"
    page.write_text(f"{MARKS[0]}\nold\n{MARKS[1]}\n")

    def measure(path: Path, *_: object) -> None:
        path.write_text("".join(json.dumps(row | {"cases": 1}) + "\n" for row in ROWS))

    monkeypatch.setattr(benchmarks.checker_table, "PAGE", page)
    monkeypatch.setattr(benchmarks.checkers, "RESULTS", tmp_path)
    monkeypatch.setattr(benchmarks.checkers, "measure", measure)
    monkeypatch.setattr("sys.argv", ["checkers", *option])
    main()
    assert "| zeros | 1 | 1 (100 %) |" in capsys.readouterr().out
    assert ("old" in page.read_text(), len([*tmp_path.iterdir()])) == ((True, 1) if option else (False, 2))


ROWS = [
    {"part": "wrong", "op": "cumax", "seed": 0, "kind": "values", "error": "zeros", "draws": 9, "changed": 9,
     "first": {"Grove": 1}},
    {"part": "right", "group": "fused", "op": "cumax", "seed": 0, "kernel": "cpu", "kind": "values", "draws": 9,
     "share": 0.5, "refused": {}},
]  # fmt: skip


def test_a_run_resumes_with_the_same_number_of_cases_alone() -> None:
    rows = [row | {"cases": 12} for row in ROWS]
    for group in ("wrong", "fused"):
        assert missing_ops(rows, ["cumax", "layer_norm"], group, 0, 12) == ["layer_norm"]
        assert missing_ops(rows, ["cumax"], group, 1, 60) == ["cumax"]
        message = f"--cases 60: .*checkers-.*jsonl has cumax of group '{group}', seed 0, with 12 cases: type --cases 12"
        with pytest.raises(SystemExit, match=message):
            missing_ops(rows, ["layer_norm", "cumax"], group, 0, 60)
    assert missing_ops(rows, ["cumax"], "2 threads", 0, 60) == ["cumax"]
