"""Forms of running text: WikiText, text in lower case, several files and folders, and long sentences."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from accel.data.batches.contexts import cut_contexts
from accel.data.corpora.documents import Documents, load_documents, read_documents, split_sentences, text_files
from accel.data.files.lines import LineError
from accel.data.vocabularies.building import build_of_words
from accel.data.vocabularies.vocabulary import Vocabulary
from tests.fixtures.text_files import read_running_text

WIKITEXT = """
 = A bird =

 It is <unk> . It sings @-@ and flies .
 It is small .

 = = Its life = =

 = not a title
 = = = Food = = =
 Seeds .

 = Another =

 Yes .
""".replace("\n", " \n")  # lines of WikiText end with a blank


def test_wikitext_has_articles_headings_and_paragraphs(tmp_path: Path) -> None:
    path = tmp_path / "wiki.tokens"
    path.write_text(WIKITEXT)
    assert read_running_text(path, wikitext=True) == [
        ("= A bird =", 2, 0),
        ("It is <unk> .", 4, 0),
        ("It sings @-@ and flies .", 4, 0),
        ("It is small .", 5, 0),
        ("= = Its life = =", 7, 0),
        ("= not a title", 9, 0),
        ("= = = Food = = =", 10, 0),
        ("Seeds .", 11, 0),
        ("= Another =", 13, 1),
        ("Yes .", 15, 1),
    ]
    assert len(read_running_text(path, wikitext=True, sentence_a_line=True)) == 9
    path.write_text("No title .\n = One = \n\n = One = \n")
    assert [document for *_, document in read_running_text(path, wikitext=True)] == [0, 0, 1]
    path.write_text(" \n \n")
    with pytest.raises(LineError, match="no sentence in this file"):
        read_running_text(path, wikitext=True)


def test_the_counts_of_wikitext_2(data_dir: Path) -> None:
    """The published counts include one word for each end of a line: 217,646 and 245,569, of 60 articles each."""
    for name, n_lines, n_words in (("valid", 3760, 217_646), ("test", 4358, 245_569)):
        sentences = list(read_documents(data_dir / "wikitext2" / f"wiki.{name}.tokens.xz", wikitext=True))
        assert sum(len(sentence.words) for sentence in sentences) + n_lines == n_words
        assert sentences[-1].document + 1 == 60


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("it was dark. the birds slept! why? 3 sang.", ["it was dark.", "the birds slept!", "why?", "3 sang."]),
        ("he came . ( he left . ) then", ["he came .", "( he left . )", "then"]),
        ("wait ... and see . , mr. jones", ["wait ... and see . , mr. jones"]),
        ("i.e. this, no… not that. “yes.” she", ["i.e. this, no… not that.", "“yes.”", "she"]),
    ],
)
def test_sentences_of_text_in_lower_case(text: str, sentences: list[str]) -> None:
    split = split_sentences(enumerate(text.split()), any_case=True)
    assert [" ".join(words) for _, words in split] == sentences


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {"b.txt": "Two bb. Three bb.\n", "a/x.txt": "One aa.\n\nTwo aa.\n", ".hidden/c": "No.\n"}.items():
        (tmp_path / "text" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "text" / name).write_text(text)
    return tmp_path / "text"


def vocabulary_of(*paths: Path) -> Vocabulary:
    return build_of_words(sentence.words for path in paths for sentence in read_documents(path))


def test_files_of_a_folder_are_read_in_order(folder: Path, tmp_path: Path) -> None:
    paths = text_files(folder)
    assert paths == [folder / "a/x.txt", folder / "b.txt"] and text_files(paths[0]) == paths[:1]
    vocabulary = vocabulary_of(*paths)
    text = load_documents(paths, vocabulary, tmp_path / "cache")
    assert vocabulary.decode(text.ids.tolist()) == "One aa. Two aa. Two bb. Three bb.".split()
    assert (text.documents.tolist(), text.files.tolist(), text.lines.tolist()) == ([0, 1, 2, 4], [0, 2], [1, 3, 1, 1])
    assert [text.place(sentence) for sentence in range(4)] == [
        (paths[0], 1),
        (paths[0], 3),
        (paths[1], 1),
        (paths[1], 1),
    ]
    with pytest.raises(LineError, match=f"{folder}/a/x.txt:1: a sentence of 2 tokens"):
        cut_contexts(text, 1)
    load_documents(paths[::-1], vocabulary, tmp_path / "cache")
    assert len(list((tmp_path / "cache").iterdir())) == 2
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="empty: a folder without files"):
        text_files(tmp_path / "empty")


def test_a_file_is_not_read_twice(folder: Path) -> None:
    (folder / "a/x.txt.gz").write_bytes(b"")
    (folder / "x.txt").write_text("Another file.\n")
    with pytest.raises(ValueError, match=f"{folder}/a: holds both x.txt and x.txt.gz: keep one"):
        text_files(folder)


def test_a_file_may_be_one_document(folder: Path, tmp_path: Path) -> None:
    """Unpacked files of OpenWebText have this form: a blank line ends a paragraph, and with it a sentence."""
    paths = text_files(folder)
    assert read_running_text(paths[0], file_is_document=True) == [("One aa.", 1, 0), ("Two aa.", 3, 0)]
    text = load_documents(paths, vocabulary_of(*paths), tmp_path / "cache", file_is_document=True)
    assert text.documents.tolist() == [0, 2, 4]


def spelled(text: Documents, vocabulary: Vocabulary) -> list[str]:
    bounds = zip(text.sentences[:-1], text.sentences[1:], strict=True)
    return ["|".join(vocabulary.symbols[i] for i in text.ids[a:b]) for a, b in bounds]


def test_long_sentences_are_cut_skipped_or_kept(tmp_path: Path) -> None:
    path, cache = tmp_path / "text", tmp_path / "cache"
    path.write_text("a b c d ee. F gg.\n\nH i j k\n\nL m\n")
    vocabulary = vocabulary_of(path)
    whole_text = load_documents(path, vocabulary, cache, longest=3)
    assert spelled(whole_text, vocabulary) == ["a|b|c|d|ee.", "F|gg.", "H|i|j|k", "L|m"] and not len(whole_text.long)
    cut_text = load_documents(path, vocabulary, cache, longest=3, long="cut")
    assert spelled(cut_text, vocabulary) == ["a|b|c", "d|ee.", "F|gg.", "H|i|j", "k", "L|m"]
    assert (cut_text.lines.tolist(), cut_text.long.tolist(), cut_text.documents.tolist()) == (
        [1, 1, 1, 3, 3, 5],
        [1, 3],
        [0, 3, 5, 6],
    )
    short_text = load_documents(path, vocabulary, cache, longest=3, long="skip")
    assert spelled(short_text, vocabulary) == ["F|gg.", "L|m"]
    assert (short_text.lines.tolist(), short_text.long.tolist()) == ([1, 5], [1, 3])
    assert short_text.documents.tolist() == [0, 1, 1, 2]  # the second document has no sentence left
    assert cut_contexts(short_text, 3, across_documents=False).tolist() == [0, 1, 2]
    with pytest.raises(LineError, match="text: no sentence of at most 1 tokens"):
        load_documents(path, vocabulary, cache, longest=1, long="skip")
    with pytest.raises(ValueError, match="long: unknown 'drop': choose one of refuse, cut, skip"):
        load_documents(path, vocabulary, cache, long="drop")


def test_sentences_are_cut_between_words(tmp_path: Path) -> None:
    """Only a word that is longer than the limit is cut inside."""
    path = tmp_path / "text"
    path.write_text("ab abab ab\n")
    vocabulary = build_of_words([["ab", "abab"]], "sentencepiece", 262, fit=True)
    whole = load_documents(path, vocabulary, tmp_path / "cache")
    sizes = np.diff(np.append(np.flatnonzero(whole.begins_word), len(whole.ids)))
    limit = int(sizes[0] + sizes[1])
    cut_text = load_documents(path, vocabulary, tmp_path / "cache", longest=limit, long="cut")
    assert cut_text.sentences.tolist() == [0, limit, limit + sizes[2]] and np.array_equal(cut_text.ids, whole.ids)
    fine = load_documents(path, vocabulary, tmp_path / "cache", longest=1, long="cut")
    assert fine.sentences.tolist() == list(range(len(whole.ids) + 1))


def test_a_sentence_may_be_a_context_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("A bb. C dd. E\n\nF\n")
    text = load_documents(path, vocabulary_of(path), tmp_path / "cache")
    assert cut_contexts(text, 9, one_sentence=True).tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(LineError, match="text:1: a sentence of 2 tokens, more than a context may have, 1"):
        cut_contexts(text, 1, one_sentence=True)
