"""An ALBERT from raw text to GLUE: what is masked, the symbols around sentences, pre-training and fine-tuning."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from accel.data.batches.masked_text import between_symbols, masked_batches, read_masked_text
from accel.data.batches.sentences import Examples
from accel.data.files.lines import LineError
from accel.data.vocabularies.albert import UNKNOWN
from accel.models.albert import model as albert
from accel.tasks import masked_words
from accel.trained.opening import open_model
from accel.training.checkpoint import read_state
from accel.training.settings import TrainingConfig
from tests.fixtures.albert_files import TEXT, pieces, write_random_albert
from tests.fixtures.command_line import Grove, settings
from tests.fixtures.cpu_backend import CPU
from tests.fixtures.glue_files import write_glue

SMALL = settings(("d_embedding=4", "d_model=8", "d_ff=8", "n_layers=2", "n_heads=2", "n_positions=40", "batch_size=64"))


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text whose sentences have 14 words or more, and so at least 14 pieces, whatever pieces SentencePiece finds."""
    path = tmp_path_factory.mktemp("text") / "text.txt"
    twice = (f"{line.rstrip('.?')} {line}" for line in TEXT)
    path.write_text("\n\n".join(twice) + "\n", encoding="utf-8")
    return path


def test_what_is_masked(text: Path) -> None:
    """On average 15 % of the tokens are predicted, most of them as [MASK], but no symbols; a seed repeats the masks."""
    vocabulary = pieces()
    sentences, n_cut = read_masked_text(text, vocabulary, 12)
    assert len(sentences) == len(TEXT) == n_cut and read_masked_text(text, vocabulary, 10**6)[1] == 0
    assert {len(sentence) for sentence in sentences} == {12}
    first, last, mask = (vocabulary.ids[symbol] for symbol in ("[CLS]", "[SEP]", "[MASK]"))
    assert all(sentence[0] == first and sentence[-1] == last for sentence in sentences)
    many = sentences * 40
    [batch] = masked_batches(many, 10**6, vocabulary, 0, ops=CPU)
    [again] = masked_batches(many, 10**6, vocabulary, 0, ops=CPU)
    [other] = masked_batches(many, 10**6, vocabulary, 1, ops=CPU)
    np.testing.assert_array_equal(batch.ids, again.ids)
    assert (batch.ids != other.ids).any()
    whole, predicted = np.concatenate(many), batch.labels >= 0
    counts = np.add.reduceat(predicted, batch.offsets[:-1], dtype=np.int64)  # one or two of ten tokens
    assert batch.n_labels == predicted.sum() and set(counts) == {1, 2}
    assert abs(batch.n_labels - 1.5 * len(many)) < 5 * 0.5 * len(many) ** 0.5
    np.testing.assert_array_equal(batch.labels[predicted], whole[predicted])
    np.testing.assert_array_equal(batch.ids[~predicted], whole[~predicted])
    assert not np.isin(whole[predicted], [first, last]).any()
    assert 0.75 < (batch.ids[predicted] == mask).mean() < 0.85
    assert 0.05 < (batch.ids[predicted] == whole[predicted]).mean() < 0.2


