"""Treebank files read for a model: part-of-speech tags go only where every word has one.

Without tags ``(VP sings)`` looks like a tag itself, so dropping tags from trees that have none would lose constituents.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from accel.data.corpora.treebank import DOCUMENT, Corpus, Reading, Sentence, TreebankError, encode_trees, read_sentences
from accel.data.files.brackets import is_preterminal, without_preterminals
from accel.data.vocabularies.vocabulary import Vocabulary, VocabularyError
from refimpl.trees import Tree


def tags(tree: Tree) -> list[str] | None:
    """Return the part-of-speech tag of every word; None if a word is not alone in its bracket.

    Examples
    --------
    >>> tags(Tree("S", (Tree("DT", ("the",)), Tree("NN", ("bird",)))))
    ['DT', 'NN']
    """
    found = []
    agenda: list[Tree] = [tree]
    while agenda:
        node = agenda.pop()
        if is_preterminal(node):
            found.append(node.label)
            continue
        below = [child for child in node.children if isinstance(child, Tree)]
        if len(below) < len(node.children):
            return None
        agenda += reversed(below)
    return found


def read_tagged(path: str | Path, reading: Reading) -> Iterator[Sentence]:
    """Yield the sentences of a file.

    Raises
    ------
    TreebankError
        As `read_sentences` does, and at the line of a tree where tags are to be dropped but a word has none.
    """
    for sentence in read_sentences(path, replace(reading, drop_preterminals=False)):
        if reading.drop_preterminals:
            if tags(sentence.tree) is None:
                reason = "not every word has a part-of-speech tag to drop: take these trees as they are (--keep-tags)"
                raise TreebankError(path, sentence.line, 0, reason)
            sentence = sentence._replace(tree=without_preterminals(sentence.tree))
        yield sentence


def read_whole(path: str | Path, reading: Reading) -> Iterator[Sentence]:
    """Yield what a model reads as one sequence: a sentence or, if the reading has documents, ``(DOC ...)``."""
    for number, group in groupby(read_tagged(path, reading), key=lambda sentence: sentence.document):
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
        for sentence in sentences:
            try:
                vocabulary.encode(sentence.tree)
            except VocabularyError as error:
                raise TreebankError(path, sentence.line, 0, str(error)) from error
        raise
