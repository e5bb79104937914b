"""Judging minimal pairs: the words that are read, sums by hand, ties, skipped pairs, samples and means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf, nan
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import accel
from accel.data.published.minimal_pairs import Pair, read_published
from accel.data.vocabularies.words import Words
from accel.evaluation import minimal_pairs as pair_score
from accel.evaluation.minimal_pairs import (
    Accuracy,
    Judged,
    accuracy,
    chosen,
    judge,
    mean_accuracy,
    published_mean,
    unknown_words,
)
from accel.models.encoder_decoder import model as encoder_decoder
from accel.models.fasttrees import language_model
from accel.trained.opening import Model

KNOWN = ("<eos>", "the", "dog", "dogs", "sleeps", "sleep", "now", ".")
CONFIG = SimpleNamespace(kind="lstm")
CLOSED = Model(Path("x"), CONFIG, {}, Words(KNOWN), None, language_model)
OPEN = Model(Path("x"), CONFIG, {}, Words((*KNOWN, "<unk>"), "<unk>"), None, language_model)


def pair(good: str, bad: str, at: int | None = 2, paradigm: str = "p", **more: str) -> Pair:
    critical = None if at is None else (range(at, at + 1), range(at, at + 1))
    return Pair("f:1", paradigm, "t", "a", good.split(), bad.split(), critical, **more)


PAIRS = [
    pair("the dog sleeps now .", "the dog sleep now ."),
    pair("the dogs now .", "the dogs sleep .", None),
    pair("dogs sleep now", "dogs dog now", 1),
    pair("the cat sleeps", "the cat sleep"),
    pair("", "", None, skipped="no other form"),
]


def judged(right: str) -> list[Judged]:
    """Return one judged pair for each letter: r is right, w wrong, t tied, s skipped."""
    bits = {"r": (1.0, 2.0), "w": (2.0, 1.0), "t": (1.0, 1.0)}
    return [Judged(PAIRS[0], bits.get(letter), "" if letter in bits else "why") for letter in right]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sentences that are read; a word has as many bits as letters."""
    sentences_read: list[str] = []

    def bits(ops: ModuleType, model: Model, sentences: Sequence[Sequence[str]], **_: Any) -> Iterator[list[float]]:
        for words in sentences:
            sentences_read.append(" ".join(words))
            yield [float(len(word)) for word in words]

    monkeypatch.setattr(pair_score, "bits_of_words", bits)
    return sentences_read


def test_sentences(asked: list[str]) -> None:
    """Each sentence is read once; the sentence with fewer bits is chosen; a pair that cannot be read has a reason."""
    ops = accel.load("cpu")
    judgements = judge(ops, CLOSED, [*PAIRS, PAIRS[0]])
    assert asked == [  # sorted, so that common beginnings are neighbours
        *("dogs dog now", "dogs sleep now", "the dog sleep now .", "the dog sleeps now ."),
        *("the dogs now .", "the dogs sleep ."),
    ]
    assert [one.bits for one in judgements] == [(16, 15), (11, 13), (12, 10), None, None, (16, 15)]
    assert [one.right for one in judgements] == [False, True, False, False, False, False]
    assert judgements[3].skipped == "the word 'cat' is not in the closed vocabulary of 8 words"
    assert judgements[4].skipped == "no other form"
    assert unknown_words(CLOSED, judgements) == (0, 34)


def test_sentences_that_a_model_cannot_tell_apart_are_ties(asked: list[str]) -> None:
    """They are read once: read twice, in other batches, their bits would differ by roundings."""
    unknown = pair("the cat sleeps", "the elephant sleeps")
    judgements = judge(accel.load("cpu"), OPEN, [unknown, pair("the elephant sleeps", "the dogs sleeps")])
    assert asked == ["the cat sleeps", "the dogs sleeps"]
    assert [one.tie for one in judgements] == [True, False] and unknown_words(OPEN, judgements) == (3, 12)


def test_critical_words(asked: list[str]) -> None:
    """Words after the critical words are not read, and words before them do not count."""
    counts: list[int] = []

    def progress(surprisals: Iterator[list[float]], count: int) -> Iterator[list[float]]:
        counts.append(count)
        return surprisals

    def dotted(words: list[str]) -> list[str]:
        return [*words, "."]

    judgements = judge(accel.load("cpu"), OPEN, PAIRS, measure="critical", change=dotted, progress=progress)  # type: ignore[arg-type]
    assert asked == [
        *("dogs dog", "dogs sleep", "the cat sleep", "the cat sleeps"),
        *("the dog sleep", "the dog sleeps"),
    ]
    assert counts == [6] and [one.bits for one in judgements] == [(6, 5), None, (5, 3), (6, 5), None]
    assert judgements[1].skipped == "no critical words: compare its whole sentences"
    assert unknown_words(OPEN, judgements) == (2, 16)


