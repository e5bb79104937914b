"""COGS: its files, and a trained model's accuracy in every category."""

from __future__ import annotations

import json
import lzma
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from accel.data.batches.sequence_pairs import TextPair
from accel.data.files.lines import LineError
from accel.data.published.cogs import PARTS, STRUCTURAL, read_cogs
from accel.tasks import pairs as tasks
from tests.fixtures.command_line import Grove
from tests.fixtures.parallel_text import SMALL

LINE = "A dog slept .\tdog ( x _ 1 ) AND sleep . agent ( x _ 2 , x _ 1 )\tin_distribution\n"


def test_sentences_forms_and_categories(tmp_path: Path) -> None:
    path = tmp_path / "gen.tsv.xz"
    path.write_bytes(lzma.compress((LINE + "Emma\tEmma\tcp_recursion\r\n").encode()))
    assert list(read_cogs(path)) == [
        TextPair(tuple("A dog slept .".split()), tuple(LINE.split("\t")[1].split()), 1, "in_distribution"),
        TextPair(("Emma",), ("Emma",), 2, "cp_recursion"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ": an empty file"),
        (LINE + "a\tb\n", ":2: 2 columns, not 3: sentence, logical form, type"),
        (LINE + "a\tb\tc\td\n", ":2: 4 columns, not 3: sentence, logical form, type"),
        (LINE + "\n", ":2: 1 columns, not 3: sentence, logical form, type"),
        (" \tb\tc\n", ":1: the column 'sentence' is empty"),
        ("a\t\tc\n", ":1: the column 'logical form' is empty"),
        ("a\tb\t\n", ":1: the column 'type' is empty"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "train.tsv"
    path.write_text(text)
    with pytest.raises(LineError) as error:
        list(read_cogs(path))
    assert str(error.value) == f"{path}{message}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Sentences of six names and three verbs; in gen, the last pair has a word that training does not have."""
    pairs = [(name, verb) for name in "ABCDEF" for verb in ("run", "sit", "go")]
    lines = [f"{name} {verb}s\t{verb} ( {name} )\tin_distribution\n" for name, verb in pairs]
    for part in PARTS:
        (tmp_path / f"{part}.tsv").write_text("".join(lines))
    gen = [line.replace("in_distribution", kind) for line, kind in zip(lines, ("x", "pp_recursion", "y"), strict=False)]
    (tmp_path / "gen.tsv").write_text("".join(gen) + "A runs\trun ( Z )\tx\n")
    return tmp_path


def test_trained_and_evaluated(folder: Path, run_grove: Grove, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("--task", "cogs", "--data", folder, "--steps", 160, "--batch-size", 200)
    status, out, err = run_grove("train", *arguments, "--out", folder / "run", *SMALL)
    assert status == 0, err
    figures = json.loads((folder / "run" / "evaluation.json").read_text())
    assert figures["out_of_reach"] == {"test": 0, "gen": 1}
    assert figures["accuracy"] == {
        "test": 1.0, "gen": 0.75, "lexical": 0.75, "structural": 1.0, "pp_recursion": 1.0, "x": 0.5, "y": 1.0,
    }  # fmt: skip
    assert "accuracy pp_recursion 1.0000\n" in out
    monkeypatch.setattr(tasks, "TRAINING", replace(tasks.TRAINING, batch_size=1))  # a longer pair is a batch alone
    assert run_grove("evaluate", folder / "run")[:2] == (0, out[: out.index(str(folder))])
    assert run_grove("evaluate", folder / "run" / "best.safetensors")[:2] == (0, out[: out.index(str(folder))])
    assert json.loads((folder / "run" / "best.evaluation.json").read_text()) == figures
    early = run_grove("evaluate", sorted((folder / "run").glob("checkpoint-*"))[0])
    assert early[0] == 0 and "accuracy test" in early[1]
    (folder / "text").write_text("B sits\n")
    assert run_grove("translate", "--checkpoint", folder / "run", folder / "text")[:2] == (0, "sit ( B )\n")


def test_mistakes(folder: Path, run_grove: Grove) -> None:
    def failed(*more: object) -> str:
        arguments = ("--task", "cogs", "--data", folder, "--out", folder / "run", "--steps", 1)
        status, _, err = run_grove("train", *arguments, *SMALL, *more)
        assert status == 2 and not (folder / "run").exists()
        return err

    message = "train.tsv:1: source and target have 8 tokens, more than a batch may have, 7"
    assert message in failed("--batch-size", 7)
    gen = (folder / "gen.tsv").read_text()
    (folder / "gen.tsv").write_text(gen + "a\tb\n")
    assert "gen.tsv:5: 2 columns, not 3" in failed()  # before the training
    (folder / "gen.tsv").write_text(gen)
    (folder / "dev.tsv").write_text("a\tb\n")
    assert "dev.tsv:1: 2 columns, not 3" in failed()
    (folder / "dev.tsv").unlink()
    assert "dev.tsv" in failed() and "no such file" in failed()


def test_real_files(data_dir: Path) -> None:
    """The files have the published sizes; training lacks two misspelt words and the numbers after 18."""
    pairs = {part: list(read_cogs(data_dir / "cogs" / f"{part}.tsv.xz")) for part in PARTS}
    assert [len(pairs[part]) for part in PARTS] == [24_155, 3_000, 3_000, 21_000]
    counts = Counter(pair.kind for pair in pairs["gen"])
    assert len(counts) == 21 and set(counts.values()) == {1000} and set(STRUCTURAL) < set(counts)
    known_words = {word for pair in pairs["train"] for side in (pair.source, pair.target) for word in side}
    unknown = {word for pair in pairs["gen"] for word in (*pair.source, *pair.target)} - known_words
    assert {word for word in unknown if not word.isdecimal()} == {"gardner", "monastery"}
    assert {word for word in unknown if word.isdecimal()} <= {str(i) for i in range(19, 61)}
