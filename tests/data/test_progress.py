"""Progress: a bar on a terminal, elsewhere one plain line every ten seconds."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from accel.data.files import progress as shown


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A list whose only element is the time that the module reads."""
    now = [100.0]
    monkeypatch.setattr(shown, "monotonic", lambda: now[0])
    return now


def use(items: Iterator[int], clock: list[float], seconds: float) -> list[int]:
    """Return the items; the use of each item takes so many seconds of the clock."""
    numbers = []
    for item in items:
        clock[0] += seconds
        numbers.append(item)
    return numbers


def test_a_line_every_ten_seconds(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    losses = iter((3.0, 2.5))
    steps = shown.progress(range(6), 1006, "step", done=1000, note=lambda: f"loss {next(losses):.3f}")
    assert use(steps, clock, 4.0) == list(range(6))
    first = "grove: 1,003 of 1,006 steps, 0.25 a second, 0:12 left; loss 3.000"
    second = "grove: 1,006 of 1,006 steps, 0.25 a second, 0:00 left; loss 2.500"
    assert capsys.readouterr().err.splitlines() == [first, second]


def test_the_number_may_be_unknown(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    trees = shown.progress(iter(range(60_000)), label="reading train.trees")
    assert len(use(trees, clock, 0.0002)) == 60_000
    [line] = capsys.readouterr().err.splitlines()
    words = line.split()
    assert line.startswith("grove: reading train.trees: ") and line.endswith(" trees, 5,000 a second")
    assert abs(int(words[3].replace(",", "")) - 50_000) <= 1


def test_hours_are_left(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    use(shown.progress(range(3), 1000, "sentence"), clock, 10.0)
    lines = ["1 of 1,000 sentences", "2 of 1,000 sentences, 0.1 a second, 2.8 h left"]
    assert capsys.readouterr().err.splitlines()[:2] == [f"grove: {line}" for line in lines]


def test_the_first_item_has_no_part_in_the_speed(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    """It waits while kernels are compiled: once, a run of a minute was announced as a run of an hour."""
    steps = shown.progress(range(9), 60, "step")
    for number in steps:
        clock[0] += 1.0 if number else 50.0
        if number == 0:
            assert capsys.readouterr().err == ""
    assert capsys.readouterr().err == "grove: 1 of 60 steps\n"
    use(shown.progress(range(12), 60, "step"), clock, 1.0)
    assert capsys.readouterr().err == "grove: 10 of 60 steps, 1 a second, 0:50 left\n"


def test_nothing_is_shown_before_ten_seconds_or_when_quiet(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    use(shown.progress(range(9), 9), clock, 1.0)
    use(shown.progress(range(9), 9, quiet=True), clock, 100.0)
    assert capsys.readouterr().err == ""


def test_a_terminal_has_a_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(shown, "DELAY", 0.0)
    assert list(shown.progress(range(5), 5, "step", label="training", note=lambda: "loss 3")) == list(range(5))
    err = capsys.readouterr().err
    assert "training" in err and "0/5" in err and "grove:" not in err
