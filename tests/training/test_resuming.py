"""`grove train` on a run's directory: a refused command changes no file, and a run can be lengthened."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from accel import cli
from accel.models.transformer_grammars import model as transformer_grammar
from accel.training import checkpoint, lock
from accel.training.directory import EXPORTED, SETTINGS
from accel.training.run import BEST, METRICS, NEWEST
from tests.fixtures.command_line import Grove
from tests.fixtures.toy_house import House, train
from tests.fixtures.toy_run import metrics


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    """A treebank, and a run of six steps."""
    return House(tmp_path_factory.mktemp("house"), ("tg",))


def contents(folder: Path) -> dict[str, bytes | None]:
    """Return the bytes of all files, and None for folders, by their names."""
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}


def copy_of(house: House, tmp_path: Path) -> Path:
    return Path(shutil.copytree(house.folder / "tg", tmp_path / "run"))


KEEPS = "a resumed run keeps its settings"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seed", "4"], f": {KEEPS}: --seed: 0, now 4; leave them as they were, or train in another directory"),
        (
            ["--batch-size", "3", "--set", "d_model=32"],
            f": {KEEPS}: --set d_model: 16, now 32; --batch-size: 32, now 3",
        ),
        (["--steps", "3"], f"/{NEWEST}: the run has made 6 steps: --steps 3, but at least 6 steps"),
        (["--steps", "9", "--set", "warmup_steps=5"], f": {KEEPS}: --set warmup_steps: 2, now 5"),
        (["--model", "txl_cc"], f": {KEEPS}: --model: tg, now txl_cc"),
        (["--vocabulary", "unknown_classes"], f": {KEEPS}: --vocabulary: "),
        (["--drop-traces"], f": {KEEPS}: --drop-traces: False, now True"),
        (["--validation", "{train}"], f": {KEEPS}: --validation: "),
        (["--data", "{valid}"], f": {KEEPS}: --data: "),
        (["--task", "logic"], "holds a run of the task trees"),
        (["--set", "d_modle=3"], "--set d_modle=3: there is no setting d_modle"),
        (["--set", "dropout=nan"], ""),
        (["--data", "nowhere"], ""),
    ],
)
def test_a_refused_resume_leaves_the_run_as_it_is(
    house: House, tmp_path: Path, arguments: list[str], message: str, mistake: Callable[..., str]
) -> None:
    directory = copy_of(house, tmp_path)
    before = contents(directory)
    options = [text.format(train=house.data, valid=house.valid) for text in arguments]
    assert message in mistake("train", "--out", directory, "--resume", *options)
    assert contents(directory) == before


@pytest.mark.parametrize(
    ("name", "changed"),
    [("data", lambda lines: lines * 2), ("data", lambda lines: lines[::-1]), ("validation", lambda lines: lines[::-1])],
)
def test_other_trees_in_the_place_of_the_data_are_refused(
    house: House, tmp_path: Path, name: str, changed: Callable[[list[str]], list[str]], mistake: Callable[..., str]
) -> None:
    """The path is the same, with more trees or in another order; a run of an older version has no digests of data."""
    paths, run = {"data": tmp_path / "trees", "validation": tmp_path / "valid"}, tmp_path / "run"
    for path in paths.values():
        shutil.copy(house.data, path)
    assert cli.main(train(run, paths["data"], "--validation", paths["validation"])) == 0
    trees = house.data.read_text()
    paths[name].write_text("".join(changed(trees.splitlines(keepends=True))))
    before = contents(run)
    message = mistake("train", "--out", run, "--resume", "--steps", 9)
    assert message.startswith(
        f"{run}: a resumed run keeps its data: {paths[name]} has other contents than at its start"
    )
    assert contents(run) == before
    paths[name].write_text(trees)
    settings = json.loads((run / SETTINGS).read_text())
    del settings["options"]["contents"]
    (run / SETTINGS).write_text(json.dumps(settings))
    assert cli.main(["train", "--out", str(run), "--resume", "--steps", "9"]) == 0


def test_blanks_in_a_setting_mean_nothing(house: House, tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = [text.replace("--steps=6", "--set=steps = 3") for text in train(run, house.data)]
    assert cli.main([*command, "--set", "warmup_steps= 1"]) == 0
    assert cli.main(["train", "--out", str(run), "--resume", "--steps", "6"]) == 0
    assert [line["step"] for line in metrics(run)] == [1, 2, 3, 4, 5, 6]


def test_data_that_have_moved_are_asked_for(house: House, tmp_path: Path, mistake: Callable[..., str]) -> None:
    paths = {"data": tmp_path / "trees", "validation": tmp_path / "valid"}
    for path in paths.values():
        shutil.copy(house.data, path)
    run = tmp_path / "run"
    assert cli.main(train(run, paths["data"], "--validation", paths["validation"])) == 0
    new_paths, before = {name: path.rename(f"{path}-2") for name, path in paths.items()}, contents(run)
    resume = ["train", "--out", run, "--resume", "--steps", "9"]
    for name, path in paths.items():
        use = f"if it has moved, add --{name} and its new name"
        assert mistake(*resume) == f"{run}: resumes with {path}, which is not there: {use}"
        resume += [f"--{name}", new_paths[name]]
    assert contents(run) == before
    assert cli.main([str(text) for text in resume]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--validation", "{bad}"], "bad:1:1: unclosed bracket: (S"),
        (["--set", "n_heads=3"], "n_heads"),
        (["--set", "select=accuracy"], "select: "),
        (["--data", "nowhere"], "nowhere"),
    ],
)
def test_a_refused_start_leaves_nothing(
    house: House, tmp_path: Path, arguments: list[str], message: str, mistake: Callable[..., str]
) -> None:
    (tmp_path / "bad").write_text("(S they\n")
    options = [text.format(bad=tmp_path / "bad") for text in arguments]
    assert message in mistake(*train(tmp_path / "new" / "run", house.data, *options))
    assert not (tmp_path / "new").exists()
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "notes").write_text("mine")
    assert message in mistake(*train(tmp_path / "old", house.data, *options))
    assert contents(tmp_path / "old") == {"notes": b"mine"}


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.json", '{"model_type": "gpt2"}'),
        ("config.json", '{"library_name": "grove-lm", "reading": null, "options": {"task": "trees"}}'),
        ("config.json", "["),
        ("config.json", "[]"),
        ("vocabulary.json", '{"the": 0}'),
        ("tables.safetensors", "mine"),
        (BEST, "mine"),
        (EXPORTED, "mine"),
    ],
)
def test_files_of_something_else_are_not_replaced(
    house: House, tmp_path: Path, name: str, text: str, resume: bool, mistake: Callable[..., str]
) -> None:
    (tmp_path / name).write_text(text)
    message = mistake(*train(tmp_path, house.data, *(["--resume"] * resume)))
    assert contents(tmp_path) == {name: text.encode()}
    if not resume or name not in ("config.json", "vocabulary.json"):  # --resume reads these
        but = f"is there already, and {tmp_path} holds no run that can be resumed"
        assert message == f"{tmp_path / name}: {but}: choose another directory"


@pytest.mark.parametrize("name", [BEST, EXPORTED])
@pytest.mark.parametrize("resume", [False, True])
def test_weights_beside_settings_are_not_replaced(
    house: House, tmp_path: Path, mistake: Callable[..., str], name: str, resume: bool
) -> None:
    """A folder that `grove import` or `write_weights` writes has such files."""
    directory = copy_of(house, tmp_path)
    (directory / BEST).rename(directory / name)
    for of_run in (METRICS, NEWEST):
        (directory / of_run).unlink()
    before = contents(directory)
    message = mistake(*train(directory, house.data, *(["--resume"] * resume)))
    assert message.startswith(f"{directory / name}: is there already, ")
    assert contents(directory) == before


@pytest.mark.parametrize("written", [("config.json",), ("config.json", "vocabulary.json")])
@pytest.mark.parametrize("resume", [False, True])
def test_a_run_that_ended_before_its_first_step_begins_again(
    house: House, tmp_path: Path, written: tuple[str, ...], resume: bool, run_grove: Grove
) -> None:
    finished, directory = house.folder / "tg", tmp_path / "run"
    directory.mkdir()
    for name in written:
        shutil.copy(finished / name, directory / name)
    arguments = ("--out", directory, "--resume") if resume else train(directory, house.data)[1:]
    assert run_grove("train", *arguments, "--validation", house.valid)[0] == 0
    assert (directory / NEWEST).read_bytes() == (finished / NEWEST).read_bytes()


def test_settings_are_what_a_run_writes_first(
    house: House, tmp_path: Path, run_grove: Grove, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The settings mark the directory as that of the run."""

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("accel.commands.train.write_text", full)
    assert run_grove(*train(tmp_path, house.data))[0] == 2
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".json"] == ["config.json"]
    monkeypatch.undo()
    assert run_grove(*train(tmp_path, house.data))[0] == 0


