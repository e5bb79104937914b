"""The random search: its draws, a search on toy trees that is killed and resumed, and mistakes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from accel.data.generated.grammar import ENGLISH
from accel.training.run import NEWEST
from examples import search
from tests.fixtures.command_line import settings
from tests.fixtures.toy_house import TINY, write

RANGES = ("--range", "maximum_rate=log:1e-4..1e-2", "--range", "n_layers=1..2", "--range", "n_heads=2,4")


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("trees")
    files = [str(write(folder / f"{seed}.trees", list(ENGLISH.sample(60 // seed, seed)))) for seed in (1, 2)]
    sizes = settings(tuple(x for x in TINY if not x.startswith("n_layers")))
    return ["--data", files[0], "--validation", files[1], "--steps", "4", "--set", "validate_every=2", *sizes]


def searched(out: Path, options: list[str], *more: str) -> list[dict[str, Any]]:
    return search.main(["--out", str(out), *RANGES, *more, "--", *options])


def losses(trials: list[dict[str, Any]]) -> dict[int, tuple[float, dict[str, str]]]:
    return {trial["number"]: (trial["validation_loss"], trial["values"]) for trial in trials}


def test_values_lie_in_their_ranges_and_depend_on_seed_and_number() -> None:
    ranges = [search.range_of(text) for text in ("a=log:1e-4..1e-2", "b=2..5", "c=-1.5..0", "d=x,y", "e=log:1..100")]
    trials = [search.values_of(ranges, 0, number) for number in range(300)]
    assert trials[7] == search.values_of(ranges, 0, 7) != search.values_of(ranges, 1, 7)
    values = {name: [value[name] for value in trials] for name in "abcde"}
    assert all(1e-4 <= float(x) <= 1e-2 for x in values["a"]) and {*values["b"]} == {"2", "3", "4", "5"}
    assert 110 < sum(float(x) < 1e-3 for x in values["a"]) < 190  # half of 300, within five standard errors
    assert all(-1.5 <= float(x) <= 0 for x in values["c"]) and {*values["d"]} == {"x", "y"}
    below = search.range_of("relative_min=-4..-2")
    assert [below.value(u) for u in (0.0, 0.3, 0.4, 0.6, 0.7, 0.99)] == ["-4", "-4", "-3", "-3", "-2", "-2"]
    assert {int(x) for x in values["e"]} <= {*range(1, 101)} and 100 < sum(int(x) < 10 for x in values["e"]) < 200


def test_a_grid_has_every_combination() -> None:
    """The grid of FastTrees, section 4.1, has nineteen hidden sizes; two ranges give all pairs of values."""
    sizes = search.range_of("hidden_size=600..1500:50")
    assert sizes.choices[::9] == ("600", "1050", "1500") and len(search.grid_of([sizes])) == 19
    points = search.grid_of([search.range_of("a=1,2"), search.range_of("b=x,y")])
    assert points == [{"a": a, "b": b} for a in "12" for b in "xy"]
    with pytest.raises(SystemExit, match="--range a lists no values; use NAME=A,B,C or NAME=LOW"):
        search.grid_of([search.range_of("a=1..3")])


def test_a_small_grid(tmp_path: Path, options: list[str]) -> None:
    command = ["--out", str(tmp_path / "grid"), "--grid", "--range", "n_heads=2,4", "--", *options]
    trials = search.main(command)
    assert {trial["number"]: trial["values"]["n_heads"] for trial in trials} == {0: "2", 1: "4"}
    assert losses(search.main(command)) == losses(trials)
    with pytest.raises(SystemExit, match="a search keeps its options: grid: True, now False"):
        search.main([word for word in command if word != "--grid"])


def test_a_search_keeps_complete_trials_and_can_be_continued(
    tmp_path: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "search"
    with pytest.raises(SystemExit, match="d_ffn"):
        searched(out, options, "--range", "d_ffn=8,9")  # a mistake leaves no trace
    first = searched(out, options, "--trials", "1")
    result = (out / "trial-000" / search.RESULT).stat().st_mtime_ns
    trials = searched(out, options, "--trials", "3")
    assert [trial["validation_loss"] for trial in trials] == sorted(trial["validation_loss"] for trial in trials)
    assert losses(trials)[0] == losses(first)[0] and (out / "trial-000" / search.RESULT).stat().st_mtime_ns == result
    text = (out / search.TABLE).read_text(encoding="utf-8")
    assert text.splitlines()[2].split(" | ")[1] == f"{trials[0]['validation_loss']:.4f}"
    output = capsys.readouterr().out
    assert text in output and ".safetensors" not in output
    assert f"--set n_heads={trials[0]['values']['n_heads']}" in output.splitlines()[-1]
    with pytest.raises(SystemExit, match="keeps its options: seed: 0, now 1; use another --out"):
        searched(out, options, "--seed", "1")


def test_a_killed_search_resumes(tmp_path: Path, options: list[str]) -> None:
    """It is killed after the first checkpoint of the second trial; then its trials end as those of a whole search."""
    often = [*options, "--set", "checkpoint_every=1"]
    command = [sys.executable, "-m", "examples.search", "--out", str(tmp_path / "killed"), *RANGES, "--", *often]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        end = time.monotonic() + 120
        while not (tmp_path / "killed" / "trial-001" / NEWEST).exists() and time.monotonic() < end:
            time.sleep(0.002)
        os.kill(child.pid, signal.SIGKILL)
    assert (tmp_path / "killed" / "trial-000" / search.RESULT).exists()
    resumed, whole = (searched(tmp_path / name, often, "--trials", "2") for name in ("killed", "whole"))
    assert losses(resumed) == losses(whole)


def test_a_trial_that_diverges_is_the_last(
    tmp_path: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    huge = ["--range", "maximum_rate=1e38,1e-3", "--range", "clip_norm=none", "--", *options]
    trials = search.main(["--out", str(tmp_path / "s"), "--trials", "4", *huge])
    assert {trial["values"]["maximum_rate"] for trial in trials} == {"1e38", "1e-3"}
    assert [trial["validation_loss"] == search.inf for trial in trials] == [
        trial["values"]["maximum_rate"] == "1e38" for trial in trials
    ]
    again = search.main(["--out", str(tmp_path / "s"), "--trials", "4", *huge])
    assert again == trials and "| diverged | step" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--range", "n_heads=1,2"], "--range n_heads: n_heads is given twice; name it once"),
        (["--range", "d_model=8,16"], "--range d_model: d_model is given twice; name it once"),
        (["--range", "steps=8,16"], "--range steps: steps is given twice; name it once"),
        (["--range", "d_ffn=8,16"], "trial 0: --set d_ffn=.*: there is no setting d_ffn; use d_ff"),
    ],
)
def test_mistakes(tmp_path: Path, options: list[str], more: list[str], message: str) -> None:
    with pytest.raises(SystemExit, match=message):
        searched(tmp_path / "s", options, *more)


def test_mistakes_of_ranges(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    messages = {"a": "no range", "a=1..b": "not two numbers", "a=2..1": "LOW must be below", "a=log:0..1": "above 0"}
    for text, words in messages.items():
        with pytest.raises(SystemExit):
            search.main(["--out", str(tmp_path / "s"), "--range", text, "--", "--data", "x"])
        assert words in capsys.readouterr().err and not (tmp_path / "s").exists()


def test_without_validation_there_is_nothing_to_choose_by(tmp_path: Path, options: list[str]) -> None:
    with pytest.raises(SystemExit, match="no validation loss to choose by; give --validation"):
        searched(tmp_path / "s", [*options[:2], *options[4:]])
    assert not json.loads((tmp_path / "s" / search.DESCRIPTION).read_text())["train"].count("--validation")
