"""Parallel text and batches of pairs: labels, budgets, shares of processes, and resuming."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from accel.data.batches.sequence_pairs import (
    UNKNOWN,
    Pair,
    PairBatch,
    TextPair,
    assemble_pairs,
    build_of_all_words,
    encode_pairs,
    load_parallel,
    pair_batches,
    read_parallel,
)
from accel.data.batches.sized import SizedBatches
from accel.data.files.lines import LineError
from accel.data.vocabularies.building import build, build_of_words
from accel.data.vocabularies.vocabulary import END_ID, START_ID, Vocabulary, VocabularyError
from refimpl.trees import Tree
from tests.fixtures.comparisons import are_equal

RNG = np.random.default_rng(0)
NUMPY = SimpleNamespace(xp=np)
PAIRS: list[Pair] = [
    tuple(RNG.integers(2, 50, RNG.integers(1, 12), np.int32) for _ in range(2))  # type: ignore[misc]
    for _ in range(90)
]


def batches(max_tokens: int = 60, pairs: list[Pair] = PAIRS, **options: Any) -> SizedBatches:
    return pair_batches(pairs, max_tokens, **{"ops": NUMPY, "pool": 32} | options)


def contents(batch: PairBatch) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return the pairs of a batch, after a check of its start and end symbols."""
    pairs = []
    assert len(batch.source_offsets) == len(batch.target_offsets) and batch.n_labels == len(batch.labels)
    for b in range(len(batch.source_offsets) - 1):
        source = batch.source_ids[batch.source_offsets[b] : batch.source_offsets[b + 1]].tolist()
        here = slice(batch.target_offsets[b], batch.target_offsets[b + 1])
        ids, labels = batch.ids[here].tolist(), batch.labels[here].tolist()
        assert source[-1] == END_ID and ids[0] == START_ID and labels[-1] == END_ID and ids[1:] == labels[:-1]
        pairs.append((tuple(source[:-1]), tuple(labels[:-1])))
    assert batch.source_offsets[-1] == len(batch.source_ids) and batch.target_offsets[-1] == len(batch.ids)
    return pairs


EVERY = [(tuple(source.tolist()), tuple(target.tolist())) for source, target in PAIRS]


def test_a_batch_by_hand() -> None:
    pairs = [(np.array(a, np.int32), np.array(b, np.int32)) for a, b in (([7, 8], [9]), ([6], [5, 4]))]
    batch = assemble_pairs(pairs, NUMPY)
    assert batch.source_ids.tolist() == [7, 8, 1, 6, 1] and batch.source_offsets.tolist() == [0, 3, 5]
    assert batch.ids.tolist() == [0, 9, 0, 5, 4] and batch.target_offsets.tolist() == [0, 2, 5]
    assert batch.labels.tolist() == [9, 1, 5, 4, 1] and batch.n_labels == 5
    assert {a.dtype for a in (batch.source_ids, batch.ids, batch.labels)} == {np.dtype(np.int32)}


def test_without_a_seed_pairs_keep_their_order() -> None:
    assert [pair for batch in batches() for pair in contents(batch)] == EVERY


def test_every_epoch_shuffles_every_pair_once() -> None:
    pairs = [pair for batch in batches(seed=1, epochs=2) for pair in contents(batch)]
    first, second = pairs[:90], pairs[90:]
    assert sorted(first) == sorted(second) == sorted(EVERY) and first != second != EVERY
    assert pairs == [pair for batch in batches(seed=1, epochs=2) for pair in contents(batch)]
    assert pairs != [pair for batch in batches(seed=2, epochs=2) for pair in contents(batch)]


@pytest.mark.parametrize("seed", [None, 1])
def test_batches_hold_as_many_tokens_as_allowed(seed: int | None) -> None:
    sizes = [len(batch.source_ids) + len(batch.ids) for batch in batches(seed=seed)]
    assert max(sizes) <= 60 and sum(sizes) / len(sizes) > 40


def test_pairs_of_a_batch_have_similar_lengths() -> None:
    def spread(seed: int | None) -> float:
        lengths_of = [[len(a) + len(b) for a, b in contents(batch)] for batch in batches(seed=seed, pool=90)]
        return float(np.mean([max(lengths) - min(lengths) for lengths in lengths_of]))

    assert spread(1) < 0.4 * spread(None)
    longest = [max(len(a) + len(b) for a, b in contents(batch)) for batch in batches(seed=1, pool=90)]
    assert longest != sorted(longest)