def test_what_was_given_before_may_be_given_again_and_files_may_move(
    house: House, tmp_path: Path, run_grove: Grove
) -> None:
    directory, data = copy_of(house, tmp_path), tmp_path / "moved"
    shutil.copy(house.data, data)
    options = ("--seed", "0", "--model", "tg", "--set", "d_model=16", "--set", "checkpoint_every=3", "--data", data)
    assert run_grove("train", "--out", directory, "--resume", "--steps", 8, *options)[0] == 0
    assert len(metrics(directory)) == 8


def test_an_interrupt_says_what_is_kept(
    house: House, tmp_path: Path, run_grove: Grove, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: object, **options: object) -> object:
        raise KeyboardInterrupt

    right = transformer_grammar.loss_and_grad
    monkeypatch.setattr(transformer_grammar, "loss_and_grad", interrupted)
    directory = copy_of(house, tmp_path)
    status, _, err = run_grove(*train(tmp_path / "new", house.data))
    assert status == 130 and err.splitlines()[-1] == "grove: interrupted; nothing was saved"
    status, _, err = run_grove("train", "--out", directory, "--resume", "--steps", 9)
    line = f"grove: interrupted; what was saved before is kept in {directory}"
    assert status == 130 and err.splitlines()[-1] == line
    assert checkpoint.read_state(directory / NEWEST)["step"] == 6

    def stopped(*arguments: object, **options: object) -> object:
        os.kill(os.getpid(), signal.SIGTERM)
        return right(*arguments, **options)

    monkeypatch.setattr(transformer_grammar, "loss_and_grad", stopped)
    status, _, err = run_grove("train", "--out", directory, "--resume", "--steps", 9)
    saved = f"step 7 of 9 is saved in {directory / NEWEST}"
    assert status == 143 and err.splitlines()[-1] == f"grove: stopped: {saved}; continue with --resume"


