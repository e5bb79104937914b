"""The queue of runs: it makes them in order, resumes after every kind of end, and records where results come from."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from accel.data.generated.grammar import ENGLISH
from accel.evaluation.evalb_input import with_tags
from examples import queue, queue_state
from examples.commands import grove
from examples.queue_commands import Run, selected
from examples.queue_results import missing, of_best
from refimpl.trees import words

COUNT = """
import json, sys, time
from pathlib import Path
directory, steps = Path(sys.argv[1]), int(sys.argv[2])
directory.mkdir(parents=True, exist_ok=True)
for step in range(steps):
    done, hold = directory / str(step), directory.parent.parent / "hold"
    if not done.exists():
        while step > 1 and hold.exists():
            time.sleep(0.02)
        with open(directory.parent / "order.txt", "a") as file:
            file.write(f"{directory.name} {step}\\n")
        done.touch()
(directory / "evaluation.json").write_text(json.dumps({"f1": steps, "code": __file__, "rows": [1]}))
"""
QUEUE = """
import sys
from pathlib import Path
from examples import queue
from examples.queue_commands import Run
queue.RUNS = (
    Run("a/late", "two", 2.0, ("count {run} 2", "count {runs}/a/more 1"), ("{data}",), ("a/other", "a/early")),
    Run("a/other", "one", 1.0, ("count {run} 1",), after=("a/early", "a/not-queued")),
    Run("a/early", "one", 1.0, ("count {run} 4",), ("{data}/text",), seed=3),
    Run("a/broken", "three", 1.0, ("count {run} x",)),
    Run("a/best", "two", 1.0, ("count {best}-again 1",), needs=("a/early", "a/late")),
)
queue.CHECKOUT = Path(sys.argv[1])
queue.main(sys.argv[2:])
"""


class House:
    """A checkout with a program that counts, data, and the folder of a queue."""

    def __init__(self, path: Path) -> None:
        self.checkout, self.folder, self.data = path / "checkout", path / "with blank", path / "data"
        for directory in (self.checkout, self.data):
            directory.mkdir()
        (self.data / "text").write_text("some words")
        (path / "main.py").write_text(QUEUE)
        self.program = path / "main.py"
        self.git("init", "--quiet")
        (self.checkout / "count.py").write_text(COUNT)
        self.git("add", ".")
        self.git("-c", "user.name=x", "-c", "user.email=x", "commit", "--quiet", "-m", "Count")
        (self.checkout / "count.py").write_text("raise SystemExit('what is not committed is not used')")

    def git(self, *arguments: str) -> str:
        return subprocess.run(("git", *arguments), cwd=self.checkout, check=True, capture_output=True, text=True).stdout

    def words(self, *more: object) -> list[str]:
        command = [sys.executable, self.program, self.checkout, "--folder", self.folder]
        return [str(word) for word in (*command, *more)]

    @contextmanager
    def started(self) -> Iterator[subprocess.Popen[str]]:
        root = str(Path(queue.__file__).parent.parent)
        words = self.words("--data", self.data, "--at-once", 1)
        with subprocess.Popen(words, cwd=root, env=os.environ | {"PYTHONPATH": root}, text=True,
                              stdout=subprocess.PIPE) as process:  # fmt: skip
            try:
                yield process
            finally:
                process.kill()

    def status(self) -> str:
        root = str(Path(queue.__file__).parent.parent)
        child = subprocess.run(self.words("--status"), cwd=root, env=os.environ | {"PYTHONPATH": root},
                               check=True, capture_output=True, text=True)  # fmt: skip
        return child.stdout

    def pid(self) -> int:
        """Return the number of the process that makes the run a/early, or 0 between two processes."""
        return int((self.folder / "state" / "a-early.lock").read_text() or 0)


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_queue_resumes_after_every_end(tmp_path: Path) -> None:
    house = House(tmp_path)
    commit = house.git("rev-parse", "HEAD").strip()
    hold = house.folder / "runs" / "hold"  # runs wait after their second step
    hold.parent.mkdir(parents=True)
    hold.touch()
    with house.started() as first:
        wait_for((house.folder / "runs" / "a" / "early" / "1").exists)
        again = subprocess.run(house.words("--data", house.data), cwd=Path(queue.__file__).parent.parent,
                               env=os.environ | {"PYTHONPATH": "."}, capture_output=True, text=True)  # fmt: skip
        assert again.returncode and "a queue works here already" in again.stderr
        assert "running a/early" in house.status() and "one: 0 of 2 runs done" in house.status()
        first.kill()
    left_over = house.pid()
    with house.started() as second:  # ends what the killed queue left running
        wait_for(lambda: house.pid() not in (0, left_over))
        killed = house.pid()
        os.kill(killed, signal.SIGKILL)
        wait_for(lambda: house.pid() not in (0, killed))
        second.send_signal(signal.SIGTERM)
        assert "begun   a/early" in second.communicate(timeout=300)[0] and second.returncode == 0
    house.git("-c", "user.name=x", "-c", "user.email=x", "commit", "--quiet", "-a", "-m", "Break it")
    (house.checkout / "count.py").write_text(COUNT)
    house.git("-c", "user.name=x", "-c", "user.email=x", "commit", "--quiet", "-a", "-m", "Repair it")
    hold.unlink()
    with house.started() as third:
        text, _ = third.communicate(timeout=300)
        assert third.returncode == 1 and "a/broken: failed with 1" in text and "a/best: done" in text
    assert "left: about 1.0 core hours" in text and "one: 2 of 2 runs done; table can be written: complete" in text
    assert "three: 0 of 1 runs done; table can be written: not yet" in text
    order = (house.folder / "runs" / "a" / "order.txt").read_text().splitlines()
    steps = [f"early {step}" for step in range(4)]  # no step is made twice
    assert order == [*steps, "other 0", "late 0", "late 1", "more 0", "early-again 0"]
    result = json.loads((house.folder / "results" / "a-early.json").read_text())
    assert (result["seed"], result["commit"], result["machine"]["threads"]) == (3, commit, 1)
    assert result["core_hours"] >= 0 and list(result["data"]) == ["data/text"]
    clone = house.folder / "clones" / commit[:12]
    assert result["figures"] == {"a/early/evaluation.json": {"f1": 4, "code": str(clone / "count.py")}}
    assert (house.folder / "runs" / "a" / "early" / "commit.txt").read_text().strip() == commit[:12]
    newest = json.loads((house.folder / "results" / "a-other.json").read_text())["commit"]
    assert newest == house.git("rev-parse", "HEAD").strip() != commit
    (house.folder / "results" / "a-other.json").unlink()
    with house.started() as fourth:  # a deleted result is written anew
        assert "a/other: done" in fourth.communicate(timeout=300)[0]
    assert (house.folder / "runs" / "a" / "order.txt").read_text().splitlines() == order


def test_an_error_of_the_queue_is_shown_and_ends_what_runs(tmp_path: Path) -> None:
    house = House(tmp_path)
    runs = ('Run("a/lost", "t", 1.0, ("count {run} 1",), ("{data}/nowhere",))',
            'Run("a/early", "t", 1.0, ("count {run} 4",))')  # fmt: skip
    text = re.sub(r"queue.RUNS = \(.*?\n\)", f"queue.RUNS = ({', '.join(runs)})", QUEUE, flags=re.DOTALL)
    house.program.write_text(text)
    hold = house.folder / "runs" / "hold"
    hold.parent.mkdir(parents=True)
    hold.touch()
    root = str(Path(queue.__file__).parent.parent)
    child = subprocess.run(house.words("--data", house.data, "--at-once", 2), cwd=root, capture_output=True, text=True,
                           env=os.environ | {"PYTHONPATH": root}, timeout=300)  # fmt: skip
    assert child.returncode == 1 and "nowhere" in child.stderr.splitlines()[-1]
    assert house.pid() == 0 and json.loads((house.folder / "state" / "a-early.json").read_text())["hours"] > 0


def test_a_result_holds_the_curve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "train.trees"
    trees = [with_tags(tree, ["X"] * len(words(tree))) for tree in ENGLISH.sample(40, 1)]
    data.write_text("".join(f"{tree}\n" for tree in trees))
    sizes = {"d_model": 16, "d_ff": 16, "n_layers": 1, "n_heads": 2, "warmup_steps": 1, "validate_every": 2}
    options = [word for name, value in sizes.items() for word in ("--set", f"{name}={value}")]
    run = Run("tiny", "one", 1.0, (), ("{data}",), seed=1)
    grove("train", "--data", data, "--validation", data, "--steps", 4, "--batch-size", 2, *options,
          "--out", tmp_path / "runs" / "tiny")  # fmt: skip
    paths = {"out": f"{tmp_path}/runs/tiny", "data": str(data)}
    (tmp_path / "runs" / "tiny" / "of.evaluation.json").write_text(json.dumps(paths))
    result = queue_state.result(tmp_path, run, data, {"commit": "0" * 40, "hours": 0.5})
    assert result["figures"]["tiny/of.evaluation.json"] == {"out": "{runs}/tiny", "data": "{data}"}
    steps, losses = zip(*result["validation_loss"], strict=True)
    assert steps == (2, 4) and result["still_improving"] == (losses[1] < losses[0])
    assert result["settings"]["training"]["steps"] == 4 and result["last_step"]["step"] == 4
    assert result["core_hours"] == 0.5 and len(result["data"]) == 1
    assert "step 4" in queue_state.status(tmp_path, [run])
    (tmp_path / "texts" / "folder").mkdir(parents=True)
    (tmp_path / "texts" / "text").touch()
    state = {"commit": "", "hours": 0}
    of_folder = queue_state.result(tmp_path, run, tmp_path / "texts", state)
    assert list(of_folder["data"]) == ["texts/text"]  # folders have no digest
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "tiny.json").write_text(json.dumps(result))
    monkeypatch.setattr(queue, "COLLECTED", tmp_path / "collected")
    queue.main(["--folder", str(tmp_path), "--collect"])
    assert json.loads((tmp_path / "collected" / "tiny.json").read_text()) == json.loads(json.dumps(result))
    with pytest.raises(SystemExit, match=r"texts: holds no result of a run: give the --folder of a queue"):
        queue.main(["--folder", str(tmp_path / "texts"), "--collect"])
    for more in (["--runs", "logic/*"], ["--missing"]):
        with pytest.raises(SystemExit):
            queue.main(["--folder", str(tmp_path), "--collect", *more])


def test_a_checkout_without_git_is_used_as_it_is(tmp_path: Path) -> None:
    assert queue.clone_at(tmp_path, queue.WITHOUT_GIT) == queue.CHECKOUT


def test_runs_are_selected_by_name_after_those_that_they_need() -> None:
    queued = [Run(name, "t", 1.0, ("c",), needs=needs) for name, needs in
              (("a/x", ()), ("a/y", ()), ("b/x", ("a/x",)), ("b/y", ("b/x", "a/y")), ("c", ()))]  # fmt: skip
    assert [run.name for run in selected(queued, ["*"])] == [run.name for run in queued]
    assert [run.name for run in selected(queued, ["c", "b/*"])] == ["c", "a/x", "b/x", "a/y", "b/y"]
    with pytest.raises(SystemExit, match=r"--runs: no run is named d/\*: .*--status lists"):
        selected(queued, ["c", "d/*"])


def test_runs_are_missing_whose_result_is_not_collected_or_whose_folder_a_missing_run_needs(tmp_path: Path) -> None:
    """The better of two parsers is made again, with its treebank. What finished runs need is not made again.

    A third parser is not yet made; the measured run does not wait for it.
    """
    folder, archive = tmp_path / "folder", tmp_path / "queue"
    queued = (
        Run("treebank", "t", 1.0, ("c",)),
        Run("parser/a", "parsers", 1.0, ("c",), needs=("treebank",)),
        Run("parser/b", "parsers", 1.0, ("c",), needs=("treebank",)),
        Run("parser/c", "parsers", 1.0, ("c",), needs=("treebank",)),
        Run("text", "t", 1.0, ("c",)),
        Run("known", "t", 1.0, ("c",), needs=("text",)),
        Run("measured", "t", 1.0, ("c {best}",), needs=("treebank", "parser/a", "parser/b", "parser/c")),
        Run("apart", "t", 1.0, ("c",)),
    )
    archive.mkdir()
    (folder / "results").mkdir(parents=True)
    of_files = {"treebank": {}, "parser-a": {"f1": 1}, "parser-b": {"f1": 2}, "text": {}, "known": {}}
    for name, figures in of_files.items():
        (archive / f"{name}.json").write_text(json.dumps({"figures": {"file": figures}}))
    first = {run.name: run.needs for run in missing(folder, queued, archive)}
    assert list(first) == ["treebank", "parser/b", "parser/c", "measured", "apart"]
    assert first["measured"] == ("treebank", "parser/b")
    selection = selected(of_best(queued, archive), ["measured"])
    assert [run.name for run in selection] == ["treebank", "parser/b", "measured"]
    for name in ("treebank", "parser-b"):  # results of this folder
        (folder / "results" / f"{name}.json").write_text("{}")
    assert [run.name for run in missing(folder, queued, archive)] == list(first)
    (archive / "measured.json").write_text("{}")
    assert [run.name for run in missing(folder / "another", queued, archive)] == ["treebank", "parser/c", "apart"]
