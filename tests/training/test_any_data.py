"""`grove train` with its defaults on any data: unseen words and labels, small files, few steps, other file names."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import accel
from accel import cli
from accel.data.corpora.parallel import find_ends, find_stem
from accel.tasks.job import TASKS
from accel.trained.opening import open_model
from tests.fixtures.command_line import Grove, settings

TINY_TG = settings(("d_model=8", "n_heads=2", "d_ff=8", "n_layers=1"))
TAGGED = ["(S (NP (DT the) (NN dog)) (VP (VBZ barks)))", "(S (NP-SBJ (DT the) (NN cat)) (VP (VBZ barks) (-NONE- *)))"]
UNSEEN = ["(S (NP (DT the) (JJ supernatural)) (FRAG (VBZ purrs)))"]


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def first_lines(err: str) -> list[str]:
    """Return what a run says before its progress."""
    return [line for line in err.splitlines() if "step/s" not in line]


@pytest.mark.parametrize("kind", ["unknown_classes", "sentencepiece"])
def test_a_treebank_with_new_words_and_labels_and_few_steps(tmp_path: Path, run_grove: Grove, kind: str) -> None:
    train, valid = write(tmp_path / "train", TAGGED), write(tmp_path / "valid", UNSEEN)
    files = ("--data", train, "--validation", valid, "--out", tmp_path / "run", "--steps", 5)
    more = () if kind == "unknown_classes" else ("--vocabulary", kind)
    status, _, err = run_grove("train", *files, *TINY_TG, *more)
    assert status == 0, err
    lines = "\n".join(first_lines(err))
    assert f"{kind}: " in lines and "with 5 labels" in lines and "labels only in valid, not learned: FRAG" in lines
    assert "5 steps; the learning rate rises for 0 of them, as warmup_steps=30 does not fit" in lines
    assert "part-of-speech tags: dropped (--keep-tags keeps them)" in lines and "--drop-traces drops them" in lines
    assert "--drop-function-tags cuts them to NP" in lines
    model = open_model(accel.load("cpu"), tmp_path / "run")
    assert model.vocabulary.kind == kind and model.reading is not None and model.reading.drop_preterminals
    assert run_grove("train", "--out", tmp_path / "run", "--resume")[0] == 0
    assert run_grove("score", "--checkpoint", tmp_path / "run", valid)[0] == 0


def test_a_treebank_without_tags_and_a_closed_vocabulary(
    tmp_path: Path, run_grove: Grove, mistake: Callable[..., str]
) -> None:
    train = write(tmp_path / "train", ["(S (NP the old dog) (VP barks))", "(S (NP they) (VP sees the cat))"])
    valid = write(tmp_path / "valid", ["(S (NP they) (VP purrs))"])
    run = ("train", "--data", train, "--out", tmp_path / "run", "--steps", 2, *TINY_TG)
    wrong = mistake(*run, "--validation", valid, "--vocabulary", "words")
    assert wrong.startswith(f"{valid}:1: the word 'purrs' is not in the closed vocabulary of ")
    assert wrong.endswith("; use --vocabulary unknown_classes")
    status, _, err = run_grove(*run)
    assert status == 0 and "part-of-speech tags: there are none" in err, err


def test_a_text_with_new_words_and_sizes_that_ten_does_not_divide(
    tmp_path: Path, run_grove: Grove, mistake: Callable[..., str]
) -> None:
    lines = ["the dog barks and the dog sleeps", "the cat sleeps and purrs"] * 2 + ["a zebra"]
    train, valid = write(tmp_path / "train", lines), write(tmp_path / "valid", ["the zebra and a lion sleeps"])
    files = ("--task", "language_model", "--data", train, "--validation", valid, "--test", valid)
    sizes = settings(("embedding_size=12", "hidden_size=16", "n_layers=2"))
    small = ("--batch-size", 2, "--length", 5, "--steps", 3, "--out", tmp_path / "run", *sizes)
    wrong = mistake("train", *files, *small, "--min-count", 1)
    assert wrong.startswith(f"{valid}:1: the word 'lion' is not in the closed") and wrong.endswith("use --min-count 2")
    status, _, err = run_grove("train", *files, *small)
    assert status == 0, err
    assert "vocabulary: 9 words, <unk> for all others: 42.9% of valid" in err
    assert "master gates: one for every 4 units (chunk_size)" in err
    assert open_model(accel.load("cpu"), tmp_path / "run").config.chunk_size == 4


def test_a_run_from_before_there_were_these_options_resumes(tmp_path: Path, run_grove: Grove) -> None:
    train, run = write(tmp_path / "train", ["a b c", "d e f g"]), tmp_path / "run"
    sizes = settings(("embedding_size=10", "hidden_size=20", "n_layers=2", "chunk_size=10"))
    small = ("--batch-size", 2, "--length", 3, "--steps", 3, "--min-count", 1, *sizes)
    assert run_grove("train", "--task", "language_model", "--data", train, "--out", run, *small)[0] == 0
    content = json.loads((run / "config.json").read_text())
    del content["options"]["min_count"], content["options"]["vocabulary_size"]
    content["options"]["set"].remove("chunk_size=10")  # a default then
    (run / "config.json").write_text(json.dumps(content))
    status, _, err = run_grove("train", "--out", run, "--resume")
    assert status == 0 and "vocabulary: 8 words; a word outside is an error" in err, err


def test_options_are_refused_before_anything_is_read(tmp_path: Path, mistake: Callable[..., str]) -> None:
    nowhere = ("--data", tmp_path / "nowhere", "--out", tmp_path / "run")
    for task in (
        "trees", "language_model", "logic", "sentiment", "inference", "agreement", "arithmetic", "translation", "cogs",
        "scan", "acceptability", "glue", "cognition", "summarisation", "gpst", "span_parser",
    ):  # fmt: skip
        for setting, reason in (
            ("batch_size=0", "the least whole number is 1"),
            ("maximum_rate=nan", "it must be at least 0"),
        ):
            wrong = mistake("train", "--task", task, *nowhere, "--set", setting)
            assert wrong.startswith(f"{setting.replace('=', ': ')}, but {reason}"), task
        assert mistake("train", "--task", task, *nowhere, "--seed", -1).startswith("seed: -1, but the least "), task
        assert mistake("train", "--task", task, *nowhere).startswith(f"{tmp_path}/nowhere"), task
    assert mistake("train", "--task", "gpst", *nowhere, "--epochs", 0) == "--epochs 0: at least 1 is needed"
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("task", TASKS)
def test_settings_are_listed_without_a_run(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for out in ((), ("--out", "new")):
        with pytest.raises(SystemExit, match="^0$"):
            cli.main(["train", "--task", task, "--set", "help", *out])
        assert "\nbatch_size=" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_a_model_of_another_task_is_named_with_its_task(mistake: Callable[..., str]) -> None:
    train = ("train", "--out", "new", "--data", "nowhere", "--model")
    wrong = mistake(*train, "gpst")
    assert wrong.startswith("--model gpst: is no model of the task trees: use --task gpst, or one of "), wrong
    assert "glue" in wrong and "translation" not in wrong
    wrong = mistake(*train, "gpst", "--task", "translation")
    assert wrong.startswith("--model gpst: is no model of the task translation: use --task "), wrong
    assert mistake(*train, "gpstt") == "--model gpstt: choose one of tg, txl_cc, txl_terminals"
    assert mistake(*train, "tg", "--task", "gpst").endswith(": is no model of the task gpst: use --task trees")


def test_what_is_no_treebank_and_no_file_is_named(tmp_path: Path, mistake: Callable[..., str]) -> None:
    text = write(tmp_path / "train.txt", ["they sing"])
    wrong = mistake("train", "--data", text, "--out", tmp_path / "run")
    assert wrong.startswith(f"{text}:1:1: terminal outside the root: they; use trees in brackets, such as (S ")
    wrong = mistake("train", "--task", "sentiment", "--data", text, "--validation", text, "--out", tmp_path / "run")
    assert wrong.startswith(
        f"{text}:1:1: terminal outside the root: they; use trees with a class at every node, as (3 "
    )
    for task in ("trees", "sentiment", "inference", "language_model", "span_parser"):  # gpst reads folders
        wrong = mistake("train", "--task", task, "--data", tmp_path, "--out", tmp_path / "run")
        assert wrong == f"--data {tmp_path}: a folder, but one file is needed; use {text}"
        wrong = mistake("train", "--task", task, "--data", text, "--validation", tmp_path, "--out", tmp_path / "run")
        assert wrong == f"--validation {tmp_path}: a folder, but one file is needed; use a file in it"
    for task in ("translation", "summarisation", "cogs", "glue", "cognition", "acceptability"):  # several files
        wrong = mistake("train", "--task", task, "--data", text, "--out", tmp_path / "run")
        assert wrong.startswith(f"{text}: neither a folder nor an archive that can be opened (no form of tar or zip): ")
    wrong = mistake("train", "--task", "summarisation", "--data", tmp_path, "--out", tmp_path / "run")
    assert wrong.startswith(f"{tmp_path}: no train.article and train.title: ") and wrong.endswith("; use --train-stem")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_pipes_are_refused(tmp_path: Path, mistake: Callable[..., str]) -> None:
    text, pipe = write(tmp_path / "train.txt", ["they sing"]), tmp_path / "pipe"
    os.mkfifo(pipe)
    reason = "a pipe, but grove train reads its data more than once: name a file"
    for task in ("trees", "sentiment", "language_model", "gpst", "masked_words", "span_parser"):
        wrong = mistake("train", "--task", task, "--data", pipe, "--out", tmp_path / "run")
        assert wrong == f"--data {pipe}: {reason}"
        wrong = mistake("train", "--task", task, "--data", text, "--validation", pipe, "--out", tmp_path / "run")
        assert wrong == f"--validation {pipe}: {reason}"


def test_settings_are_listed_and_misspelt_names_answered(
    tmp_path: Path, run_grove: Grove, mistake: Callable[..., str]
) -> None:
    with pytest.raises(SystemExit) as exit_info:
        run_grove("train", "--task", "logic", "--out", tmp_path / "run", "--set", "help")
    assert exit_info.value.code == 0
    command = ("train", "--task", "logic", "--out", tmp_path / "run", "--set")
    assert mistake(*command, "hiden_size=3") == "--set hiden_size=3: there is no setting hiden_size; use hidden_size"
    assert mistake(*command, "xyz=3") == "--set xyz=3: there is no setting xyz; use --set help for a list"
    assert mistake(*command, "compare=no").startswith("--set compare=no: compare is true or false; use compare=VALUE")


def test_a_paragraph_without_final_marks_names_the_option(
    tmp_path: Path, run_grove: Grove, mistake: Callable[..., str]
) -> None:
    text = write(tmp_path / "text", ["the dog barks", "the cat purrs"] * 5)
    small = settings((
        "d_model=4", "n_heads=2", "type_layers=1", "token_layers=1", "d_compose=4", "compose_heads=2", "d_parser=4",
        "compose_layers=1", "d_score=3", "parser_heads=2", "parser_layers=1", "parser_feed_forward=3",
    ))  # fmt: skip
    run = (
        "train",
        "--task",
        "gpst",
        "--data",
        text,
        "--out",
        tmp_path / "run",
        "--max-tokens",
        20,
        "--steps",
        1,
        *small,
    )
    wrong = mistake(*run)
    too_long = r":1: a sentence of \d+ tokens, more than a context may have, 20; use --sentence-a-line"
    assert re.match(re.escape(str(text)) + too_long, wrong)
    status, _, err = run_grove(*run, "--sentence-a-line")
    assert status == 0 and "sentences: 3 words on average, one a line" in err, err
    assert re.search(r"vocabulary: \d+ ids, sentencepiece", err)


NAMES = {
    "plain": ["train.en", "train.de", "valid.en", "valid.de", "test.en", "test.de"],
    "multi30k": ["train.lc.en.xz", "train.lc.de.xz", "val.lc.en", "val.lc.de", "test_2016.lc.en", "test_2016.lc.de"],
    "dev": ["train.en", "train.de", "dev.en", "dev.de", "README.md", "train.txt"],
}


@pytest.mark.parametrize("names", NAMES)
def test_parallel_files_are_found_by_their_names(tmp_path: Path, names: str) -> None:
    for name in NAMES[names]:
        write(tmp_path / name, ["a"])
    if names == "dev":  # there is a third ending
        with pytest.raises(ValueError, match="^--target: not given, and .* has files in de, en, txt; use --target en"):
            find_ends(tmp_path, "de", None)
        (tmp_path / "train.txt").unlink()
    ends = find_ends(tmp_path, "de", None)
    assert ends == ("de", "en") and find_ends(tmp_path, None, "de") == ("en", "de")
    with pytest.raises(ValueError, match="^--source: not given, and .* has files in de and en; use --source de or "):
        find_ends(tmp_path, None, None)
    expected = {
        "plain": ("train", "valid", "test"),
        "multi30k": ("train.lc", "val.lc", "test_2016.lc"),
        "dev": ("train", "dev", None),
    }
    parts = (("train",), ("valid", "val", "dev"), ("test",))
    assert tuple(find_stem(tmp_path, ends, part, "--stem") for part in parts) == expected[names]
    write(tmp_path / "val.de", ["a"])
    write(tmp_path / "val.en", ["a"])
    if names != "multi30k":
        with pytest.raises(ValueError, match="^--stem: not given, and .* has .*val.*; use --stem "):
            find_stem(tmp_path, ends, parts[1], "--stem")


def test_translation_of_other_languages_without_a_test_file(
    tmp_path: Path, run_grove: Grove, mistake: Callable[..., str]
) -> None:
    for name in ("train.lo", "val.lo"):
        write(tmp_path / name, ["a b", "b c", "c a"])
    write(tmp_path / "train.up", ["A B", "B C", "C A"])
    small = settings(("d_model=4", "d_ff=4", "n_layers=1", "n_heads=2"))
    run = ("train", "--task", "translation", "--data", tmp_path, "--source", "lo", "--out", tmp_path / "run", *small)
    wrong = mistake(*run, "--steps", 2)
    assert wrong == f"{tmp_path}: no valid.lo and valid.up: it has train; use --validation-stem"
    write(tmp_path / "val.up", ["A B", "B Z", "C A"])
    status, out, err = run_grove(*run, "--steps", 2)
    assert status == 0 and not (tmp_path / "run" / "evaluation.json").exists(), err
    assert "files: train train, validation val, test none; from lo to up" in err
    assert "rises for all of them, as warmup_steps is 8,000; use --set warmup_steps=1 to let it fall" in err
    assert out == f"{tmp_path}/run/best.safetensors\n"
