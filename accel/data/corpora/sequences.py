"""The sequences that a model reads: sentences, or documents of several sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from accel.data.corpora.treebank import (
    DOCUMENT,
    Corpus,
    Reading,
    Sentence,
    encode_each,
    encode_trees,
    read_sentences,
    without_tags,
)
from accel.data.files.brackets import read_trees
from accel.data.files.lines import LineError
from accel.data.vocabularies.vocabulary import Vocabulary, VocabularyError
from refimpl.trees import Tree, TreeError

Trees = str | Tree | Iterable[str | Tree]
"""One tree or several, in brackets or in memory."""
GIVEN = "trees"  # the file that an error names where trees come from no file


def read_whole(
    path: str | Path, reading: Reading, left_out: list[int] | None = None, *, gaps: bool = False
) -> Iterator[Sentence]:
    """Yield sentences or, if the reading has documents, ``(DOC ...)``, as `read_sentences` reads them.

    A document with a sentence to be left out is left out as a whole, since its later sentences are read after that one;
    `left_out` gets the line of the first such sentence. With `gaps`, as in training, only the sentence is left out.
    """
    if reading.documents == "none":
        yield from read_sentences(path, reading, left_out)
        return
    tagged = reading if gaps else replace(reading, drop_preterminals=False)
    for number, group in groupby(read_sentences(path, tagged, left_out), key=lambda sentence: sentence.document):
        trees, lines, missing = list[Tree](), list[int](), list[int]()
        for original in group:
            sentence = original if gaps else without_tags(path, original, reading)
            if sentence is None:
                missing.append(original.line)
            else:
                trees.append(sentence.tree)
                lines.append(sentence.line)
        if not missing:
            yield Sentence(Tree(DOCUMENT, tuple(trees)), lines[0], number, lines=tuple(lines))
        elif left_out is not None:
            left_out.append(missing[0])


def read_treebank(path: str | Path, reading: Reading = Reading()) -> Iterator[Tree]:  # noqa: B008 (frozen)
    """Yield the trees of a file, sentences or documents; raises as `read_sentences` does."""
    return (sentence.tree for sentence in read_whole(path, reading))


def encode_sentences(path: str | Path, sentences: list[Sentence], vocabulary: Vocabulary) -> Corpus:
    """Return the corpus of sentences read from `path`.

    Raises
    ------
    LineError
        At the line of a tree with a word or a label that the vocabulary does not have.
    """
    try:
        return encode_trees((sentence.tree for sentence in sentences), vocabulary)
    except VocabularyError:
        for error in unknown(path, sentences, vocabulary):
            if error is not None:
                raise error from None
        raise


def require_known(path: str | Path, sentences: list[Sentence], vocabulary: Vocabulary) -> None:
    """Raise LineError at the line of a tree with a word or a label that the vocabulary does not have."""
    for error in unknown(path, sentences, vocabulary):
        if error is not None:
            raise error


def unknown(path: str | Path, sentences: list[Sentence], vocabulary: Vocabulary) -> list[LineError | None]:
    """Return for every sentence read from `path` the word or label that the vocabulary does not have, or None.

    The line is that of the sentence; in a document, of its sentence with the word or label.
    """
    errors: list[LineError | None] = []
    for sentence in sentences:
        trees = [*zip(sentence.tree.children, sentence.lines, strict=False), (sentence.tree, sentence.line)]
        try:
            encode_each(path, trees, vocabulary)
            errors.append(None)
        except LineError as error:
            errors.append(error)
    return errors


def read_given(trees: Trees, reading: Reading) -> Iterator[Sentence]:
    """Yield one tree or several, in brackets or in memory, as `read_whole` yields those of a file.

    The line of a tree is its number. If the reading has documents, a tree that is no ``(DOC ...)`` is the only one of
    its document.

    Raises
    ------
    LineError
        Of the file "trees", at the number of a tree: as `read_sentences`, and for several trees in one string.
    """
    for number, tree in enumerate([trees] if isinstance(trees, (str, Tree)) else trees, 1):
        drop = {"drop_traces": reading.drop_traces, "drop_function_tags": reading.drop_function_tags}
        try:
            results = list(read_trees([str(tree)], **drop))
        except TreeError as error:
            raise LineError(GIVEN, number, error.reason, error.column) from error
        if len(results) != 1:
            raise LineError(GIVEN, number, f"{len(results)} trees in one string: give each by itself")
        sentence = without_tags(GIVEN, Sentence(results[0], number, number - 1), reading)
        if sentence is None:
            raise LineError(GIVEN, number, "not every word has a part-of-speech tag to drop")
        if reading.documents != "none" and sentence.tree.label != DOCUMENT:
            sentence = sentence._replace(tree=Tree(DOCUMENT, (sentence.tree,)))
        yield sentence
