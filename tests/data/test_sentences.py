"""Labelled sentences and pairs: their batches, the shares of processes, and resuming."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from accel.data.batches.sentences import (
    Example,
    Examples,
    SentenceBatch,
    SentenceBatches,
    cut_long,
    encode_examples,
    joined_examples,
    without_long,
)
from accel.data.files.lines import LineError
from accel.data.vocabularies.words import Words
from tests.fixtures.comparisons import are_equal

WORDS = Words(tuple("abcdefgh"))
RNG = np.random.default_rng(0)
CLASSES = ("no", "yes")
NUMPY = SimpleNamespace(xp=np)


def drawn_examples(n: int, width: int) -> list[Example]:
    draw = lambda: [str(w) for w in RNG.choice(list(WORDS.words), RNG.integers(1, 6))]  # noqa: E731
    return [Example(str(RNG.choice(CLASSES)), tuple(draw() for _ in range(width)), i) for i in range(1, n + 1)]


SETS = {width: drawn_examples(23, width) for width in (1, 2)}
ENCODED = {width: encode_examples("file", examples, WORDS.encode, CLASSES, width) for width, examples in SETS.items()}


def batches(width: int = 2, size: int = 5, **options: Any) -> SentenceBatches:
    return SentenceBatches(ENCODED[width], size, **{"ops": NUMPY} | options)


def contents(batch: SentenceBatch) -> list[tuple[str, tuple[str, ...]]]:
    """Return (label, sentences joined by blanks) of every example of a batch."""
    sentences = [" ".join(WORDS.decode(batch.ids[a:b])) for a, b in zip(batch.offsets, batch.offsets[1:], strict=False)]
    n = batch.n_labels
    width = len(sentences) // n if n else 1
    assert len(sentences) == n * width and len(batch.labels) == n and batch.offsets[-1] == len(batch.ids)
    return [(CLASSES[label], tuple(sentences[i::n])) for i, label in enumerate(batch.labels)]


def as_written(examples: list[Example]) -> list[tuple[str, tuple[str, ...]]]:
    return [(label, tuple(" ".join(sentence) for sentence in sentences)) for label, sentences, _ in examples]


@pytest.mark.parametrize("width", [1, 2])
def test_batches_in_order_are_the_examples(width: int) -> None:
    every = [example for batch in batches(width) for example in contents(batch)]
    assert every == as_written(SETS[width])
    assert [batch.n_labels for batch in batches(width)] == [5, 5, 5, 5, 3]


@pytest.mark.parametrize("width", [1, 2])
def test_every_epoch_shuffles_every_example_once(width: int) -> None:
    examples = [example for batch in batches(width, seed=1, epochs=2) for example in contents(batch)]
    first, second = examples[:23], examples[23:]
    assert sorted(first) == sorted(second) == sorted(as_written(SETS[width]))
    assert first != second != as_written(SETS[width])
    assert examples != [example for batch in batches(width, seed=2, epochs=2) for example in contents(batch)]


def test_a_restored_position_gives_the_same_batches() -> None:
    stream, every, states = batches(seed=3, epochs=3), [], []
    for batch in stream:
        every.append(batch)
        states.append(json.dumps(stream.state()))
    assert len(every) == 15
    for k in (0, 3, 4, 5, 14):
        resumed = batches(seed=3, epochs=3)
        resumed.restore(json.loads(states[k]))
        assert all(are_equal(a, b) for a, b in zip(resumed, every[k + 1 :], strict=True))


def test_ranks_share_the_examples_of_the_whole_batch() -> None:
    shares = [list(batches(size=5, seed=4, rank=r, ranks=4)) for r in range(4)]
    for whole, *parts in zip(batches(size=5, seed=4), *shares, strict=True):
        assert sum(part.n_labels for part in parts) == whole.n_labels
        assert sorted(example for part in parts for example in contents(part)) == sorted(contents(whole))
    empty = shares[3][-1]  # the last batch has three examples
    assert empty.n_labels == len(empty.ids) == len(empty.labels) == 0 and empty.offsets.tolist() == [0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "batch_size must be at least 1, not 0"),
        ({"rank": 2, "ranks": 2}, "rank must be in 0..1, not 2"),
        ({"rank": -1}, "rank must be in 0..0, not -1"),
    ],
)
def test_bad_arguments_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        batches(**options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 8}, "the position was taken with seed 8, this has 3"),
        ({"data": [3, 9]}, r"the position was taken with data \[3, 9\], this has \[23, "),
        ({"extra": 1}, "not a position in the data: data, seed, epoch, position, extra"),
    ],
)
def test_a_position_of_other_data_is_refused(change: dict[str, Any], message: str) -> None:
    stream = batches(seed=3)
    with pytest.raises(ValueError, match=message):
        stream.restore(stream.state() | change)


def test_no_examples_no_batches() -> None:
    none = Examples(np.zeros(0, np.int32), np.zeros(1, np.int64), np.zeros(0, np.int32), 1)
    with pytest.raises(ValueError, match="no examples, no batches"):
        SentenceBatches(none, 4, ops=NUMPY)
    one = Examples(np.zeros(1, np.int32), np.arange(2), np.ones(1, np.int32), 1)
    assert [contents(batch) for batch in SentenceBatches(one, 4, ops=NUMPY, seed=0)] == [[("yes", ("a",))]]


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (Example("maybe", (["a"],), 7), "unknown label 'maybe': it must be one of no yes"),
        (Example("no", ([],), 7), "an empty sentence"),
        (Example("no", (["z"],), 7), "the word 'z' is not in the closed vocabulary of 8 words"),
    ],
)
def test_bad_examples_are_named_with_their_line(example: Example, message: str) -> None:
    with pytest.raises(LineError) as error:
        encode_examples(Path("data.txt"), [*SETS[1], example], WORDS.encode, CLASSES, 1)
    assert str(error.value) == f"data.txt:7: {message}"
    with pytest.raises(LineError, match="data.txt: no examples in this file"):
        encode_examples("data.txt", [], WORDS.encode, CLASSES, 1)


@pytest.mark.parametrize("width", [1, 2])
def test_long_examples_are_left_out_or_cut(width: int) -> None:
    """The size is that of all tokens, a symbol after each sentence and one more; the longest sentence is cut first."""
    examples, every = SETS[width], ENCODED[width]
    sizes = [sum(map(len, example.sentences)) + width + 1 for example in examples]
    assert every.sizes.tolist() == sizes
    most = sorted(sizes)[len(sizes) // 2]
    short = [example for example, size in zip(examples, sizes, strict=True) if size <= most]
    of_short, of_both = (encode_examples("f", x, WORDS.encode, CLASSES, width) for x in (short, [*examples, *short]))
    for result, expected in ((without_long(every, most), of_short), (joined_examples([every, of_short]), of_both)):
        for name in ("ids", "offsets", "labels"):
            np.testing.assert_array_equal(getattr(result, name), getattr(expected, name))
    cut_examples, n_cut = cut_long(every, most)
    assert n_cut == sum(size > most for size in sizes) > 0
    assert cut_examples.sizes.tolist() == [min(size, most) for size in sizes]
    for number, example in enumerate(examples):
        bounds = cut_examples.offsets[number * width : (number + 1) * width + 1].tolist()
        parts = [WORDS.decode(cut_examples.ids[a:b]) for a, b in pairwise(bounds)]
        for part, words in zip(parts, example.sentences, strict=True):
            assert part and part == words[: len(part)]
            assert len(part) == len(words) or len(part) >= max(map(len, parts)) - 1
    with pytest.raises(ValueError, match=f"^{2 * width} tokens have no room for {width + 1} symbols and a word"):
        cut_long(every, 2 * width)
