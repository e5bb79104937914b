"""The documents that a model reads: gaps in them, and the lines of their sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

from accel.data.corpora.gathered import given_proposals
from accel.data.corpora.sequences import encode_sentences, read_whole, unknown
from accel.data.corpora.treebank import Reading, load_corpus
from accel.data.files.lines import LineError
from accel.data.vocabularies.building import build
from refimpl.trees import words

TEXT = """\
(S (NN a) (VB b))
(S (NN c) d)

(S (NN e) f)
(S (NN e) f)

(S (NN a))
(S
  (NN b))

(S (NN a))
"""
LEFT_OUT = Reading(drop_preterminals=True, documents="blank", leave_out_untagged=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "trees").write_text(TEXT)
    return tmp_path / "trees"


def test_a_document_with_a_gap_is_left_out(path: Path) -> None:
    """Its other sentences are read after a sentence that is missing; a file has one result for each document."""
    lines: list[int] = []
    documents = list(read_whole(path, LEFT_OUT, lines))
    assert [(str(one.tree), one.lines) for one in documents] == [("(DOC (S a) (S b))", (7, 8)), ("(DOC (S a))", (11,))]
    assert lines == [2, 4] and len(list(read_whole(path, LEFT_OUT))) == 2
    lines.clear()
    assert given_proposals(path, None, LEFT_OUT, lines).n_words == [2, 1] and lines == [2, 4]
    with pytest.raises(LineError, match=r"trees:2: not every word has a part-of-speech tag to drop"):
        list(read_whole(path, Reading(drop_preterminals=True, documents="blank")))


def test_training_documents_may_have_gaps(path: Path, tmp_path: Path) -> None:
    """The trees of which the vocabulary is built are those of the corpus."""
    lines: list[int] = []
    documents = list(read_whole(path, LEFT_OUT, lines, gaps=True))
    assert [words(one.tree) for one in documents] == [["a", "b"], ["a", "b"], ["a"]] and lines == [2, 4, 5]
    vocabulary = build(one.tree for one in documents)
    corpus = load_corpus(path, vocabulary, tmp_path / "cache", LEFT_OUT)
    assert [corpus[k].tolist() for k in range(3)] == [vocabulary.encode(one.tree) for one in documents]
    assert corpus.words.tolist() == [2, 2, 1]


@pytest.mark.parametrize(
    ("trees", "line", "reason"),
    [
        ("(S a)\n(S b)\n\n(S a)\n(S\n a)\n(S zebra)\n", 7, "the word 'zebra' is not in the closed vocabulary"),
        ("(S a)\n\n(S a)\n(S b)\n(XP a)\n", 5, "the label 'XP' is not in the vocabulary"),
    ],
)
def test_errors_of_documents_name_the_line_of_the_sentence(path: Path, trees: str, line: int, reason: str) -> None:
    reading = Reading(documents="blank")
    path.write_text("(S a)\n(S b)\n")
    vocabulary = build(one.tree for one in read_whole(path, reading))
    path.write_text(trees)
    documents = list(read_whole(path, reading))
    first, second = unknown(path, documents, vocabulary)
    assert first is None and str(second).startswith(f"{path}:{line}: {reason}")
    with pytest.raises(LineError, match=f"trees:{line}: {reason}"):
        encode_sentences(path, documents, vocabulary)
    without_documents = build(one.tree for one in read_whole(path, Reading()))
    reasons = [str(error) for error in unknown(path, documents, without_documents)]
    assert [reason.partition(" is not")[0] for reason in reasons] == [
        f"{path}:{one.line}: the label 'DOC'" for one in documents
    ]
