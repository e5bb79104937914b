"""Files of proposals are read a sentence at a time, as often as they are needed."""

from __future__ import annotations

import os
import tracemalloc
from functools import partial
from pathlib import Path
from threading import Thread

import pytest

from accel.data.corpora.gathered import gather
from accel.data.corpora.proposals import stream_proposals
from accel.data.corpora.treebank import Reading, Sentence
from accel.data.files.lines import LineError

ROWS = 40  # proposals of a sentence


def write(path: Path, n_sentences: int) -> Path:
    trees = [f"(S (X{k} the dog) (VP (Y{k} runs fast and far) (Z home)))" for k in range(ROWS)]
    path.write_text("\n\n".join(["\n".join(trees)] * n_sentences))
    return path


def peak(path: Path) -> tuple[int, int]:
    """Return the peak memory of reading a file, or standard input, twice, and the number of its trees."""
    tracemalloc.start()
    sentences = gather(path, partial(stream_proposals, path, Reading()), Reading())
    n_trees = sum(len(group) for group in sentences.proposals)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most, n_trees


def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    """A further sentence takes less than 500 bytes: its trees, which need far more, are not kept in memory."""
    peak(write(tmp_path / "few", 2))
    few, n_few = peak(tmp_path / "few")
    many, n_many = peak(write(tmp_path / "many", 60))
    assert (n_few, n_many) == (2 * ROWS, 60 * ROWS)
    assert many - few < 58 * 500 < few


def test_memory_does_not_grow_with_the_rows_of_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard input is read once, and copied to a file that is deleted in the end."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    most, n_trees = list[int](), list[int]()
    for n_sentences in (2, 2, 60):
        with write(tmp_path / "trees", n_sentences).open() as file:
            monkeypatch.setattr("sys.stdin", file)
            memory, count = peak(Path("-"))
        most.append(memory)
        n_trees.append(count)
    _, few, many = most
    assert n_trees[1:] == [2 * ROWS, 60 * ROWS]
    assert many - few < 58 * 500 < few
    assert [path.name for path in tmp_path.iterdir()] == ["trees"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_named_pipe_is_read_as_the_file(tmp_path: Path) -> None:
    """The trees of a pipe can be read again and again; an error names the pipe and the line."""
    plain, pipe = write(tmp_path / "plain", 3), tmp_path / "pipe"
    os.mkfifo(pipe)

    def groups(path: Path) -> list[list[list[Sentence]]]:
        sentences = gather(path, partial(stream_proposals, path, Reading()), Reading())
        return [list(sentences.proposals), list(sentences.proposals)]

    for text, reads in ((plain.read_text(), True), ("(S a)\n(S b)\n", False)):
        writer = Thread(target=pipe.write_text, args=(text,))
        writer.start()
        if reads:
            assert groups(pipe) == groups(plain)
        else:
            with pytest.raises(LineError, match="pipe:2: other words"):
                groups(pipe)
        writer.join()


def test_a_file_that_changes_meanwhile_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trees"
    path.write_text("(S a)\n(S (X a))\n\n(S b)\n")
    sentences = gather(path, partial(stream_proposals, path, Reading()), Reading())
    assert [[str(x.tree) for x in group] for group in sentences.proposals] == [["(S a)", "(S (X a))"], ["(S b)"]]
    path.write_text("(S a)\n\n(S b)\n")
    with pytest.raises(ValueError, match="trees: changed while it was read"):
        list(sentences.proposals)
