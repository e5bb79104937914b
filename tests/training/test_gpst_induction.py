"""Grammar induction: a pre-trained GPST is trained further, its words are not split, and F1 selects the best epoch."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import accel
from accel import cli
from accel.data.published.wsj import read_gold
from accel.evaluation.induced_f1 import score
from accel.parsing.spans import find_spans
from accel.trained.opening import open_model
from accel.training.checkpoint import read_state
from tests.fixtures.command_line import settings, with_options
from tests.fixtures.gpst_runs import TINY, run_of, texts
from tests.fixtures.toy_run import metrics

__all__ = ["texts"]


@pytest.fixture(scope="module")
def pretrained(texts: Path) -> Path:
    out = texts / "pretrained"
    assert cli.main(run_of(texts, out, "--sentence-a-line", "--steps", 3, "--beam", 0)) == 0
    return out


def further(texts: Path, pretrained: Path, out: Path, *more: object) -> list[str]:
    files = ("--data", texts / "train", "--validation", texts / "valid", "--test", texts / "test", "--sentence-a-line")
    gold = ("--gold", texts / "trees", "--validation-gold", texts / "trees", "--convention", "plain", "--beam", 0)
    run = ("train", "--task", "gpst", "--out", out, "--checkpoint", pretrained)
    return [str(word) for word in (*run, *files, *gold, *more)]


def test_the_recipe_of_grammar_induction(texts: Path, pretrained: Path, tmp_path: Path, grove: Callable) -> None:
    """Section 4.3: batches of 32; F1 of gold trees after each epoch selects the best; sizes and pieces stay."""
    out = tmp_path / "run"
    grove(*further(texts, pretrained, out, "--epochs", 2))
    before, after = open_model(accel.load("cpu"), pretrained), open_model(accel.load("cpu"), out)
    assert before.vocabulary == after.vocabulary and after.config.whole_words and not before.config.whole_words
    assert before.config.n_positions == after.config.n_positions == 100
    training = read_state(out / "checkpoint.safetensors")["training"]
    assert (training["batch_size"], training["maximum_rate"], training["select"]) == (32, 5e-5, "f1")
    lines = metrics(out)
    assert len(lines) == 2 * 4  # 120 sentences, 32 a step
    f1 = {line["step"]: line["validation_f1"] for line in lines if "validation_f1" in line}
    assert list(f1) == [4, 8]
    best = read_state(out / "best.safetensors")
    assert best["validation_f1"] == max(f1.values()) == f1[best["step"]]
    gold = list(read_gold(texts / "trees", "plain"))
    spans = list(find_spans(accel.load("cpu"), after, [sentence.words for sentence in gold], mode="inside"))
    assert score(gold, spans, "gpst").sentence_f1 == pytest.approx(best["validation_f1"])
    figures = json.loads((out / "evaluation.json").read_text())
    assert figures["sentence_f1"]["inside"] == pytest.approx(best["validation_f1"])
    assert "f1" in grove("info", out) and str(pretrained) in grove("info", out)
    grove("export", out, tmp_path / "exported")  # the copy does not name the pre-trained run
    of_run, of_copy = (grove("evaluate", path, "--data", texts / "valid") for path in (out, tmp_path / "exported"))
    assert of_run.split()[:2] == of_copy.split()[:2] and of_run.startswith("perplexity")


def test_training_begins_with_the_parameters_of_the_run(texts: Path, pretrained: Path, tmp_path: Path) -> None:
    still = ("--set", "maximum_rate=1e-30", "--set", "own_rate=1e-30", "--configuration", "demo")
    assert cli.main(further(texts, pretrained, tmp_path / "run", "--steps", 1, *still)) == 0
    before, after = (open_model(accel.load("cpu"), path) for path in (pretrained, tmp_path / "run"))
    for name, x in before.parameters.items():
        np.testing.assert_allclose(after.parameters[name], x, atol=1e-20)
    assert not after.config.whole_words  # only grammar induction sets it
    for file in ("checkpoint.safetensors", "best.safetensors"):  # as a run that was killed before its first checkpoint
        (tmp_path / "run" / file).unlink()
    assert cli.main(["train", "--out", str(tmp_path / "run"), "--resume"]) == 0


def test_a_resumed_run_is_the_same(texts: Path, pretrained: Path, tmp_path: Path) -> None:
    for name, steps in (("whole", (8,)), ("parts", (3, 8))):
        out = tmp_path / name
        constant = ("--set", "schedule=constant", "--set", "validate_every=4")
        for number, n in enumerate(steps):
            start = with_options(further(texts, pretrained, out, *constant), "--test", texts / "valid")
            start = start[: start.index("--test")]
            for option in ("--gold", "--beam"):  # gold trees are scored with the test text
                del start[(place := start.index(option)) : place + 2]
            command = start if not number else ["train", "--out", str(out), "--resume"]
            assert cli.main([*command, "--steps", str(n)]) == 0
    assert metrics(tmp_path / "whole")[7]["validation_f1"] == metrics(tmp_path / "parts")[7]["validation_f1"]
    whole, parts = (read_state(tmp_path / name / "best.safetensors") for name in ("whole", "parts"))
    assert whole["validation_f1"] == parts["validation_f1"]


def test_mistakes_are_named(texts: Path, pretrained: Path, tmp_path: Path, mistake: Callable[..., str]) -> None:
    out = tmp_path / "run"
    for more, reason in (
        (("--vocabulary", "words"), "--vocabulary: the vocabulary is that of --checkpoint; leave it out"),
        (("--vocabulary-size", 300), "--vocabulary-size: the vocabulary is that of --checkpoint; leave it out"),
        (("--vocabulary-from", pretrained), "--vocabulary-from: the vocabulary is that of --checkpoint; leave it out"),
        (("--max-tokens", 100), f"--max-tokens: 100, but {pretrained} reads 99; use that or fewer"),
        (
            ("--set", "d_model=16"),
            "--set d_model=16: d_model follows from the data or from other options; leave it out",
        ),
        (
            ("--configuration", "small"),
            f"--configuration: small has d_model=768, and {pretrained}/best.safetensors 8; "
            "leave it out, or use induction",
        ),
    ):
        assert mistake(*further(texts, pretrained, out, *more)) == reason
    (texts / "long").write_text("dog " * 100 + "\n")
    wrong = mistake(*with_options(further(texts, pretrained, out), "--data", texts / "long"))
    assert wrong.startswith(f"{texts}/long:1: a sentence of ") and wrong.endswith("; use --long-sentences cut or skip")
    scratch = [word for word in further(texts, pretrained, out) if word not in ("--checkpoint", str(pretrained))]
    wrong = mistake(*scratch, "--configuration", "induction")
    assert wrong == "--configuration: induction trains a pre-trained model further; use --checkpoint RUN"
    assert mistake(*scratch, "--model", "gpt2") == "--validation-gold: is for gpst; a gpt2 has no trees"
    plain = ("train", "--task", "gpst", "--data", texts / "train", "--sentence-a-line", "--out", out)
    wrong = mistake(*plain, "--checkpoint", pretrained, "--model", "gpt2")
    assert wrong == f"--checkpoint: {pretrained}/best.safetensors: holds a gpst, not a gpt2"
    without = [word for word in scratch if word not in ("--validation", str(texts / "valid"))]
    assert mistake(*without) == "--validation-gold: there is no validation; use --validation TEXT"
    both = ("--vocabulary-from", pretrained, "--vocabulary-size", 300)
    wrong = mistake(*plain, *both)
    assert wrong == "--vocabulary-size: the vocabulary is that of --vocabulary-from; leave it out"
    wrong = mistake(*plain, "--set", "select=f1")
    assert wrong.endswith(
        "select: f1, but no gold trees are parsed in a validation; use "
        "--validation-gold of gpst, or --validation of span_parser, or select=loss"
    )
    assert not out.exists()


def test_folders_wikitext_and_a_given_vocabulary(
    texts: Path, pretrained: Path, tmp_path: Path, run_grove: Callable[..., tuple[int, str, str]]
) -> None:
    """Data are several files, one in a folder; long sentences are cut; a resumed run repeats no option."""
    (tmp_path / "wiki").mkdir()
    (tmp_path / "wiki" / "a.txt").write_text(
        " \n = Dogs = \n \n the dog sleeps . a cat <unk> ! \n \n = Cats = \n \n no . \n"
    )
    (tmp_path / "b.txt").write_text(" = Birds = \n \n" + " the bird sings" * 30 + " . \n")
    out, small = tmp_path / "run", settings(TINY)
    data = ("--data", tmp_path / "wiki", tmp_path / "b.txt", "--test", tmp_path / "wiki", "--format", "wikitext")
    form = (
        "--any-case",
        "--long-sentences",
        "cut",
        "--max-tokens",
        40,
        "--one-sentence",
        "--vocabulary-from",
        pretrained,
    )
    status, _, err = run_grove("train", "--task", "gpst", "--out", out, *data, *form, *small, "--steps", 1)
    assert status == 0, err
    assert "text: 110 words, 3 documents, 2 files" in err
    assert "long sentences: 1 of more than 40 tokens were cut" in err
    assert open_model(accel.load("cpu"), out).vocabulary == open_model(accel.load("cpu"), pretrained).vocabulary
    assert json.loads((out / "evaluation.json").read_text())["words"] == 16
    assert json.loads((out / "config.json").read_text())["options"]["data"] == [
        str(tmp_path / "wiki"),
        str(tmp_path / "b.txt"),
    ]
    assert str(tmp_path / "b.txt") in run_grove("info", out)[1]
    assert run_grove("train", "--out", out, "--resume", "--steps", 2)[0] == 0
    assert len(metrics(out)) == 2
