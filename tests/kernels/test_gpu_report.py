"""The report of a GPU, on the stand-in: all its parts, and what happens when a row or the whole command ends early."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from math import isnan
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from accel.cuda import device
from benchmarks.gpu_report import __main__ as report
from benchmarks.gpu_report import kernels, part, rates, steps
from benchmarks.gpu_report.page import write_page
from benchmarks.gpu_report.records import (
    DONE,
    FAILED,
    MISSING,
    ROOT,
    Missing,
    Row,
    Setting,
    append_line,
    keep_done,
    read_lines,
    read_rows,
)  # fmt: skip

SMALL = ["--stand-in", "--small"]


@pytest.fixture(autouse=True)
def same_device() -> Iterator[None]:
    before = device._device
    yield
    device.use(before)


def test_a_small_report_is_whole(tmp_path: Path) -> None:
    """Every part ends and nothing failed; times, losses and tests on the page are numbers; all steps have graphs."""
    assert report.main(["--out", str(tmp_path), *SMALL, "--minutes", "20"]) == 0
    parts = json.loads((tmp_path / "report.json").read_text())
    assert list(parts) == list(part.PARTS)
    for name, rows in parts.items():
        failed = {row: content for row, content in rows.items() if content["status"] not in (DONE, MISSING)}
        assert rows and not failed, f"{name}: {failed}"
    differences = [row["differences"] for name, row in parts["steps"].items() if name.endswith("| CPU")]
    assert len(differences) == 4
    for of_form in differences:
        assert list(of_form) == list(map(steps.words, steps.COMPARED))
        assert all(of_form[way] < (0.2 if "bf16" in way else 1e-4) for way in of_form), of_form
    assert sum(name.endswith(", a graph") for name in parts["steps"]) == 3 * 4
    check_kernels(parts["kernels"], parts["steps"])
    losses = {name: row["losses"] for name, row in parts["trainings"].items()}
    for name in ("Transformer Grammar", "FastTrees", "GPST"):
        assert losses[f"{name} | cuda"] == pytest.approx(losses[f"{name} | cpu"], rel=1e-5)
        assert losses[f"{name} | cuda, bf16"] == pytest.approx(losses[f"{name} | cpu"], rel=2e-2)
    assert parts["operations"]["values, gradients, sizes"]["passed"] > 10
    assert parts["sanitizer"]["without a sanitizer"]["operations"] == [
        "fast_fasttrees", "layer_norm", "dropout", "cumax"
    ]  # fmt: skip
    page = (tmp_path / "report.md").read_text()
    assert "No GPU was measured" in page and "Kernels of the training steps" in page
    assert "not reached" not in page and "memcheck: missing: " in page
    assert page.index("## Training steps") < page.index("## Beside PyTorch") and "\n\n\n" not in page


def check_kernels(rows: dict[str, Any], of_steps: dict[str, Any]) -> None:
    """Check that each step lists its kernels, the longest first, at most as many as it launches, with its products."""
    assert list(rows) == [steps.row_name(step, form) for form in kernels.FORMS for step in steps.SMALL]
    for name, row in rows.items():
        seconds = [kernel["seconds"] for kernel in row["kernels"]]
        assert seconds == sorted(seconds, reverse=True) and 0 < len(seconds) <= kernels.MOST, name
        assert 0 < sum(seconds) <= row["seconds"] * (1 + 1e-9) and row["seconds"] < row["took"], name
        assert 0 < row["products"]["launches"] < row["launches"] and row["products"]["flops"] > 0, name
        assert row["launches"] <= of_steps[name].get("launches", row["launches"]) and row["late"] == 0, name


def test_a_gradient_that_is_not_a_number_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A NaN is found at any place: Python's max would ignore one that is not the first."""
    lists = iter([[1.0, 2.0], *[[1.0, float("nan")]] * len(steps.COMPARED)])
    monkeypatch.setattr(steps, "numbers", lambda *_: next(lists))
    monkeypatch.setattr(steps, "results", lambda step: [])
    monkeypatch.setattr(steps, "replayed", lambda ops, step: [])
    setting = Setting(tmp_path, True, True)
    [stack] = [step for step in steps.chosen(setting) if step.family == "fasttrees"]
    differences = steps.beside_cpu(setting, setting.ops(), stack)["differences"]
    assert len(differences) == len(steps.COMPARED) and all(isnan(x) for x in differences.values())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process together with its parent")
