"""The encoder-decoder's tasks, from the command line to the final figures; and the mistakes of its users."""

from __future__ import annotations

import json
import shutil
import sys
from math import exp
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import accel
from accel.data.batches.sequence_pairs import TextPair, build_of_all_words, pair_batches
from accel.models.encoder_decoder import model as encoder_decoder
from accel.tasks import pairs as task_of_pairs
from accel.tasks.encoder_decoder import sequence_accuracy
from accel.tasks.translation import bleu
from accel.trained.opening import open_model
from accel.trained.options import OptionError
from accel.training.directory import load_settings
from tests.fixtures.command_line import Grove, with_options
from tests.fixtures.encoder_decoder_models import config_of, pairs_of, parameters_of
from tests.fixtures.parallel_text import SMALL, parallel

__all__ = ["parallel"]


def translation(folder: Path, out: str, *more: object) -> list[str]:
    options = ["--data", folder, "--source", "lo", "--target", "up", "--validation-stem", "dev", "--test-stem", "test"]
    sizes = ["--size", "tiny", "--vocabulary", "words", "--vocabulary-size", 50, "--steps", 240, "--batch-size", 600]
    return with_options(("train", "--task", "translation", "--out", folder / out, *options, *sizes, *SMALL), *more)


def test_translation(parallel: Path, run_grove: Grove) -> None:
    """A translation model is trained, evaluated with and without averaging, and used."""
    pytest.importorskip("sacrebleu", reason="the extra translate is not installed")
    status, out, err = run_grove(*translation(parallel, "run", "--model", "fasttrees"))
    assert status == 0, err
    scores = json.loads((parallel / "run" / "evaluation.json").read_text())["BLEU"]
    assert scores.keys() == {"best", "average of 8"} and scores["best"] > 80
    (parallel / "text").write_text("a b\nc\n")
    status, out, _ = run_grove("translate", "--checkpoint", parallel / "run", parallel / "text")
    assert status == 0 and out == "A B\nC\n"
    averaged = ("translate", "--checkpoint", parallel / "run", "--average", 2, "--beam", 2, parallel / "text")
    assert run_grove(*averaged)[:2] == (0, "A B\nC\n")
    status, _, err = run_grove(*averaged[:3], "--average", 9, parallel / "text")
    assert status == 2 and "keeps 8 checkpoints, not 9" in err
    (parallel / "text").write_text("a b\n\nc\n\n")
    translate = ("translate", "--checkpoint", parallel / "run", parallel / "text")
    assert run_grove(*translate)[:2] == (0, "A B\n\nC\n\n")
    (parallel / "text").write_text("a\nzebra\n")
    assert "text:2: " in run_grove("translate", "--checkpoint", parallel / "run", parallel / "text")[2]


def test_translations_without_an_end(parallel: Path, run_grove: Grove) -> None:
    """All translations are printed; then the error names the first that reached its limit, and what to do."""
    assert run_grove(*translation(parallel, "run"))[0] == 0
    (parallel / "text").write_text("a b\nc a b d\ne e\n")
    translate = ("translate", "--checkpoint", parallel / "run", parallel / "text")
    assert run_grove(*translate)[:2] == (0, "A B\nC A B D\nE E\n")
    assert run_grove(*translate, "--extra-length", 0)[0] == 0
    status, out, err = run_grove(*translate, "--extra-length", -1)
    limit = "text:1: the translation has no end within its limit of 2 tokens (3 translations have none)"
    assert status == 2 and err == f"grove: error: {parallel / limit}: raise --extra-length (-1)\n"
    assert out == "A B\nC A B D\nE E\n"
    status, out, err = run_grove(*translate, "--extra-length", -2, "--batch-size", 1)
    assert status == 2 and "text:1: " in err and "1 tokens" in err and out.count("\n") == 3
    status, out, err = run_grove(*translate, "--extra-length", -3)
    assert status == 2 and "text:1: --extra-length -3: leaves nothing of 2 tokens: use at least 0" in err and not out


