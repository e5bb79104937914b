"""Users' mistakes: one line that names the file, the line and the column, or the tensor; nothing is lost."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import accel
from accel import cli
from accel.models.transformer_grammars import model as fast
from accel.training import checkpoint
from tests.fixtures.toy_house import House, train


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    return House(tmp_path_factory.mktemp("house"), ("tg", "words"))


@pytest.fixture
def mistake(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command that fails; return its one line after ``grove: error:``."""

    def run(*arguments: object) -> str:
        capsys.readouterr()
        status = cli.main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        lines = err.splitlines()
        assert status == 2 and not out, (status, out)
        assert len(lines) == 1 and lines[0].startswith("grove: error: "), err
        return lines[0].removeprefix("grove: error: ")

    return run


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"(S (NP they)\n(VP raced\n", ":1:1: unclosed bracket: (S"),
        (b"(S they)\n(S (NP) raced)\n", ":2:7: empty constituent: (NP"),
        (b"(S they \xff)\n", ":1:9: not UTF-8: 0xff"),
        (b"", ": an empty file"),
        (b"(S they)\n(S zebra)\n", ":2: the word 'zebra' is not in the closed vocabulary of "),
        (b"(S they)\n(XP they)\n", ":2: the label 'XP' is not in the vocabulary of "),
    ],
    ids=["brackets", "empty constituent", "encoding", "empty file", "word", "label"],
)
def test_bad_trees_are_named_by_file_line_and_column(
    house: House, tmp_path: Path, text: bytes, reason: str, mistake: Callable[..., str]
) -> None:
    path = tmp_path / "bad.trees"
    path.write_bytes(text)
    in_vocabulary = "vocabulary" not in reason
    for command in (
        *([["score", *house.checkpoints("tg"), path]] if in_vocabulary else []),  # `score` scores the other trees
        ["perplexity", *house.checkpoints("tg"), "--trees", path],
        *([] if "label" in reason else [train(tmp_path / "run", house.data, "--validation", str(path))]),  # adds labels
    ):
        message = mistake(*command)
        assert message.startswith(str(path)) and reason in message, message


