"""Sentiment: classes of sentences and of phrases."""

from __future__ import annotations

from pathlib import Path

import pytest

from accel.data.files.lines import LineError
from accel.data.published.sentiment import BINARY, FINE, read_sentiment

TEXT = "(3 (2 It) (4 (3 works) (2 well)))\n(2 (2 It) (2 goes))\r\n(0 (1 (2 so) (1 bad)) (2 it))\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "train.txt"
    path.write_text(TEXT)
    return path


def read(path: Path, *args: object, **options: bool) -> list[tuple[str, str, int]]:
    return [(label, " ".join(words), n) for label, (words,), n in read_sentiment(path, *args, **options)]  # type: ignore


def test_classes_of_sentences(path: Path) -> None:
    assert read(path, FINE) == [
        ("positive", "It works well", 1),
        ("neutral", "It goes", 2),
        ("very negative", "so bad it", 3),
    ]
    assert read(path) == [("positive", "It works well", 1), ("negative", "so bad it", 3)]


def test_classes_of_phrases(path: Path) -> None:
    assert read(path, BINARY, phrases=True) == [
        ("positive", "It works well", 1),
        ("positive", "works well", 1),
        ("positive", "works", 1),
        ("negative", "so bad it", 3),
        ("negative", "so bad", 3),
        ("negative", "bad", 3),
    ]
    phrases = read(path, FINE, phrases=True)
    assert [words for _, words, _ in phrases].count("It") == 1 and len(phrases) == 12


def test_bad_trees_are_named(path: Path) -> None:
    path.write_text("(3 (2 It) (5 works))\n")
    assert read(path) == [("positive", "It works", 1)]
    with pytest.raises(LineError, match="train.txt:1: unknown label '5': it must be one of 0 1 2 3 4"):
        read(path, phrases=True)
    path.write_text(TEXT + "(good (2 It) (4 works))\n")
    with pytest.raises(LineError, match="train.txt:4: unknown label 'good'"):
        read(path)
    path.write_text("(3 (2 It) (4 works)\n")
    with pytest.raises(LineError, match="train.txt:1"):
        read(path)
    path.write_text("")
    with pytest.raises(LineError, match="an empty file"):
        read(path)
    with pytest.raises(ValueError, match="classes must be FINE or BINARY"):
        read(path, ("a", "b"))


@pytest.mark.parametrize(("part", "fine", "binary"), [("train", 8544, 6920), ("dev", 1101, 872), ("test", 2210, 1821)])
def test_the_real_treebank(data_dir: Path, part: str, fine: int, binary: int) -> None:
    path = data_dir / "sst" / f"{part}.txt.xz"
    sentences = [label for label, _, _ in read(path, FINE)]
    assert len(sentences) == fine and fine - sentences.count("neutral") == binary


def test_phrases_of_the_real_treebank(data_dir: Path) -> None:
    assert len(read(data_dir / "sst" / "train.txt.xz", BINARY, phrases=True)) == 77_616