def test_a_run_that_another_process_trains_is_refused(
    house: House, tmp_path: Path, mistake: Callable[..., str], run_grove: Grove
) -> None:
    """The error names process and host; a lock is taken over if its process is of this host and has ended."""
    directory = copy_of(house, tmp_path)
    program = (
        "import sys; from pathlib import Path; from accel.training.lock import locked\n"
        f"with locked(Path({str(directory)!r})): print('locked', flush=True); sys.stdin.read()"
    )
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "cwd": Path(__file__).parents[2], "text": True}
    with subprocess.Popen([sys.executable, "-c", program], **options) as other:
        assert other.stdout is not None and other.stdout.readline() == "locked\n"
        before = contents(directory)
        message = mistake("train", "--out", directory, "--resume", "--steps", 8)
        who = f"process {other.pid} on {socket.gethostname()}"
        assert message == f"{directory}: {who} trains this run; wait for its end, or end it"
        assert contents(directory) == before and lock.holder(directory) == (other.pid, socket.gethostname())
        other.kill()
    assert (directory / lock.LOCK).exists() and lock.holder(directory) is None
    assert run_grove("train", "--out", directory, "--resume", "--steps", 8)[0] == 0
    assert not (directory / lock.LOCK).exists()
    (directory / lock.LOCK).write_text(f"{os.getpid()} elsewhere\n")
    message = mistake("train", "--out", directory, "--resume", "--steps", 9)
    advice = f"if it has ended, remove {directory / lock.LOCK}"
    assert message == f"{directory}: process {os.getpid()} on elsewhere trains this run; {advice}"
    assert lock.holder(directory) == (os.getpid(), "elsewhere")