def test_several_critical_words(asked: list[str]) -> None:
    """The bits of several critical words are summed; the two prefixes may differ in length."""
    two = pair("dogs sleep now .", "the dogs sleep now .")._replace(critical=(range(1, 3), range(2, 4)))
    assert judge(accel.load("cpu"), CLOSED, [two], measure="critical")[0].bits == (8, 8)
    assert asked == ["dogs sleep now", "the dogs sleep now"]


def test_pairs_that_cannot_be_judged(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    ops = accel.load("cpu")
    with pytest.raises(ValueError, match="measure: unknown 'word': choose one of sentence, critical"):
        judge(ops, CLOSED, PAIRS, measure="word")
    with pytest.raises(ValueError, match="holds an encoder_decoder, which gives no surprisals"):
        translates = SimpleNamespace(chart="none", n_classes=0)
        judge(ops, Model(Path("x"), translates, {}, CLOSED.vocabulary, None, encoder_decoder), PAIRS)
    monkeypatch.setattr(pair_score, "bits_of_words", lambda *_, **__: iter([[1.0, inf], [1.0]]))
    judgement = judge(ops, CLOSED, PAIRS[:1])[0]
    assert judgement.bits is None and judgement.skipped == "no hypothesis of the search continues with word 2, 'dog'"
    monkeypatch.setattr(pair_score, "bits_of_words", lambda *_, **__: iter([[1.0], [nan]]))
    with pytest.raises(ValueError, match="f:1: bits of nan and 1.0"):
        judge(ops, CLOSED, PAIRS[:1])


def test_ties_are_wrong() -> None:
    judgements = judged("rtrrwts")
    assert [one.tie for one in judgements] == [False, True, False, False, False, True, False]
    half = accuracy(judgements)
    assert half is not None and half.value == 0.5 and half.low is not None and half.low < 0.5
    assert accuracy(judged("rs")) == Accuracy(1.0, None, None) and accuracy(judged("ss")) is None
    assert accuracy(judged("rr")) == Accuracy(1.0, 1.0, 1.0)


def test_means_over_paradigms() -> None:
    """Each paradigm counts once, whatever its size; a paradigm without judged pairs does not count."""
    means = mean_accuracy([judged("rw"), judged("r" * 10), judged("ss")])
    assert means == Accuracy(0.75, 0.5, 1.0)
    assert mean_accuracy([judged("rw"), judged("rs")]) == Accuracy(0.75, None, None)
    assert mean_accuracy([judged("s")]) is None and mean_accuracy([]) is None
    published = {("a", "t"): 0.5, ("b", "t"): 1.0}
    assert published_mean(published, [("a", "t"), ("b", "t")]) == 0.75
    assert published_mean(published, [("a", "t"), ("c", "t")]) is None and published_mean(published, []) is None


def test_pairs_are_drawn_by_paradigm() -> None:
    """A seed draws the same pairs of a paradigm, in order, whatever the others are; a small one gives all its pairs."""
    first = [pair("the dog", f"w{k}", paradigm="a") for k in range(50)]
    second = [pair("the dog", f"v{k}", paradigm="b") for k in range(3)]
    sample = chosen([*first, *second], 5, 1)
    assert [one for one in first if one in sample] == sample[:5] and sample[5:] == second
    assert chosen(first, 5, 1) == sample[:5] != chosen(first, 5, 2)
    assert chosen([*first, *second], None, 1) == [*first, *second]


def test_published_means_are_ours(data_dir: Path) -> None:
    """The means over the paradigms of each phenomenon, and over all 67, are those published for four models."""
    for accuracies in read_published(data_dir / "blimp" / "models_summary.jsonl").values():
        keys = [key for key in accuracies if key[0] != "overall"]
        assert len(keys) == 67
        assert published_mean(accuracies, keys) == pytest.approx(accuracies["overall", "overall"], abs=1e-9)
        for term in {term for _, term in keys}:
            mean = published_mean(accuracies, [key for key in keys if key[1] == term])
            assert mean == pytest.approx(accuracies["overall", term], abs=1e-9)