def test_interrupted_and_resumed(parallel: Path, run_grove: Grove, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run stopped between two checkpoints resumes, and ends bit for bit as one never stopped."""
    assert run_grove(*translation(parallel, "whole", "--steps", 50, "--model", "conv_fasttrees"))[0] == 0
    step, calls = encoder_decoder.loss_and_grad, []

    def stopped(*arguments: Any, **options: Any) -> Any:
        calls.append(None)
        if len(calls) == 33:
            raise KeyboardInterrupt
        return step(*arguments, **options)

    monkeypatch.setattr(encoder_decoder, "loss_and_grad", stopped)
    assert run_grove(*translation(parallel, "parts", "--steps", 50, "--model", "conv_fasttrees"))[0] == 130
    assert run_grove("train", "--out", parallel / "parts", "--resume")[0] == 0
    for name in ("checkpoint.safetensors", "checkpoint-00000040.safetensors"):
        assert (parallel / "parts" / name).read_bytes() == (parallel / "whole" / name).read_bytes()


def test_fairseq_counts_the_longer_side_of_a_pair(parallel: Path, run_grove: Grove) -> None:
    """As --max-tokens: a pair of six words has 7 tokens on each side. A run that counts both sides resumes so."""
    for side in ("lo", "up"):
        (parallel / f"test.{side}").unlink()
    task = ("train", "--task", "translation", "--data", parallel, "--source", "lo", "--vocabulary", "words", *SMALL)
    fairseq = (*task, "--recipe", "fairseq", "--batch-size", 8, "--steps", 1)
    assert run_grove(*fairseq, "--out", parallel / "run")[0] == 0
    status, _, err = run_grove(*fairseq, "--out", parallel / "other", "--batch-by", "both")
    assert status == 2 and "source and target have 14 tokens, more than a batch may have, 8" in err
    both = with_options(fairseq, "--out", parallel / "both", "--batch-by", "both", "--batch-size", 16)
    assert run_grove(*both)[0] == 0
    assert run_grove("train", "--out", parallel / "both", "--resume", "--steps", 2)[0] == 0
    assert load_settings(parallel / "both")[1]["batch_by"] == "both"


def test_arithmetic(tmp_path: Path, run_grove: Grove) -> None:
    arguments = ("--task", "arithmetic", "--model", "conv_fasttrees", "--problems", 300, "--steps", 40)
    status, out, err = run_grove("train", *arguments, "--batch-size", 600, "--out", tmp_path / "run", *SMALL)
    assert status == 0, err
    assert 0 <= json.loads((tmp_path / "run" / "evaluation.json").read_text())["accuracy"] <= 1
    (tmp_path / "text").write_text("x=1,y=2,x+y\n")
    _, out, _ = run_grove("translate", "--checkpoint", tmp_path / "run", tmp_path / "text")
    assert set(out.strip()) <= set("0123456789xy=,+-*")
    (tmp_path / "test").write_text("x=1,y=2,x+y:3\nx=1,y=2,x*y:3\n")
    status, _, err = run_grove("evaluate", tmp_path / "run", "--data", tmp_path / "test")
    assert status == 2 and "test:2: the answer to x=1,y=2,x*y is 2, not '3'" in err


def test_arithmetic_of_a_file_is_tested_on_other_problems(tmp_path: Path, run_grove: Grove) -> None:
    """The model learns the one training problem by heart, and is tested on generated problems or on those of --test."""
    for name, numbers in (("train", (1, 2, 3)), ("test", (71, 85, 156))):
        (tmp_path / name).write_text("x={},y={},x+y:{}\n".format(*numbers))
    run = ("train", "--task", "arithmetic", "--data", tmp_path / "train", "--batch-size", 600, *SMALL, "--out")
    assert run_grove(*run, tmp_path / "run", "--steps", 150, "--test", tmp_path / "test")[0] == 0
    assert json.loads((tmp_path / "run" / "evaluation.json").read_text()) == {"accuracy": 0.0}
    assert run_grove("evaluate", tmp_path / "run", "--data", tmp_path / "train")[1].split() == ["accuracy", "1.0000"]
    assert json.loads((tmp_path / "run" / "evaluation.json").read_text()) == {"accuracy": 0.0}
    scores = {"data": str(tmp_path / "train"), "accuracy": 1.0}
    assert json.loads((tmp_path / "run" / "evaluation.data=train.json").read_text()) == scores
    (tmp_path / "others").mkdir()
    shutil.copy(tmp_path / "test", tmp_path / "others" / "train")
    status, _, err = run_grove("evaluate", tmp_path / "run", "--data", tmp_path / "others" / "train")
    assert status == 2 and f"evaluation.data=train.json has the scores on {tmp_path / 'train'}: rename one" in err
    assert json.loads((tmp_path / "run" / "evaluation.data=train.json").read_text()) == scores
    (tmp_path / "test").write_text("x=1,y=2,x+y:4\n")
    status, _, err = run_grove(*run, tmp_path / "other", "--steps", 1, "--test", tmp_path / "test")
    assert status == 2 and "test:1: the answer to x=1,y=2,x+y is 3, not '4'" in err


def test_agreement(tmp_path: Path, run_grove: Grove) -> None:
    arguments = ("--task", "agreement", "--model", "fasttrees", "--sentences", 2000, "--steps", 80, "--batch-size", 64)
    status, out, err = run_grove("train", *arguments, "--out", tmp_path / "run", *SMALL)
    assert status == 0, err
    accuracies = json.loads((tmp_path / "run" / "evaluation.json").read_text())["accuracy"]
    assert accuracies["all"] > 0.9 and accuracies["2 attractors"] == accuracies["all"]
    (tmp_path / "text").write_text("the dog\n")
    status, _, err = run_grove("translate", "--checkpoint", tmp_path / "run", tmp_path / "text")
    assert status == 2 and "gives no translations" in err


HEADER = "split\tlabel\tverb_index\tsentence\tn_intervening\tn_diff_intervening\n"


@pytest.mark.parametrize(
    ("task", "name", "text", "words"),
    [
        ("arithmetic", "data", "x=1,y=2,x+y:3\nx=1,y=2,x+y\n", "data:2: no colon"),
        ("agreement", "data", HEADER.replace("label\t", ""), "data:1: the header has no column 'label'"),
        ("agreement", "data", HEADER + "train\tVBX\t1\tdogs run\t0\t0\n", "data:2: unknown label 'VBX'"),
        ("agreement", "data", HEADER + "dev\tVBP\t1\tdogs run\t0\t0\n", "data: no items of the split train"),
        ("agreement", "data", HEADER + "train\tVBP\t1\tdogs run\t0\t0\n", "data: no items of the split dev"),
        ("translation", "train.up", "A\n", "train.lo:2: {}/train.up ends before this line"),
        ("translation", "dev.up", "A\n" * 21, "dev.up:21: {}/dev.lo ends before this line"),
        ("translation", "train.up", "A\n \n", "train.up:2: an empty sentence"),
        ("translation", "train.lo", "a\n\n", "train.lo:2: an empty sentence"),
        ("translation", "dev.lo", "a zebra\n" * 20, "dev.lo:1: "),
        ("translation", "test.up", "A\n", "test.lo:2: {}/test.up ends before this line"),
    ],
)
def test_bad_lines(parallel: Path, run_grove: Grove, task: str, name: str, text: str, words: str) -> None:
    """The error names the line, and nothing is trained."""
    (parallel / name).write_text(text)
    data = ["--data", parallel / "data", "--steps", 2]
    arguments = translation(parallel, "run") if task == "translation" else [
        "train", "--task", task, "--out", parallel / "run", *data]  # fmt: skip
    status, _, err = run_grove(*arguments)
    assert status == 2 and words.format(parallel) in err and err.count("\n") == 1, err
    assert not (parallel / "run").exists()


def test_missing_files_and_sacrebleu(parallel: Path, run_grove: Grove, monkeypatch: pytest.MonkeyPatch) -> None:
    (parallel / "dev.up").unlink()
    status, _, err = run_grove(*translation(parallel, "run"))
    assert status == 2 and "dev.up" in err
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(ModuleNotFoundError, match=r"grove-lm\[translate\]"):
        bleu([["a"]], [["a"]])


def test_a_tokeniser_that_lacks_its_package_is_named(parallel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sacrebleu = pytest.importorskip("sacrebleu", reason="the extra translate is not installed")

    def lacking(*_: Any, **__: Any) -> None:
        raise RuntimeError("Please install MeCab:\n\n\tpip install sacrebleu[ja]")

    monkeypatch.setattr(sacrebleu, "corpus_bleu", lacking)
    with pytest.raises(OptionError, match=r"bleu_tokenize ja-mecab: cannot be used here: Please install MeCab"):
        bleu([["a"]], [["a"]], "ja-mecab")


def test_bleu_is_that_of_sacrebleu() -> None:
    pytest.importorskip("sacrebleu", reason="the extra translate is not installed")
    words = "the cat sat on the mat".split()
    assert bleu([words], [words]) == pytest.approx(100)
    assert 0 < bleu([words], [[*words[:-1], "hat"]]) < 100
    short, long = list("abcd"), list("abcde")
    assert bleu([short], [long]) == pytest.approx(100 * exp(1 - 5 / 4))  # only the brevity penalty
    assert bleu([long], [short]) == pytest.approx(100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** (1 / 4))
    of_corpus = 100 * (8 / 9 * 6 / 7 * 4 / 5 * 2 / 3) ** (1 / 4)  # from counts summed over both sentences
    assert bleu([short, list("fghij")], [long, list("fghi")]) == pytest.approx(of_corpus)
    raw_words, tokens = "a b c d.".split(), "a b c d .".split()
    assert bleu([raw_words], [tokens], "13a") == pytest.approx(100) and bleu([raw_words], [tokens]) < 100
    assert bleu([], []) == 0


def test_shares_of_all_pairs_and_of_each_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the targets without unknown words are right; the third has an unknown word; the fourth is the only y."""
    pairs = [TextPair(("a",), tuple(text.split()), n, kind) for n, (text, kind) in
             enumerate((("b", "x"), ("b a", "x"), ("b ?", "x"), ("a", "y")), 1)]  # fmt: skip
    model: Any = SimpleNamespace(vocabulary=build_of_all_words(pairs[:2]), config=None, parameters={})
    counts: list[int] = []

    def half(ops: Any, config: Any, parameters: Any, batches: Any) -> float:
        counts.append(sum(len(batch.target_offsets) - 1 for batch in batches))
        return 0.5

    monkeypatch.setattr(task_of_pairs, "sequence_accuracy", half)
    whole, shares = task_of_pairs.accuracies(accel.load("cpu"), model, Path("file"), pairs)
    assert shares == pytest.approx({"x": 1 / 3, "y": 1 / 2}) and whole == pytest.approx((1 + 1 / 2) / 4)
    assert counts == [2, 1]


def test_right_to_the_last_token() -> None:
    """A target counts if every one of its labels is the most probable token."""
    config, ops = config_of("none"), accel.load("cpu")
    parameters, pairs = parameters_of(config), pairs_of([(2, 1), (3, 1), (1, 1), (4, 2)])
    parameters["output_bias"][1] += 3.0  # favours the end symbol
    count = 0
    for batch in pair_batches(pairs, 12, ops=ops):
        _, right, _ = encoder_decoder.scores(ops, config, parameters, batch)
        ends = zip(batch.target_offsets[:-1], batch.target_offsets[1:], strict=True)
        count += sum(bool(right[a:b].all()) for a, b in ends)
    accuracy = sequence_accuracy(ops, config, parameters, pair_batches(pairs, 12, ops=ops))
    assert accuracy == count / 4


def test_saved_model_is_loaded_with_its_vocabulary(tmp_path: Path, run_grove: Grove) -> None:
    arguments = ("--task", "agreement", "--sentences", 100, "--steps", 1, "--out", tmp_path / "run")
    assert run_grove("train", *arguments, *SMALL)[0] == 0
    assert "<unk>" in open_model(accel.load("cpu"), tmp_path / "run").vocabulary.words