def test_score_continues_after_a_tree_that_cannot_be_scored(
    house: House, tmp_path: Path, mistake: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = tmp_path / "good.trees", tmp_path / "bad.trees"
    good.write_text("(S they)\n(S they)\n")
    bad.write_text("(XP they)\n(S they)\n(S zebra)\n(S they)\n(INTJ they)\n")
    command = ["score", *house.checkpoints("tg")]
    assert cli.main([*command, str(good)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert cli.main([*command, str(bad)]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines() == ["-", first, "-", second, "-"]
    *reasons, count = err.splitlines()
    assert [reason.split(": ")[2] for reason in reasons] == [f"{bad}:{line}" for line in (1, 3, 5)]
    assert "the label 'INTJ' is not in the vocabulary" in reasons[2] and count == "grove: 3 of 5 trees not scored"
    assert cli.main([*command, "--tokens", str(bad)]) == 1
    assert {line.split("\t")[0] for line in capsys.readouterr().out.splitlines()} == {"tree", "2", "4"}
    bad.write_text("(XP they)\n")
    assert mistake(*command, bad).startswith(f"{bad}:1: the label 'XP' is not in the vocabulary")


def spoiled(house: House, folder: Path, change: Callable[[dict[str, np.ndarray], dict], None]) -> Path:
    """Return the checkpoint of a copy of the run "tg", after `change` changed its parameters or its state."""
    shutil.copytree(house.folder / "tg", folder)
    path = folder / "best.safetensors"
    good = checkpoint.load(path, fast.parameter_shapes(house.model("tg").config))
    parameters, state = dict(good.parameters), dict(good.state)
    change(parameters, state)
    checkpoint.save(path, checkpoint.Checkpoint(parameters, state))
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p, s: p.pop("output_bias"), "tensor parameters.output_bias is missing"),
        (lambda p, s: p.update(more=np.zeros(1, np.float32)), "tensor parameters.more belongs to no such model"),
        (lambda p, s: p.update(output_bias=np.zeros(3, np.float32)), "tensor parameters.output_bias has shape (3,)"),
        (lambda p, s: p.update(output_bias=p["output_bias"] * np.nan), "tensor parameters.output_bias holds a NaN"),
        (lambda p, s: s.update(config=s["config"] | {"d_modle": 1}), "does not hold the configuration of a model"),
        (lambda p, s: s.update(vocabulary="else"), "was trained with another vocabulary than "),
    ],
    ids=["missing", "extra", "shape", "NaN", "configuration", "vocabulary"],
)
def test_bad_checkpoints_are_named_by_file_and_tensor(
    house: House,
    tmp_path: Path,
    change: Callable[[dict[str, np.ndarray], dict], None],
    message: str,
    mistake: Callable[..., str],
) -> None:
    path = spoiled(house, tmp_path / "run", change)
    assert mistake("score", "--checkpoint", path.parent, house.valid).startswith(f"{path}: {message}")


def test_broken_files_of_a_run_are_named(house: House, tmp_path: Path, mistake: Callable[..., str]) -> None:
    run = tmp_path / "run"
    shutil.copytree(house.folder / "tg", run)
    score = ("score", "--checkpoint", run, house.valid)
    path = run / "best.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    assert mistake(*score).startswith(f"{path}: truncated, or not a safetensors file")
    path.unlink()
    (run / "config.json").write_text("{}")
    assert mistake(*score).startswith(f"{run}/config.json: not the settings of a run")
    (run / "vocabulary.json").write_text("[")
    assert mistake(*score).startswith(f"{run}/vocabulary.json: not a vocabulary")
    (run / "vocabulary.json").unlink()
    assert mistake(*score) == f"{run}/vocabulary.json: cannot be read: No such file or directory"
    (run / "checkpoint.safetensors").unlink()
    assert mistake(*score).startswith(f"{run}: no run, for it has neither best.safetensors nor ")
    file = tmp_path / "missing.trees"
    assert mistake("score", *house.checkpoints("tg"), file) == f"{file}: No such file or directory: check the name"


def test_runs_that_are_there_or_not_there(house: House, tmp_path: Path, mistake: Callable[..., str]) -> None:
    there = house.folder / "tg"
    before = {path.name: path.read_bytes() for path in there.iterdir() if path.is_file()}
    assert (
        mistake(*train(there, house.data))
        == f"{there}: holds a run already: resume it with --resume, or choose another directory"
    )
    assert before == {path.name: path.read_bytes() for path in there.iterdir() if path.is_file()}
    message = mistake("train", "--out", tmp_path / "new", "--resume")
    assert message == f"train: --data is missing: {tmp_path}/new holds no run yet"


@pytest.mark.parametrize("resume", [(), ("--resume",)])
def test_a_run_is_no_file(resume: tuple[str, ...], house: House, tmp_path: Path, mistake: Callable[..., str]) -> None:
    (tmp_path / "file").write_text("as before")
    for out in (tmp_path / "file", tmp_path / "file" / "run" / "more"):
        wrong = mistake(*train(out, house.data, *resume))
        assert wrong == f"--out {out}: {tmp_path}/file is a file, not a directory: choose another name"
    assert (tmp_path / "file").read_text() == "as before"


def test_what_is_evaluated_is_a_run(tmp_path: Path, mistake: Callable[..., str]) -> None:
    (tmp_path / "file").write_text("no run")
    advice = "name a directory that `grove train` or `grove export` wrote"
    for path in (tmp_path / "nowhere", tmp_path / "nowhere" / "best.safetensors"):
        assert mistake("evaluate", path) == f"{path}: does not exist; {advice}"
    assert mistake("evaluate", tmp_path).startswith(f"{tmp_path}: no run, for it has neither best.safetensors nor ")
    assert mistake("evaluate", tmp_path / "file").startswith(f"{tmp_path}/file: truncated, or not a safetensors file")


def test_a_nan_in_the_loss_stops_with_its_step(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = fast.loss_and_grad
    monkeypatch.setattr(fast, "loss_and_grad", lambda *a, **o: (float("nan"), *right(*a, **o)[1:]))
    assert cli.main(train(tmp_path / "run", house.data)) == 2
    assert "grove: error: step 1: loss nan" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.filterwarnings("error")
def test_a_training_that_diverges_says_what_to_type(
    house: House, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert cli.main(train(run, house.data, "--set", "maximum_rate=1e30")) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith("grove: error: step ") and message.endswith(
        ": stopped; nothing was saved before; try a lower rate: --resume --set maximum_rate=VALUE, below 1e+30"
    )
    assert cli.main(["train", "--out", str(run), "--resume", "--set", "maximum_rate=1e-3"]) == 0
    assert (run / "checkpoint.safetensors").exists()


def test_a_full_disk_is_named_by_file(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    out = tmp_path / "chosen"
    out.write_text("as before")
    monkeypatch.setattr(os, "replace", full)
    rerank = ["rerank", *house.checkpoints("tg"), "--proposals", house.proposals, "--gold", house.valid]
    rerank += ["--out", out]
    assert cli.main([str(argument) for argument in rerank]) == 2
    assert capsys.readouterr().err == f"grove: error: {out}: No space left on device\n"
    assert [path.name for path in tmp_path.iterdir()] == ["chosen"] and out.read_text() == "as before"
    assert cli.main(train(tmp_path / "run", house.data)) == 2
    assert "No space left on device" in capsys.readouterr().err.splitlines()[-1]


def test_a_backend_that_cannot_run_is_refused(mistake: Callable[..., str]) -> None:
    if accel.available()["cuda"] is not None:
        assert mistake("verify", "cuda", "--require").startswith("cuda: ")