def test_every_epoch_masks_other_tokens(text: Path) -> None:
    """The masks of every sentence change with the epoch; how a batch is cut into micro-batches changes no mask."""
    vocabulary = pieces()
    sentences = read_masked_text(text, vocabulary, 30)[0]
    labels: dict[int | None, dict[bytes, list[bytes]]] = {}
    for micro_batch in (None, 1):
        options = {"seed": 5, "epochs": 6, "micro_batch": micro_batch, "ops": CPU}
        of_sentence = labels.setdefault(micro_batch, {})
        for batch in masked_batches(sentences, 100, vocabulary, 0, **options):
            for part in [batch] if micro_batch is None else batch:
                for i, j in pairwise(part.offsets.tolist()):
                    restored = np.where(part.labels[i:j] >= 0, part.labels[i:j], part.ids[i:j])
                    of_sentence.setdefault(restored.tobytes(), []).append(part.labels[i:j].tobytes())
    assert labels[None] == labels[1] and sum(map(len, labels[1].values())) == 6 * len(sentences)
    assert all(len(set(masks)) > len(masks) // 2 for masks in labels[1].values())


def test_text_without_words(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n\n", encoding="utf-8")
    with pytest.raises(LineError, match="no sentence"):
        read_masked_text(tmp_path / "empty.txt", pieces(), 12)


def test_a_word_without_pieces_is_unknown() -> None:
    """A combining mark alone has no piece: without an id its example would have had symbols in the wrong order."""
    vocabulary = pieces()
    assert vocabulary.encode_words(["\u0301"]) == [vocabulary.ids[UNKNOWN]] and vocabulary.encode_words([]) == []


def test_symbols_around_pairs() -> None:
    vocabulary = pieces()
    first, last = vocabulary.ids["[CLS]"], vocabulary.ids["[SEP]"]
    pairs = Examples(np.array([7, 8, 9, 10, 11, 12]), np.array([0, 2, 3, 4, 6]), np.array([0, 1]), 2)
    wrapped = between_symbols(pairs, vocabulary)
    assert wrapped.ids.tolist() == [first, 7, 8, last, 9, last, first, 10, last, 11, 12, last]
    assert wrapped.offsets.tolist() == [0, 4, 6, 9, 12]
    assert len(wrapped.ids) == pairs.sizes.sum()


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory: pytest.TempPathFactory, text: Path) -> Path:
    from accel import cli

    out = tmp_path_factory.mktemp("runs") / "albert"
    command = ["train", "--task", "masked_words", "--data", text, "--validation", text, "--test", text]
    options = ["--vocabulary-size", 70, "--steps", 4, *SMALL, "--set", "validate_every=2", "--out", out]
    assert cli.main([str(part) for part in (*command, *options)]) == 0
    return out


def test_a_test_without_words_is_named_before_the_training(
    text: Path, tmp_path: Path, mistake: Callable[..., str]
) -> None:
    (tmp_path / "test").write_text("\n")
    command = ("train", "--task", "masked_words", "--data", text, "--test", tmp_path / "test", "--vocabulary-size", 70)
    assert (
        mistake(*command, *SMALL, "--out", tmp_path / "run")
        == f"{tmp_path}/test: no sentence in this file: give text, a sentence a line"
    )
    assert not (tmp_path / "run").exists()


def test_a_batch_has_room_for_the_longest_sentence(text: Path, tmp_path: Path, mistake: Callable[..., str]) -> None:
    """A smaller batch is refused before the training; SentencePiece also learns from very long lines."""
    (tmp_path / "long").write_text("birds sing and dogs sleep " * 300 + "\n")
    command = ("train", "--task", "masked_words", "--data", tmp_path / "long", "--vocabulary-size", 70, *SMALL)
    wrong = mistake(*command, "--validation", text, "--out", tmp_path / "run", "--set", "batch_size=39")
    assert wrong == (
        "batch_size: 39, but a batch is counted in tokens, and the longest sentence has 40; use 40 or more"
    )
    assert not (tmp_path / "run").exists()


def test_what_is_cut_is_counted(text: Path, tmp_path: Path, run_grove: Grove) -> None:
    (tmp_path / "test").write_text("birds sing\n" + "birds sing and dogs sleep " * 300 + "\n")
    run = ("train", "--task", "masked_words", "--data", text, "--test", tmp_path / "test", "--vocabulary-size", 70)
    status, out, err = run_grove(*run, *SMALL, "--steps", 1, "--out", tmp_path / "run")
    assert status == 0 and "--test: 1 sentences of more than 38 pieces were cut" in err
    assert ["sentences", "cut", "1"] in [line.split() for line in out.splitlines()]


def test_lines_that_cannot_be_read_are_named(tmp_path: Path, mistake: Callable[..., str]) -> None:
    """The error names the line; it is not the message of SentencePiece."""
    for content, reason in ((b"\n", ": no sentence in this file"), (b"birds\n\xff\n", ":2:1: not UTF-8")):
        (tmp_path / "data").write_bytes(content)
        wrong = mistake(
            "train", "--task", "masked_words", "--data", tmp_path / "data", *SMALL, "--out", tmp_path / "run"
        )
        assert wrong.startswith(f"{tmp_path}/data{reason}")


def test_pretrained(pretrained: Path, grove: Callable[..., str]) -> None:
    lines = [json.loads(line) for line in (pretrained / "metrics.jsonl").read_text().splitlines()]
    assert any("validation_accuracy" in line for line in lines)
    assert "loss" in grove("evaluate", pretrained)


def test_a_batch_of_the_test_has_room_for_the_longest_sentence(
    pretrained: Path, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = open_model(CPU, pretrained)
    figures = masked_words.evaluate(CPU, model, text, {})
    monkeypatch.setattr(masked_words, "TRAINING", replace(masked_words.TRAINING, batch_size=5))
    assert masked_words.evaluate(CPU, model, text, {}) == pytest.approx(figures, rel=1e-5)


def test_unused_weights_hardly_decay(pretrained: Path) -> None:
    """A step shrinks them by rate times decay only. When Adam divided the decay, it took unused weights to 0."""
    model = open_model(CPU, pretrained)
    training = TrainingConfig(**read_state(model.path)["training"])
    before = albert.initialise(model.config, training.seed)["pooler"]
    share = np.prod([1 - training.rate(step) * 0.01 for step in range(4)])
    np.testing.assert_allclose(model.parameters["pooler"], before * share, rtol=1e-6)  # float32


@pytest.mark.parametrize(
    ("name", "model"),
    [("cola", "albert"), ("mnli", "albert_treeformer"), ("stsb", "albert_treeformer_released")],
)
def test_fine_tuned(tmp_path: Path, pretrained: Path, name: str, model: str, grove: Callable[..., str]) -> None:
    """Fine-tuning starts from the encoder and the pooler of a run; the chart and the classes are new."""
    write_glue(tmp_path / "glue", name)
    options = ["--checkpoint", pretrained, "--epochs", 1, "--set", "batch_size=2", "--out", tmp_path / "run"]
    grove("train", "--task", "glue", "--name", name, "--data", tmp_path / "glue", "--model", model, *options)
    tuned = open_model(CPU, tmp_path / "run")
    assert tuned.vocabulary == open_model(CPU, pretrained).vocabulary
    assert (tuned.config.chart == "none") == (model == "albert") and "narrow" not in tuned.parameters
    scores = grove("evaluate", tmp_path / "run")
    assert {"cola": "matthews", "mnli": "accuracy matched", "stsb": "pearson"}[name] in scores


def test_from_published_weights_and_from_scratch(tmp_path: Path, grove: Callable[..., str]) -> None:
    grove("import", write_random_albert(tmp_path / "published"), "--kind", "albert", "--out", tmp_path / "albert")
    write_glue(tmp_path / "glue", "mrpc")
    command = ["train", "--task", "glue", "--name", "mrpc", "--data", tmp_path / "glue", "--epochs", 1]
    tree = ["--model", "albert_treeformer", "--set", "across=true", "--set", "max_height=3", "--set", "batch_size=2"]
    grove(*command, *tree, "--checkpoint", tmp_path / "albert", "--out", tmp_path / "tuned")
    config = open_model(CPU, tmp_path / "tuned").config
    assert (config.across, config.max_height, config.n_classes) == (True, 3, 2)
    grove(*command, "--model", "albert", *SMALL, "--out", tmp_path / "scratch")
    assert "f1" in grove("evaluate", tmp_path / "scratch")


def test_only_an_albert_is_tuned(tmp_path: Path, mistake: Callable[..., str], pretrained: Path) -> None:
    write_glue(tmp_path / "glue", "cola")
    command = ["train", "--task", "glue", "--data", tmp_path / "glue", "--out", tmp_path / "run"]
    words = mistake(*command, "--model", "gpst", "--checkpoint", pretrained)
    assert words.endswith("holds an albert, not a gpst")
