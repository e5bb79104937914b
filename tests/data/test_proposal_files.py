"""Files of proposals are read a sentence at a time, as often as they are needed."""

from __future__ import annotations

import tracemalloc
from functools import partial
from pathlib import Path

import pytest

from accel.data.corpora.proposals import gather, stream_proposals
from accel.data.corpora.treebank import Reading

ROWS = 40  # of a sentence


def write(path: Path, n_sentences: int) -> Path:
    trees = [f"(S (X{k} the dog) (VP (Y{k} runs fast and far) (Z home)))" for k in range(ROWS)]
    path.write_text("\n\n".join(["\n".join(trees)] * n_sentences))
    return path


def peak(path: Path) -> tuple[int, int]:
    """Return the most memory that two readings of a file take, and how many trees it has."""
    tracemalloc.start()
    sentences = gather(path, partial(stream_proposals, path, Reading()), Reading())
    n_trees = sum(len(group) for group in sentences.proposals)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most, n_trees


def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    """Ten times as many sentences take a few numbers more each; a sentence's trees alone take a hundred times that."""
    peak(write(tmp_path / "few", 2))
    few, n_few = peak(tmp_path / "few")
    many, n_many = peak(write(tmp_path / "many", 60))
    assert (n_few, n_many) == (2 * ROWS, 60 * ROWS)
    assert many - few < 58 * 500 < few


def test_a_file_that_changes_meanwhile_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trees"
    path.write_text("(S a)\n(S (X a))\n\n(S b)\n")
    sentences = gather(path, partial(stream_proposals, path, Reading()), Reading())
    assert [[str(x.tree) for x in group] for group in sentences.proposals] == [["(S a)", "(S (X a))"], ["(S b)"]]
    path.write_text("(S a)\n\n(S b)\n")
    with pytest.raises(ValueError, match="trees: changed while it was read"):
        list(sentences.proposals)
