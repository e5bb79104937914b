"""GLUE's files: small ones of every official shape, with their quotation marks and broken lines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from accel.data.batches.sentences import Example, encode_examples
from accel.data.files.lines import LineError
from accel.data.published.glue import MOST_BROKEN, SETS, read_development, read_training
from tests.fixtures.glue_files import FILES, write_glue


@pytest.mark.parametrize("name", SETS)
def test_files_of_the_official_shape(name: str, tmp_path: Path) -> None:
    """Texts, labels and line numbers are read, from the folder of the set or from the folder above it."""
    folder = write_glue(tmp_path, name)
    part = read_training(name, tmp_path)
    assert part == read_training(name, folder) and part.path == folder / "train.tsv" and part.examples
    held_out = read_development(name, folder)
    assert [x.path.name for x in held_out] == list(SETS[name].development)
    for x in (part, *held_out):
        assert all(len(example.sentences) == len(SETS[name].texts) for example in x.examples)
        if SETS[name].classes:
            assert {example.label for example in x.examples} == set(SETS[name].classes)
    first, pair = FILES[name].first
    assert part.examples[0] == Example(first, tuple(text.split() for text in pair), 1 + (SETS[name].columns is None))


def test_quotation_marks_are_letters(tmp_path: Path) -> None:
    write_glue(tmp_path, "mrpc")
    sentence = read_training("mrpc", tmp_path).examples[0].sentences[0]
    assert sentence[0] == '"The' and sum(word.count('"') for word in sentence) == 1


def test_broken_lines_are_left_out_and_counted(tmp_path: Path) -> None:
    """The training file of QQP has three broken lines: a question with a line feed, and questions without words."""
    folder = write_glue(tmp_path, "qqp")
    whole = read_training("qqp", folder)
    assert whole.broken == [4, 5, 6] and [x.line for x in whole.examples] == [2, 3, 7]
    path = folder / "train.tsv"
    path.write_text(path.read_text() + "9\t1\n" * MOST_BROKEN)
    with pytest.raises(LineError) as error:
        read_training("qqp", folder)
    reason = "one of 13 lines without 6 columns or without words; at most 10 are left out; check the file"
    assert str(error.value) == f"{path}:4: {reason}"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("rte", "index\tsentence1\tlabel\n", ":1: no column 'sentence2' in the header of RTE: index, sentence1, label"),
        ("rte", "index\tsentence1\tsentence2\tlabel\n", ": no examples in this file"),
        (
            "rte",
            "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tneutral\n",
            ":2: unknown label 'neutral': it must be one of entailment not_entailment",
        ),
        ("stsb", "sentence1\tsentence2\tscore\na\tb\t5.2\n", ":2: score '5.2': it must be a number from 0 to 5"),
        ("stsb", "sentence1\tsentence2\tscore\na\tb\tnan\n", ":2: score 'nan': it must be a number from 0 to 5"),
        ("cola", "gj04\t2\t\ta b\n", ":1: unknown label '2': it must be one of 0 1"),
    ],
)
def test_bad_lines_are_named(name: str, text: str, message: str, tmp_path: Path) -> None:
    folder = write_glue(tmp_path, name)
    (folder / "train.tsv").write_text(text)
    with pytest.raises(LineError) as error:
        read_training(name, folder)
    assert str(error.value) == f"{folder / 'train.tsv'}{message}"


def test_missing_files_are_named(tmp_path: Path) -> None:
    folder = write_glue(tmp_path, "cola")
    (folder / "dev.tsv").unlink()
    for name, path in (("cola", folder / "dev.tsv"), ("rte", tmp_path / "train.tsv")):
        with pytest.raises(FileNotFoundError) as error:
            read_training(name, tmp_path)
        assert error.value.filename == str(path)


def test_sets_outside_the_benchmark(tmp_path: Path) -> None:
    """CoLA's own folder, with two development files; the trees of the Stanford Sentiment Treebank."""
    (tmp_path / "raw").mkdir()
    names = ("in_domain_train.tsv", "in_domain_dev.tsv", "out_of_domain_dev.tsv")
    for name in names:
        (tmp_path / "raw" / name).write_text(f"s\t1\t\tthis is {name}\n")
    parts = (read_training("cola", tmp_path), *read_development("cola", tmp_path))
    assert [part.examples for part in parts] == [[Example("1", (["this", "is", name],), 1)] for name in names]
    trees = "(3 (2 a) (4 film))\n(2 (2 no) (2 verb))\n(1 (1 bad) (2 film))\n"
    for name in ("train.txt", "dev.txt"):
        (tmp_path / name).write_text(trees)
    words = [(x.label, " ".join(x.sentences[0])) for x in read_training("sst2", tmp_path).examples]
    assert words == [("1", "a film"), ("1", "film"), ("0", "bad film"), ("0", "bad")]
    assert [len(part.examples) for part in read_development("sst2", tmp_path)] == [2]


def test_scores_are_numbers(tmp_path: Path) -> None:
    write_glue(tmp_path, "stsb")
    part = read_training("stsb", tmp_path)
    encoded = encode_examples(part.path, part.examples, lambda words: [len(word) for word in words], (), 2)
    assert encoded.labels.dtype == np.float32 and encoded.labels.tolist() == [5.0, 3.799999952316284, 0.0]
    for label in ("high", "inf"):
        with pytest.raises(LineError, match=f"f:1: score '{label}': it must be a number"):
            encode_examples("f", [Example(label, (["a"], ["b"]), 1)], len, (), 2)


@pytest.mark.parametrize(
    ("name", "file", "counts"), [("cola", "cola/cola_public.zip", (8551, 527, 516)), ("sst2", "sst", (77616, 872))]
)
def test_real_files(data_dir: Path, name: str, file: str, counts: tuple[int, ...]) -> None:
    parts = (read_training(name, data_dir / file), *read_development(name, data_dir / file))
    assert tuple(len(part.examples) for part in parts) == counts and not any(part.broken for part in parts)
