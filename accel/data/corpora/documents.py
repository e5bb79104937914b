"""Running text of any size: documents, which blank lines end, and their sentences, encoded once into ids on the disk.

A sentence ends with its document, or at a final mark that a capital follows. Or every line is a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np

from accel.data.files.encoded import Growing, load_encoded
from accel.data.files.lines import LineError, read_lines
from accel.data.vocabularies.vocabulary import Vocabulary, VocabularyError

_FORMAT = 1  # of the encoded files; part of their hash
_DTYPES = {"ids": np.int32, "begins_word": np.bool_, "sentences": np.int64, "documents": np.int64, "lines": np.int64}
_OPENING = "\"'`“‘«([{"
_CLOSING = "\"'”’»)]}"
_MARKS = (".", "!", "?", "…")
_ABBREVIATION = re.compile(
    r"(?:[^\W\d_]\.)+|(?:Mr|Mrs|Ms|Messrs|Mme|Mlle|Dr|Prof|St|Gen|Col|Capt|Lt|Sgt|Rev|Hon|Gov|Sen|Rep|Pres|No|Vol|vs|cf)\."
)


class Sentence(NamedTuple):
    """Words, the line where they begin, and the number of their document, from 0."""

    words: list[str]
    line: int
    document: int


@dataclass(frozen=True)
class Documents:
    """An encoded text.

    Attributes
    ----------
    path : Path
        Of the text.
    ids : [N] int32
        Its tokens, sentence after sentence.
    begins_word : [N] bool
        False for the second and later pieces of a word.
    sentences : [S+1] int64
        Where each sentence begins, and N.
    documents : [D+1] int64
        The first sentence of each document, and S.
    lines : [S] int64
        The line of the text where each sentence begins, from 1.
    """

    path: Path
    ids: np.ndarray
    begins_word: np.ndarray
    sentences: np.ndarray
    documents: np.ndarray
    lines: np.ndarray


def read_documents(path: str | Path, *, sentence_a_line: bool = False) -> Iterator[Sentence]:
    """Yield the sentences of a text, plain, .xz or .gz, whose words are separated by blanks.

    Raises
    ------
    LineError
        As `accel.data.files.lines.read_lines` does; for a text without words.
    """
    document = 0
    for blank, block in groupby(read_lines(path), key=lambda line: not line[1].split()):
        if blank:
            continue
        if sentence_a_line:
            for number, line in block:
                yield Sentence(line.split(), number, document)
        else:
            numbered = ((number, word) for number, line in block for word in line.split())
            for number, words in split_sentences(numbered):
                yield Sentence(words, number, document)
        document += 1
    if not document:
        raise LineError(path, 0, "no sentence in this file")


def split_sentences(words: Iterable[tuple[int, str]]) -> Iterator[tuple[int, list[str]]]:
    """Yield the sentences of numbered words, each with the number of its first word.

    A sentence ends after a full stop, a question or exclamation mark, or dots, and after closing quotes and brackets
    that follow, if the next word begins with a capital or opens a quotation or bracket, unless the last word is a title
    or initials. A straight quotation mark between blanks closes.

    Examples
    --------
    >>> text = "“Where is Mr. J. Smith?” she asked. (He sings.) “ Oh ! ” Birds do ... it"
    >>> [" ".join(words) for _, words in split_sentences(enumerate(text.split()))]
    ['“Where is Mr. J. Smith?” she asked.', '(He sings.)', '“ Oh ! ”', 'Birds do ... it']
    """
    sentence: list[str] = []
    first = 0
    for number, word in words:
        if sentence and _begins_sentence(word) and _ends_sentence(sentence):
            yield first, sentence
            sentence = []
        if not sentence:
            first = number
        sentence.append(word)
    if sentence:
        yield first, sentence


def _begins_sentence(word: str) -> bool:
    inner = word.lstrip(_OPENING)
    return inner[:1].isupper() or (not inner and word not in "\"''")


def _ends_sentence(words: list[str]) -> bool:
    last = next((word for word in reversed(words) if word.strip(_CLOSING)), "")  # skips words that only close
    return last.rstrip(_CLOSING).endswith(_MARKS) and not _ABBREVIATION.fullmatch(last.lstrip(_OPENING))


def load_documents(
    path: str | Path, vocabulary: Vocabulary, cache: str | Path, *, sentence_a_line: bool = False
) -> Documents:
    """Return an encoded text, memory-mapped from a folder in `cache` that is named after the file and a hash.

    The hash covers the file's bytes, the vocabulary and `sentence_a_line`. Text and ids are streamed, so that neither
    needs to fit into memory. The folder appears when it is complete.

    Raises
    ------
    LineError
        As `read_documents` does; at its line, a sentence with a word that the vocabulary does not have.
    """
    description = f"documents {_FORMAT} {sentence_a_line} {vocabulary.to_json()}"
    sentences = read_documents(path, sentence_a_line=sentence_a_line)
    arrays = load_encoded(path, cache, description, _DTYPES, lambda to: _encode(path, sentences, vocabulary, to))
    return Documents(Path(path), **arrays)


def _encode(path: str | Path, sentences: Iterable[Sentence], vocabulary: Vocabulary, to: dict[str, Growing]) -> None:
    pieces_of: dict[str, list[int]] = {}  # the pieces of every word so far
    to["sentences"].append([0])
    for _, document in groupby(sentences, key=lambda sentence: sentence.document):
        to["documents"].append([to["lines"].size])
        for words, line, _ in document:
            for word in words:
                if word not in pieces_of:
                    try:
                        pieces_of[word] = vocabulary.encode_words([word])
                    except VocabularyError as error:
                        raise LineError(path, line, str(error)) from error
            pieces = [pieces_of[word] for word in words]
            to["ids"].append([i for ids in pieces for i in ids])
            to["begins_word"].append([k == 0 for ids in pieces for k in range(len(ids))])
            to["sentences"].append([to["ids"].size])
            to["lines"].append([line])
    to["documents"].append([to["lines"].size])
