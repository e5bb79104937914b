"""Standard input and output, byte-order marks, blank lines, and progress: the same for every command."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from accel import cli
from accel.data.files import progress
from accel.trained import opening
from refimpl.trees import words
from tests.fixtures.command_line import Grove
from tests.fixtures.tiny_runs import save_tiny
from tests.fixtures.toy_house import SMALL, House, short_sentences


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    return House(tmp_path_factory.mktemp("house"), ("tg", "words"))


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """Set what is typed on standard input."""
    return lambda text: monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))


def test_trees_come_from_standard_input(
    house: House, typed: Callable[[bytes], None], grove: Callable[..., str]
) -> None:
    score = ("score", *house.checkpoints("tg"))
    expected = grove(*score, house.valid)
    trees = house.valid.read_bytes()
    for text in (trees, trees.replace(b"\n", b" "), b"\n\n" + trees.replace(b"\n", b"\r\n\n"), b"\xef\xbb\xbf" + trees):
        typed(text)
        assert grove(*score, "-") == expected
    perplexity = ("perplexity", *house.checkpoints("tg"), "--numbered", "--proposals")
    expected = grove(*perplexity, house.numbered)
    typed(house.numbered.read_bytes())
    assert grove(*perplexity, "-") == expected


def test_places_in_standard_input_are_named(
    house: House, typed: Callable[[bytes], None], mistake: Callable[..., str]
) -> None:
    typed(b"(S they)\n(S (NP) sing)\n")
    assert mistake("score", *house.checkpoints("tg"), "-") == "<stdin>:2:7: empty constituent: (NP"
    typed(b"they sing\n\nthe zebra sings\n")
    message = mistake("parse", *house.checkpoints("tg"), "-")
    assert message.startswith("<stdin>:3: the word 'zebra' is not in the closed vocabulary")


def test_output_of_lines_is_blank_where_the_text_is(
    house: House, typed: Callable[[bytes], None], tmp_path: Path, grove: Callable[..., str]
) -> None:
    first, second = (" ".join(sentence) for sentence in short_sentences(house))
    parse = ("parse", *house.checkpoints("tg"), *SMALL)
    (tmp_path / "text").write_text(f"\n{first}\n \n{second}\n\n")
    trees = grove(*parse, tmp_path / "text").split("\n")
    assert [bool(line) for line in trees] == [False, True, False, True, False, False]
    typed((tmp_path / "text").read_bytes())
    assert grove(*parse, "-", "--out", "-").split("\n") == trees
    table = grove("surprisal", *house.checkpoints("tg"), *SMALL, tmp_path / "text").splitlines()[1:]
    assert {line.split("\t")[0] for line in table} == {"2", "4"}


def test_figures_go_to_stderr_where_trees_go_to_stdout(house: House, tmp_path: Path, run_grove: Grove) -> None:
    rerank = ("rerank", *house.checkpoints("tg"), "--proposals", house.proposals, "--gold", house.valid)
    _, expected, _ = run_grove(*rerank, "--out", tmp_path / "chosen")
    assert run_grove(*rerank, "--out", "-") == (0, (tmp_path / "chosen").read_text(), expected)
    _, expected, _ = run_grove(*rerank, "--rows", tmp_path / "rows")
    assert run_grove(*rerank, "--rows", "-") == (0, (tmp_path / "rows").read_text(), expected)


def test_a_pipe_is_written_and_a_link_is_followed(house: House, tmp_path: Path, grove: Callable[..., str]) -> None:
    parse = ("parse", *house.checkpoints("tg"), *SMALL, tmp_path / "text")
    (tmp_path / "text").write_text(" ".join(short_sentences(house)[0]))
    tree, pipe, link, old = grove(*parse), tmp_path / "pipe", tmp_path / "link", tmp_path / "old"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    old.write_text("as before")
    link.symlink_to(old)
    for path in (pipe, link):
        assert grove(*parse, "--out", path) == ""
    assert os.read(reader, 1 << 16).decode() == tree and pipe.is_fifo()
    assert old.read_text() == tree and link.is_symlink()
    os.close(reader)
    assert (
        grove("prepare", "text", house.valid, "--convention", "plain", "--out", "-").splitlines()[0].startswith("the")
    )


def test_an_open_file_keeps_what_it_has(house: House, tmp_path: Path) -> None:
    """--out /dev/stdout with `>> FILE` once replaced FILE by another file, and the old content of FILE was lost."""
    prepare = ("prepare", "text", str(house.valid), "--convention", "plain", "--out")
    path, command = tmp_path / "all", [sys.executable, "-m", "accel.cli", *prepare]
    for name in ("/dev/stdout", "/dev/stderr", "/dev/fd/1"):
        path.write_text("earlier\n")
        with path.open("ab") as file:
            subprocess.run([*command, name], stdout=file, stderr=file, check=True)
            file.write(b"later\n")
        lines = path.read_text().splitlines()
        assert (lines[0], lines[-1]) == ("earlier", "later") and len(lines) > 3
        assert list(tmp_path.iterdir()) == [path]
    command[-1:] = ["--out", "/dev/stdout"]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "sentences " in process.stderr and "sentences " not in process.stdout


def test_files_to_write_are_checked_before_the_work(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: Callable[..., str]
) -> None:
    (tmp_path / "file").touch()
    run = save_tiny(tmp_path / "run", "fasttrees")
    out = Path("nowhere/out")
    monkeypatch.setattr(opening.checkpoint, "load", lambda *_: pytest.fail("the model is read before the check"))
    parse = ("parse", *house.checkpoints("tg"), tmp_path / "file")
    for command, option in (((*parse,), "--out"), (("evaluate", run), "--write")):
        assert mistake(*command, option, out) == f"{option} {out}: no directory nowhere: make it first"
        packed = tmp_path / "out.xz"
        assert mistake(*command, option, packed) == f"{option} {packed}: is written unpacked: leave out .xz"
        wrong = mistake(*command, option, tmp_path / "file" / "out")
        assert wrong == f"{option} {tmp_path}/file/out: {tmp_path}/file is a file, not a directory: choose another"
    monkeypatch.setattr(os, "access", lambda path, mode: path != run)  # root may write everywhere
    cannot = f"nothing can be written in {run}: choose another directory"
    for command, option in (((*parse,), "--out"), (("evaluate", run), "--write")):
        assert mistake(*command, option, run / "out") == f"{option} {run}/out: {cannot}"
    cannot = "the scores cannot be written there: copy the run, and evaluate the copy"
    assert mistake("evaluate", run, "--data", house.valid) == f"{run}: {cannot}"


@pytest.mark.parametrize(
    "command",
    [
        "propose text --checkpoint run --out text",
        "propose --trees text --checkpoint run --out link",
        "perplexity --checkpoint run --trees text --rows text",
        "rerank --checkpoint run --proposals text --gold gold --out text",
        "rerank --checkpoint run --proposals text --gold gold --rows gold",
        "rerank --checkpoint run --proposals text --gold gold --parameters a.prm --out a.prm",
        "parse text --checkpoint run --out text",
        "parse --gold gold --checkpoint run --by-sentence gold",
        "embed text --checkpoint run --out text",
        "embed text --checkpoint run --out run/best.safetensors",
        "induction --checkpoint name=run/best.safetensors --gold gold --out run/vocabulary.json",
        "glue name=run --out run/evaluation.json",
        "evaluate run --data text --write text",
        "prepare text gold --out gold",
        "prepare mrg . --out a.mrg",
        "syntaxgym . --checkpoint run --out toy.json",
        "minimal_pairs --checkpoint run --format blimp --data . --out toy.jsonl",
        "minimal_pairs --checkpoint run --format sva --data toy.gold --out toy.text",
    ],
)
def test_a_file_that_is_read_is_not_written(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: Callable[..., str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    names = ("text", "gold", "a.prm", "a.mrg", "toy.json", "toy.jsonl", "toy.gold", "toy.text")
    of_run = ("best.safetensors", "config.json", "vocabulary.json", "evaluation.json")
    for name in (*names, *(f"run/{name}" for name in of_run)):
        (tmp_path / name).write_text("as before")
    (tmp_path / "link").symlink_to("text")
    option, path = command.split()[-2:]
    assert mistake(*command.split()) == f"{option} {path}: this command reads it: name another file"
    assert {file.read_text() for file in tmp_path.rglob("*") if file.is_file()} == {"as before"}


@pytest.mark.parametrize("file", ["metrics.jsonl", "evaluation.json", "evaluation.beam=4.json", "best.evaluation.json"])
def test_figures_of_a_run_are_not_replaced(
    house: House, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: Callable[..., str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text("the old dog sees her")
    run = save_tiny(tmp_path / "run", "fasttrees")
    (run / file).write_text("as before")
    for path in ("run", "run/best.safetensors"):
        wrong = mistake("parse", "text", "--checkpoint", path, "--out", f"run/{file}")
        assert wrong == f"--out run/{file}: holds figures of a run: name another file"
    assert (run / file).read_text() == "as before"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full, which is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_behind_standard_output_is_named(house: House, unbuffered: str) -> None:
    command = [sys.executable, "-m", "accel.cli", "score", *house.checkpoints("tg"), str(house.valid)]
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "wb") as full:
        process = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=environment)
    reason = "grove: error: standard output: No space left on device"
    assert (process.returncode, process.stderr.splitlines()) == (2, [reason])


def test_a_file_is_not_written_that_is_read_as_standard_input(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("as before")
    command = (sys.executable, "-m", "accel.cli", "parse", "--checkpoint", tmp_path / "run", "-", "--out", text)
    with text.open() as file:
        process = subprocess.run(command, stdin=file, capture_output=True, text=True, check=False)
    assert process.returncode == 2 and text.read_text() == "as before"
    assert f"--out {text}: this command reads it: name another file" in process.stderr


@pytest.mark.parametrize(
    ("command", "other"),
    [
        ("rerank --checkpoint run --proposals text --gold gold --out same --rows same", "--out"),
        ("rerank --checkpoint run --proposals text --gold gold --out same --rows link", "--out"),
        ("parse --gold gold --checkpoint run --out same.svg --picture same.svg", "--out"),
        ("parse --gold gold --checkpoint run --picture same.svg --by-sentence same.svg", "--picture"),
    ],
)
def test_two_files_to_write_have_two_names(
    command: str, other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: Callable[..., str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("same")
    option, path = command.split()[-2:]
    assert mistake(*command.split()) == f"{option} {path}: is also the name of {other}: name another file"
    null = "rerank --checkpoint run --proposals text --gold gold --out /dev/null --rows /dev/null"
    assert mistake(*null.split()).startswith("run: ")  # only the run is missing: the null device takes several outputs


def test_a_folder_that_is_read_takes_other_files(
    tmp_path: Path, grove: Callable[..., str], mistake: Callable[..., str]
) -> None:
    (tmp_path / "a.mrg").write_text("( (S (NN They)) )\n")
    for out in ("all.trees", "all.trees", "/dev/null", "/dev/null"):  # the second time, the file exists
        assert grove("prepare", "mrg", tmp_path, "--out", tmp_path / out).startswith("sentences         1\n")
    assert mistake("prepare", "text", "/dev/null", "--out", "/dev/null") == "/dev/null: an empty file"


def test_standard_input_and_output_are_given_once(house: House, mistake: Callable[..., str]) -> None:
    rerank = ("rerank", *house.checkpoints("tg"))
    message = mistake(*rerank, "--proposals", "-", "--gold", "-")
    assert message == "--gold -: standard input is that of --proposals already: name a file"
    message = mistake(*rerank, "--proposals", "-", "--gold", house.valid, "--out", "-", "--rows", "-")
    assert message == "--out -: standard output is that of --rows already: name a file"
    message = mistake("parse", *house.checkpoints("tg"), "--gold", house.valid, "--out", "-", "--by-sentence", "-")
    assert message == "--by-sentence -: standard output is that of --out already: name a file"


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("train --data trees --out -", "--out"),
        ("train --data trees --resume --out -", "--out"),
        ("import weights --kind albert --out -", "--out"),
        ("prepare ptb wsj --out -", "--out"),
        ("prepare bllip wsj --out -", "--out"),
        ("export run -", "DIR"),
    ],
)
def test_a_directory_is_not_written_to_standard_output(
    command: str, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: Callable[..., str]
) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = mistake(*command.split())
    assert wrong == f"{option} -: standard output, but a directory is written: name a directory"
    assert not list(tmp_path.iterdir())


def test_long_work_shows_progress(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_grove: Grove
) -> None:
    monkeypatch.setattr(progress, "SECONDS", 0.0)
    gold = tmp_path / "gold.trees"
    gold.write_text("".join(f"{tree}\n" for tree in house.gold if len(words(tree)) <= 6))
    n_trees = gold.read_text().count("\n")
    status, _, err = run_grove("parse", *house.checkpoints("tg"), "--gold", gold, *SMALL)
    lines = err.splitlines()
    assert status == 0 and any(line.startswith(f"grove: reading {gold}: {n_trees} trees, ") for line in lines)
    assert any(line.startswith("grove: searching ") and " words, " in line for line in lines)
    assert any(line.startswith(f"grove: {n_trees} of {n_trees} trees, ") for line in lines)


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    text = capsys.readouterr().out
    assert cli.main(["--help"]) == 0 and capsys.readouterr().out == text
    assert all(f"  {name}" in text for name in cli.COMMANDS) and '"-" is standard input' in text
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("grove ")