@pytest.mark.parametrize("seed", [None, 3])
def test_a_restored_position_gives_the_same_batches(seed: int | None) -> None:
    stream, every, states = batches(seed=seed, epochs=2), [], []
    for batch in stream:
        every.append(batch)
        states.append(json.dumps(stream.state()))
    for k, state in enumerate(states):
        resumed = batches(seed=seed, epochs=2)
        resumed.restore(json.loads(state))
        assert all(are_equal(a, b) for a, b in zip(resumed, every[k + 1 :], strict=True))


def test_ranks_share_the_pairs_of_the_whole_batch() -> None:
    shares = [list(batches(seed=4, rank=r, ranks=7)) for r in range(7)]
    for whole, *parts in zip(batches(seed=4), *shares, strict=True):
        assert sum(part.n_labels for part in parts) == whole.n_labels
        assert sorted(pair for part in parts for pair in contents(part)) == sorted(contents(whole))
    assert any(not part.n_labels for share in shares for part in share)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_tokens": 0}, "max_tokens must be at least 1, not 0"),
        ({"pool": 0}, "pool must be at least 1, not 0"),
        ({"ranks": 0}, "rank must be in 0..-1, not 0"),
        ({"pairs": []}, "no examples, no batches"),
    ],
)
def test_bad_arguments_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        batches(**options)


def test_a_pair_too_long_for_any_batch_is_named() -> None:
    long = (np.full(30, 5, np.int32), np.full(40, 5, np.int32))
    with pytest.raises(ValueError, match="pair 41 has 72 tokens, more than a batch may have, 60"):
        list(batches(pairs=[*PAIRS[:40], long, *PAIRS[40:]], seed=1))


def test_a_position_of_other_data_is_refused() -> None:
    stream = batches(seed=3)
    for change, message in (
        ({"seed": 8}, "taken with seed 8, this has 3"),
        ({"data": [90, 61, 32]}, r"taken with data \[90, 61, 32\], this has \[90, 60, 32\]"),
        ({"extra": 1}, "not a position in the data"),
    ):
        with pytest.raises(ValueError, match=message):
            stream.restore(stream.state() | change)


def write(folder: Path, english: str, german: str) -> tuple[Path, Path]:
    paths = folder / "text.en", folder / "text.de"
    for path, text in zip(paths, (english, german), strict=True):
        path.write_bytes(text.encode())
    return paths


def test_parallel_files_become_ids(tmp_path: Path) -> None:
    paths = write(tmp_path, "a bird sings\r\n( it flies\n", "ein vogel singt\n( er fliegt )\n")
    sides = list(read_parallel(*paths))
    assert sides == [
        (["a", "bird", "sings"], ["ein", "vogel", "singt"]),
        (["(", "it", "flies"], ["(", "er", "fliegt", ")"]),
    ]
    vocabulary = build_of_words([words for pair in sides for words in pair])
    pairs = load_parallel(*paths, vocabulary)
    assert [tuple(vocabulary.decode(ids.tolist()) for ids in pair) for pair in pairs] == sides
    assert Vocabulary.from_json(vocabulary.to_json()) == vocabulary and not vocabulary.labels


@pytest.mark.parametrize(
    ("english", "german", "message"),
    [
        ("a\nb\n", "c\n", "text.en:2: {de} ends before this line"),
        ("a\n", "c\nd\n\n", "text.de:2: {en} ends before this line"),
        ("a\n \n", "c\nd\n", "text.en:2: an empty sentence"),
        ("a\nb\n", "c\n\n", "text.de:2: an empty sentence"),
        ("", "c\n", "text.en: an empty file"),
        ("a\nz\n", "a\na\n", "text.en:2: the word 'z' is not in the closed vocabulary of 2 words"),
    ],
)
def test_files_that_do_not_fit_are_named(tmp_path: Path, english: str, german: str, message: str) -> None:
    paths = write(tmp_path, english, german)
    vocabulary = build_of_words([["a", "c"]])
    with pytest.raises(LineError) as error:
        load_parallel(*paths, vocabulary)
    assert str(error.value).endswith(message.format(en=paths[0], de=paths[1])) and "\n" not in str(error.value)


