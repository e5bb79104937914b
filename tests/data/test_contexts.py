"""Contexts and their batches: whole sentences, limits, shares of processes, and resuming."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.data.batches.contexts import ContextBatches, SentencesBatch, cut_contexts
from accel.data.corpora.documents import Documents, load_documents, read_documents
from accel.data.files.lines import LineError
from accel.data.vocabularies.building import build_of_words

NUMPY = SimpleNamespace(xp=np)


def text_of(documents: list[list[int]]) -> Documents:
    """Return a text of sentences of these lengths; an id is the position of its token, and words have two pieces."""
    lengths = [n for document in documents for n in document]
    offsets = np.cumsum([0, *lengths], dtype=np.int64)
    begins = np.concatenate([np.arange(n) % 2 == 0 for n in lengths])
    firsts = np.cumsum([0, *map(len, documents)], dtype=np.int64)
    lines = np.arange(10, 10 + len(lengths), dtype=np.int64)
    return Documents(Path("text"), np.arange(offsets[-1], dtype=np.int32), begins, offsets, firsts, lines)


RNG = np.random.default_rng(0)
TEXT = text_of([RNG.integers(1, 9, RNG.integers(1, 12)).tolist() for _ in range(30)])


def batches(text: Documents = TEXT, batch_size: int = 4, **options: Any) -> ContextBatches:
    return ContextBatches(text, batch_size, **{"ops": NUMPY, "max_tokens": 20} | options)


def contents(batch: SentencesBatch) -> list[list[list[int]]]:
    """Return the ids of every sentence of every context."""
    assert batch.ids.dtype == np.int32 and batch.begins_word.dtype == bool
    assert batch.offsets.dtype == batch.contexts.dtype == np.int64
    assert batch.offsets[-1] == len(batch.ids) == len(batch.begins_word) == batch.n_labels
    assert batch.contexts[-1] == len(batch.offsets) - 1
    assert np.array_equal(batch.begins_word, TEXT.begins_word[batch.ids])
    sentences = [batch.ids[a:b].tolist() for a, b in zip(batch.offsets, batch.offsets[1:], strict=False)]
    return [sentences[a:b] for a, b in zip(batch.contexts, batch.contexts[1:], strict=False)]


EVERY = [TEXT.ids[a:b].tolist() for a, b in zip(TEXT.sentences, TEXT.sentences[1:], strict=False)]


@given(st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=9), min_size=1, max_size=6), st.booleans())
def test_contexts_take_all_that_fits(documents: list[list[int]], across: bool) -> None:
    text = text_of(documents)
    begins = cut_contexts(text, 8, across_documents=across).tolist()
    expected, room = [], 0
    for document in documents:
        for first, length in enumerate(document):
            if length > room or (first == 0 and not across):
                expected.append(0)
                room = 8
            expected[-1] += 1
            room -= length
    assert np.diff(begins).tolist() == expected and begins[0] == 0


def test_a_sentence_longer_than_a_context_is_named_with_its_line() -> None:
    text = text_of([[3, 4], [2, 9, 1]])
    assert cut_contexts(text, 9).tolist() == [0, 3, 4, 5]
    with pytest.raises(LineError, match="text:13: a sentence of 9 tokens, more than a context may have, 8"):
        cut_contexts(text, 8)
    with pytest.raises(LineError, match="text:13: "):
        batches(text, max_tokens=8)


@pytest.mark.parametrize("across", [True, False])
def test_without_a_seed_the_text_keeps_its_order(across: bool) -> None:
    in_batches = [contents(batch) for batch in batches(across_documents=across)]
    assert [s for batch in in_batches for context in batch for s in context] == EVERY
    assert all(sum(map(len, context)) <= 20 for batch in in_batches for context in batch)
    assert len(in_batches) == len(batches(across_documents=across)) and all(
        len(batch) == 4 for batch in in_batches[:-1]
    )
    if not across:
        document = np.repeat(np.arange(30), np.diff(TEXT.documents))
        begins = cut_contexts(TEXT, 20, across_documents=False)
        assert all(len(set(document[a:b])) == 1 for a, b in zip(begins, begins[1:], strict=False))


def test_every_epoch_shuffles_every_context_once() -> None:
    contexts = [context for batch in batches(seed=1, epochs=2) for context in contents(batch)]
    first, second = contexts[: len(contexts) // 2], contexts[len(contexts) // 2 :]
    in_order = [context for batch in batches() for context in contents(batch)]
    assert sorted(first) == sorted(second) == in_order and first != second != in_order
    assert contexts == [context for batch in batches(seed=1, epochs=2) for context in contents(batch)]
    assert contexts != [context for batch in batches(seed=2, epochs=2) for context in contents(batch)]


@pytest.mark.parametrize("seed", [None, 3])
def test_a_restored_position_gives_the_same_batches(seed: int | None) -> None:
    stream, every, states = batches(seed=seed, epochs=2), [], []
    for batch in stream:
        every.append(contents(batch))
        states.append(json.dumps(stream.state()))
    for k, state in enumerate(states):
        resumed = batches(seed=seed, epochs=2)
        resumed.restore(json.loads(state))
        assert [contents(batch) for batch in resumed] == every[k + 1 :]


def test_ranks_share_the_contexts_of_the_whole_batch() -> None:
    shares = [[contents(batch) for batch in batches(seed=4, rank=r, ranks=3)] for r in range(3)]
    for whole, *parts in zip(batches(seed=4), *shares, strict=True):
        assert [parts[i % 3][i // 3] for i in range(len(contents(whole)))] == contents(whole)
    idle = next(batches(batch_size=1, rank=1, ranks=2))
    assert idle.n_labels == 0 and idle.offsets.tolist() == idle.contexts.tolist() == [0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1, not 0"),
        ({"max_tokens": 0}, "max_tokens must be at least 1, not 0"),
        ({"rank": 2, "ranks": 2}, "rank must be in 0..1, not 2"),
    ],
)
def test_bad_arguments_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        batches(**options)


def test_a_position_of_other_data_is_refused() -> None:
    stream = batches(seed=3)
    for other in (batches(seed=8), batches(seed=3, batch_size=5), batches(seed=3, across_documents=False)):
        with pytest.raises(ValueError, match="the position was taken with"):
            stream.restore(other.state())


def test_contexts_of_a_novel(data_dir: Path, tmp_path: Path) -> None:
    path = data_dir / "public_domain_text" / "warandpeace.txt.xz"
    vocabulary = build_of_words((s.words for s in islice(read_documents(path), 15_000)), "sentencepiece", 3000)
    text = load_documents(path, vocabulary, tmp_path)
    all_batches = list(batches(text, 16, max_tokens=1024, seed=0))
    assert sum(batch.n_labels for batch in all_batches) == len(text.ids) > 800_000
    sizes = np.concatenate([np.diff(batch.offsets[batch.contexts]) for batch in all_batches])
    assert sizes.max() <= 1024 and sizes.mean() > 990
    with pytest.raises(LineError, match=r"warandpeace.txt.xz:\d+: a sentence of \d+ tokens"):
        cut_contexts(text, 200)
