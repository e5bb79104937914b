"""Summaries: learned from parallel files, and scored as rouge-score scores."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from accel.tasks.summarisation import rouge
from tests.fixtures.command_line import Grove, with_options
from tests.fixtures.parallel_text import SMALL, parallel

__all__ = ["parallel"]


def test_rouge_by_hand() -> None:
    """Common are 3 unigrams, 1 bigram and a subsequence of 2, of 3 and 4 words, and of 2 and 3 bigrams."""
    pytest.importorskip("rouge_score", reason="the extra summarise is not installed")
    scores = rouge([["cat", "the", "sat"]], [["the", "sat", "cat", "down"]], "blanks")
    mean = 100 * (6 / 7 + 2 / 5 + 4 / 7) / 3
    assert scores == pytest.approx({"ROUGE-1": 100 * 6 / 7, "ROUGE-2": 40.0, "ROUGE-L": 100 * 4 / 7, "R-AVG": mean})
    twice = rouge([["cat", "the", "sat"], ["a"]], [["the", "sat", "cat", "down"], ["b"]], "blanks")
    assert twice == pytest.approx({name: score / 2 for name, score in scores.items()})


def test_words_and_stems() -> None:
    pytest.importorskip("rouge_score", reason="the extra summarise is not installed")
    summary, reference = [["Dogs", "barked", "##", "."]], [["dog", "barks"]]
    assert rouge(summary, reference)["ROUGE-L"] == pytest.approx(100)
    assert rouge(summary, reference, "blanks")["ROUGE-1"] == 0.0


def test_without_rouge_score(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rouge_score", None)
    with pytest.raises(ModuleNotFoundError, match=r"grove-lm\[summarise\]"):
        rouge([["a"]], [["a"]])


def summarisation(folder: Path, *more: object) -> list[str]:
    ends = ["--data", folder, "--source", "lo", "--target", "up", "--validation-stem", "dev"]
    sizes = ["--size", "tiny", "--vocabulary", "words", "--vocabulary-size", 50, "--steps", 240, "--batch-size", 600]
    return with_options(("train", "--task", "summarisation", "--out", folder / "run", *ends, *sizes, *SMALL), *more)


def test_trained_and_evaluated(parallel: Path, run_grove: Grove) -> None:
    pytest.importorskip("rouge_score", reason="the extra summarise is not installed")
    status, out, err = run_grove(*summarisation(parallel))
    assert status == 0, err
    figures = json.loads((parallel / "run" / "evaluation.json").read_text())
    assert figures.keys() == {"ROUGE-1", "ROUGE-2", "ROUGE-L", "R-AVG"}
    assert all(scores.keys() == {"best", "average of 8"} for scores in figures.values())
    assert figures["ROUGE-L"]["best"] > 80 and "ROUGE-L average of 8 " in out


def test_mistakes(parallel: Path, run_grove: Grove) -> None:
    status, _, err = run_grove(*summarisation(parallel, "--batch-size", 5))
    assert status == 2 and "train.up:" in err and "tokens, more than a batch may have, 5" in err
    status, _, err = run_grove(*summarisation(parallel, "--source", "article"))
    assert status == 2 and "train.article" in err
    status, _, err = run_grove(*summarisation(parallel, "--epochs", 2))
    assert status == 2 and err == "grove: error: --epochs: is for gpst and gpt2: leave it out\n"
    (parallel / "train.up").write_text("A\n")
    status, _, err = run_grove(*summarisation(parallel))
    assert status == 2 and f"train.lo:2: {parallel}/train.up ends before this line" in err


def test_the_test_is_read_before_the_training(parallel: Path, run_grove: Grove) -> None:
    pytest.importorskip("rouge_score", reason="the extra summarise is not installed")
    (parallel / "test.up").write_text("A\n")
    files = ("--data", parallel, "--source", "lo", "--target", "up", "--out", parallel / "run")
    for command in (summarisation(parallel), ("train", "--task", "summarisation", "--model", "gpst", *files)):
        status, _, err = run_grove(*command)
        assert status == 2 and err == f"grove: error: {parallel}/test.lo:2: {parallel}/test.up ends before this line\n"
