"""The sequences that a model reads: sentences, or documents of several sentences."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from accel.data.corpora.treebank import DOCUMENT, Corpus, Reading, Sentence, TreebankError, encode_trees, read_sentences
from accel.data.vocabularies.vocabulary import Vocabulary, VocabularyError
from refimpl.trees import Tree


def read_whole(path: str | Path, reading: Reading, left_out: list[int] | None = None) -> Iterator[Sentence]:
    """Yield sentences or, if the reading has documents, ``(DOC ...)``, as `read_sentences` reads them."""
    for number, group in groupby(read_sentences(path, reading, left_out), key=lambda sentence: sentence.document):
        sentences = list(group)
        if reading.documents == "none":
            yield sentences[0]
        else:
            yield Sentence(Tree(DOCUMENT, tuple(s.tree for s in sentences)), sentences[0].line, number)


def encode_sentences(path: str | Path, sentences: list[Sentence], vocabulary: Vocabulary) -> Corpus:
    """Return the corpus of sentences read from `path`.

    Raises
    ------
    TreebankError
        At the line of a tree with a word or a label that the vocabulary does not have.
    """
    try:
        return encode_trees((sentence.tree for sentence in sentences), vocabulary)
    except VocabularyError:
        for error in unknown(path, sentences, vocabulary):
            if error is not None:
                raise error from None
        raise


def unknown(path: str | Path, sentences: list[Sentence], vocabulary: Vocabulary) -> list[TreebankError | None]:
    """Return for every sentence read from `path` the word or label that the vocabulary does not have, or None."""
    errors: list[TreebankError | None] = []
    for sentence in sentences:
        try:
            vocabulary.encode(sentence.tree)
            errors.append(None)
        except VocabularyError as error:
            errors.append(TreebankError(path, sentence.line, 0, str(error)))
    return errors
