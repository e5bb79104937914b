"""`grove score_outputs` gives outputs the same scores as `grove evaluate`, and refuses files that do not fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fixtures.command_line import Grove
from tests.fixtures.parallel_text import SMALL, parallel

__all__ = ["parallel"]
TRAIN = ("train", "--task", "translation", "--source", "lo", "--target", "up", "--size", "tiny", "--steps", "41")


def test_bpe_longer_sides_and_the_written_outputs(
    parallel: Path, run_grove: Grove, grove: Callable[..., str], mistake: Callable[..., str]
) -> None:
    """A model with byte pairs writes its translations; their file has the score that `grove evaluate` reports."""
    pytest.importorskip("sacrebleu", reason="the extra translate is not installed")
    run = parallel / "run"
    sizes = ("--vocabulary", "bpe", "--vocabulary-size", 23, "--batch-by", "longer", *SMALL)
    status, _, err = run_grove(*TRAIN, "--data", parallel, "--out", run, *sizes, "--batch-size", 300)
    assert status == 0 and "23 ids, bpe: pairs of characters" in err
    options = ("--beam", 2, "--length-penalty", 1, "--extra-length", 5, "--average", 2)
    report = grove("evaluate", run, *options, "--write", parallel / "outputs")
    assert report.startswith("BLEU average of 2")
    outputs = (parallel / "outputs").read_text().splitlines()
    assert len(outputs) == 20 and not any("@@" in line for line in outputs)
    lines = "".join(f"{line}\n" for line in outputs)
    assert run_grove("evaluate", run, *options, "--write", "-") == (0, lines, report)
    for name in ("test.lo", "test.up"):
        wrong = mistake("evaluate", run, "--write", parallel / name)
        assert wrong == f"--write {parallel / name}: this command reads it: name another file"
    wrong = mistake("evaluate", run, "--write", run / "evaluation.json")
    assert wrong == f"--write {run / 'evaluation.json'}: holds figures of a run: name another file"
    wrong = mistake("evaluate", run, "--beam", 3, "--write", run / "evaluation.beam=3.json")
    assert wrong == f"--write {run / 'evaluation.beam=3.json'}: the scores are written there: name another file"
    scores = json.loads((run / "evaluation.average=2,beam=2,length_penalty=1.0,extra_length=5.json").read_text())
    scored = grove("score_outputs", "bleu", parallel / "outputs", "--references", parallel / "test.up")
    wrong = mistake("score_outputs", "bleu", parallel / "outputs", "--references", parallel / "test.up",
                    "--bleu-tokenize", "words")  # fmt: skip
    assert wrong.startswith("--bleu-tokenize words: choose one of none, ")
    wrong = mistake(*TRAIN, "--data", parallel, "--out", parallel / "next", *sizes, "--bleu-tokenize", "words")
    assert wrong.startswith("--bleu-tokenize words: choose one of none, ")  # before the training
    assert scored.split() == ["BLEU", f"{scores['BLEU']['average of 2']:.4f}"] == ["BLEU", report.split()[-1]]
    translated = grove("translate", "--checkpoint", run, *options[:6], "--average", 2, parallel / "test.lo")
    assert translated.splitlines() == outputs
    wrong = mistake(*TRAIN, "--data", parallel, "--out", parallel / "next", *sizes, "--batch-size", 3)
    assert ": the longer of source and target has " in wrong


def test_rouge_of_fields_and_errors(tmp_path: Path, grove: Callable[..., str], mistake: Callable[..., str]) -> None:
    pytest.importorskip("rouge_score", reason="the extra summarise is not installed")
    outputs, references = tmp_path / "outputs", tmp_path / "references"
    outputs.write_text("cat the sat\n\n")
    references.write_text("the sat cat down\na dog\n")
    command = ("score_outputs", "rouge", outputs, "--rouge-tokenize", "blanks", "--references")
    scores = dict(line.split() for line in grove(*command, references).splitlines())
    assert scores["ROUGE-1"] == f"{100 * 6 / 7 / 2:.4f}" and scores["ROUGE-2"] == "20.0000"
    objects = tmp_path / "test.jsonl"
    objects.write_text("".join(json.dumps({"summary": line}) + "\n" for line in references.read_text().splitlines()))
    assert dict(line.split() for line in grove(*command, objects, "--field", "summary").splitlines()) == scores
    assert mistake(*command[:3]) == "--references: is missing; rouge needs it"
    ignored = mistake(*command, references, "--bleu-tokenize", "13a")
    assert ignored == "--bleu-tokenize: is for bleu: leave it out"
    references.write_text("a\n")
    assert mistake(*command, references) == f"{outputs}:2: {references} ends before this line"
    references.write_text("a\n\n")
    assert mistake(*command, references) == f"{references}:2: a reference without words"


def test_cognition_s_errors_need_an_output_for_each_sentence(tmp_path: Path, mistake: Callable[..., str]) -> None:
    assert mistake("score_outputs", "cognition", tmp_path / "x") == "--data: is missing; cognition needs it"