def test_every_word_however_rare_and_one_for_all_others() -> None:
    vocabulary = build_of_all_words([TextPair(("a",), ("b", "(", "a"), 1)])
    assert vocabulary.terminals == ("(", UNKNOWN, "a", "b")
    pairs = [TextPair(("a", "Zebras"), ("b",), 3), TextPair(("3rd", "a"), ("b", "a"), 7)]
    assert [[x.tolist() for x in pair] for pair in encode_pairs("f", pairs, vocabulary)] == [
        [[4, 3], [5]],
        [[3, 4], [5, 4]],
    ]
    with pytest.raises(LineError, match="^f:7: source and target have 6 tokens, more than a batch may have, 5; "):
        encode_pairs("f", pairs, vocabulary, 5)


def test_parallel_lines_that_fit_into_no_batch_are_named(tmp_path: Path) -> None:
    paths = write(tmp_path, "a\na b\n", "c\nc\n")
    vocabulary = build_of_words([["a", "b", "c"]])
    for most, longer, sides in (
        (4, False, "source and target have 5"),
        (2, True, "the longer of source and target has 3"),
    ):
        with pytest.raises(LineError) as error:
            load_parallel(*paths, vocabulary, most, longer=longer)
        use = f"use --batch-size {sides[-1]} or more"
        assert str(error.value) == f"{paths[1]}:2: {sides} tokens, more than a batch may have, {most}; {use}"


def test_text_that_is_cut_already_is_named(tmp_path: Path) -> None:
    """The pieces of another byte-pair encoding are words of any other vocabulary."""
    paths = write(tmp_path, "a bird\na bi@@ rd si@@ ngs\n", "ein vogel\nein vo@@ gel\n")
    vocabularies = {
        kind: build_of_words((words for pair in read_parallel(*paths) for words in pair), kind, size, fit=True)
        for kind, size in (("bpe", 60), ("words", None))
    }
    with pytest.raises(LineError) as error:
        load_parallel(*paths, vocabularies["bpe"])
    join = "join it (sed 's/@@ //g' FILE > NEW), or use --vocabulary words"
    assert str(error.value) == f"{paths[0]}:2: the word 'bi@@' ends with @@: the text is cut already: {join}"
    assert len(load_parallel(*paths, vocabularies["words"])) == 2


@pytest.mark.parametrize(("kind", "size"), [("words", None), ("unknown_classes", None), ("sentencepiece", 280)])
def test_vocabularies_of_words_are_those_of_trees(kind: str, size: int | None) -> None:
    sentences = ["The bird sings in the garden".split(), "the birds sing in 1984".split(), "the bird walked".split()]
    vocabulary = build_of_words(sentences, kind, size)
    trees = build([Tree("S", tuple(s)) for s in sentences], kind, None if size is None else size + 2)
    assert vocabulary.terminals == trees.terminals
    for words in sentences:
        assert vocabulary.encode_words(words) == trees.encode(Tree("S", tuple(words)))[1:-1]
    if kind == "words":
        with pytest.raises(VocabularyError, match="the word '\\(S' is not in the closed vocabulary"):
            vocabulary.encode_words(["(S"])
    if kind == "sentencepiece":
        assert vocabulary.decode(vocabulary.encode_words(["(S", "the", "S)"])) == ["(S", "the", "S)"]
    with pytest.raises(ValueError, match="no words to build a vocabulary from"):
        build_of_words([], kind, size)


def test_real_parallel_text(data_dir: Path) -> None:
    folder = data_dir / "multi30k"
    paths = [folder / f"val.lc.norm.tok.{side}.xz" for side in ("en", "de")]
    sides = list(read_parallel(*paths))
    assert len(sides) == 1014
    vocabulary = build_of_words((words for pair in sides for words in pair), "sentencepiece", 2000)
    pairs = load_parallel(*paths, vocabulary)
    for pair, (source, target) in zip(pairs, sides, strict=True):
        assert (vocabulary.decode(pair[0].tolist()), vocabulary.decode(pair[1].tolist())) == (source, target)
    stream = pair_batches(pairs, 4096, ops=NUMPY, seed=1)
    sizes = [len(batch.source_offsets) - 1 for batch in stream]
    assert sum(sizes) == 1014 and len(sizes) < 25