def test_a_killed_report_continues(tmp_path: Path) -> None:
    """After SIGKILL no process is left, and rows that are done are not made again."""
    command = [sys.executable, "-m", "benchmarks.gpu_report", "--out", str(tmp_path), *SMALL, "--only", "rates"]
    rows_of_rates = tmp_path / "rates.jsonl"
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
        while not any(row["status"] == DONE for row in read_rows(tmp_path, "rates").values()):
            assert process.poll() is None
            time.sleep(0.005)
        children = [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
        process.send_signal(signal.SIGKILL)
    for child in children:
        wait_for_end(child)
    before = [line for line in rows_of_rates.read_text().splitlines() if '"done"' in line]
    assert report.main(command[3:]) == 0
    after = rows_of_rates.read_text().splitlines()
    assert after[: len(before)] == before and len(read_rows(tmp_path, "rates")) == 8


def wait_for_end(pid: int) -> None:
    for _ in range(2000):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":  # nobody has asked for its end
            return
        time.sleep(0.005)
    raise AssertionError(f"process {pid} is left")


def test_a_row_that_fails_ends_its_process_and_no_other_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def rows(setting: Setting) -> Iterator[Row]:
        yield "one", lambda: calls.append("one") or {"figure": 1}  # type: ignore[func-returns-value]
        yield "wrong", lambda: {"figure": 1 // 0}
        yield "without", missing
        yield "two", lambda: calls.append("two") or {"figure": 2}  # type: ignore[func-returns-value]

    def missing() -> dict[str, int]:
        raise Missing("no such tool")

    monkeypatch.setattr(part, "import_module", lambda name: SimpleNamespace(rows=rows))
    words = ["rates", "--out", str(tmp_path), *SMALL]
    assert [part.main(words), part.main(words)] == [part.AGAIN, 0] and calls == ["one", "two"]
    statuses = {name: row["status"] for name, row in read_rows(tmp_path, "rates").items()}
    assert statuses == {"one": DONE, "wrong": FAILED, "without": MISSING, "two": DONE}
    append_line(tmp_path / "rates.jsonl", {"row": "three | float32", "status": "begun"})
    (tmp_path / "notes.md").write_text("Another training ran.\n\n")
    write_page(Setting(tmp_path, True, True))
    page = (tmp_path / "report.md").read_text()
    assert "- wrong: failed: ZeroDivisionError: " in page and "- without: missing: no such tool" in page
    assert "- three, float32: not finished when this page was written" in page
    assert "\n\nAnother training ran.\n\n## Machine\n\n" in page and "\n\n\n" not in page
    keep_done(tmp_path, "rates")
    assert list(read_rows(tmp_path, "rates")) == ["one", "two"]


def test_every_part_has_its_turn() -> None:
    """Even if each part takes all of its time, the last part begins before the whole command ends."""
    *before, last = part.PARTS
    assert last == "suite" and sum(part.PARTS[name] for name in before) < 60 * report.MINUTES


def test_a_signal_ends_one_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = Setting(tmp_path, True, True)
    codes = iter([-signal.SIGSEGV, 0])

    def watch(name: str, setting: Setting, end: float) -> int:
        append_line(tmp_path / "rates.jsonl", {"row": f"row {len(read_rows(tmp_path, 'rates'))}", "status": "begun"})
        return next(codes)

    monkeypatch.setattr(report, "watch", watch)
    report.make("rates", setting, time.monotonic() + 60)
    rows = read_rows(tmp_path, "rates")
    assert rows["row 0"] == {
        "row": "row 0", "status": FAILED, "reason": "its process ended with signal 11: see rates.log",
    }  # fmt: skip
    assert rows["row 1"]["status"] == "begun"


def test_a_part_without_its_tool_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable(setting: Setting) -> Iterator[Row]:
        raise Missing("CuPy finds no GPU")
        yield

    monkeypatch.setattr(rates, "rows", unavailable)
    assert part.main(["rates", "--out", str(tmp_path)]) == 0
    row = read_rows(tmp_path, "rates")["rates"]
    assert (row["status"], row["reason"]) == (MISSING, "CuPy finds no GPU")


def test_half_a_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    append_line(path, {"row": "one"})
    with open(path, "a") as file:
        file.write('{"row": "tw')
    append_line(path, {"row": "three"})
    assert [line["row"] for line in read_lines(path)] == ["one", "three"]


@pytest.mark.parametrize(
    ("first", "words", "message"),
    [
        (SMALL, ["--stand-in"], "holds a report begun as '--stand-in --small', not '--stand-in'"),
        ([], ["--minutes", "0"], "--minutes: more than 0 are needed"),
        ([], ["--only", "rate"], "invalid choice: 'rate'"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], first: list[str], words: list[str], message: str
) -> None:
    if first:
        report.check_same(Setting(tmp_path.resolve(), True, True))
    with pytest.raises(SystemExit) as end:
        report.main(["--out", str(tmp_path), *words])
    assert message in f"{end.value}{capsys.readouterr().err}"


def test_tests_that_passed_are_not_run_again(tmp_path: Path) -> None:
    """The plug-in records every outcome; a second run leaves out tests that passed or were skipped."""
    (tmp_path / "test_three.py").write_text(
        "import pytest\ndef test_one(): pass\ndef test_two(): assert 1 == 2\ndef test_three(): pytest.skip('no tool')\n"
    )
    record, again = tmp_path / "record.jsonl", []
    for _ in range(2):
        plugins = ["-p", "no:cacheprovider", "-p", "benchmarks.gpu_report.each_test"]
        where = ["--rootdir", str(tmp_path), "-c", os.devnull, "--record", str(record), str(tmp_path)]
        command = [sys.executable, "-m", "pytest", "-q", *plugins, *where]
        process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        again.append(process.returncode)
    lines = [(line["test"].rpartition("::")[2], line["outcome"]) for line in read_lines(record)]
    assert again == [1, 1] and lines == [
        ("test_one", "passed"), ("test_two", "failed"), ("test_three", "skipped"), ("test_two", "failed"),
    ]  # fmt: skip
    assert "assert 1 == 2" in next(line["reason"] for line in read_lines(record) if line["outcome"] == "failed")
