"""Running text of any size: documents with blank lines between them, and their sentences, encoded once as ids on disk.

A sentence ends with its document, or at a final mark before a capital; an option lets it end at any final mark, another
makes every line a sentence. WikiText has a paragraph a line, and an article begins with its title.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np

from accel.data.files.encoded import Growing, load_encoded
from accel.data.files.lines import LineError, errors_at, one_form_of_each, read_text_lines
from accel.data.vocabularies.vocabulary import Vocabulary

_FORMAT = 2  # of the encoded files; part of their hash
_DTYPES = {
    "ids": np.int32, "begins_word": np.bool_, "sentences": np.int64, "documents": np.int64, "lines": np.int64,
    "files": np.int64, "long": np.int64,
}  # fmt: skip
LONG = ("refuse", "cut", "skip")
"""What to do with a sentence of more tokens than a context has."""
_OPENING = "\"'`“‘«([{"
_CLOSING = "\"'”’»)]}"
_MARKS = (".", "!", "?", "…")
_TITLES = "Mr|Mrs|Ms|Messrs|Mme|Mlle|Dr|Prof|St|Gen|Col|Capt|Lt|Sgt|Rev|Hon|Gov|Sen|Rep|Pres|No|Vol|vs|cf"
_ABBREVIATION = rf"(?:[^\W\d_]\.)+|(?:{_TITLES})\."
_ABBREVIATIONS = {any_case: re.compile(_ABBREVIATION, re.IGNORECASE if any_case else 0) for any_case in (False, True)}


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
        The path of the text, or of the first of its files.
    ids : [N] int32
        The tokens, sentence after sentence.
    begins_word : [N] bool
        False for the second and later pieces of a word.
    sentences : [S+1] int64
        Where each sentence begins, and N.
    documents : [D+1] int64
        The first sentence of each document, and S.
    lines : [S] int64
        The line of its file where each sentence begins, from 1.
    paths : tuple of Path
        All files of the text.
    files : [F] int64
        The first sentence of each file.
    long : [L] int64
        The lines of sentences that were cut or left out.
    """

    path: Path
    ids: np.ndarray
    begins_word: np.ndarray
    sentences: np.ndarray
    documents: np.ndarray
    lines: np.ndarray
    paths: tuple[Path, ...] = ()
    files: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))
    long: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def place(self, sentence: int) -> tuple[Path, int]:
        """Return the file of a sentence, and the line where it begins."""
        file = int(np.searchsorted(self.files, sentence, side="right")) - 1
        return (*self.paths, self.path)[file], int(self.lines[sentence])


def text_files(path: str | Path) -> list[Path]:
    """Return the file itself, or the files of a folder and of the folders in it, sorted by path, without hidden ones.

    Raises
    ------
    ValueError
        If a folder has no files, or one of them both plain and packed.
    """
    folder = Path(path)
    if not folder.is_dir():
        return [folder]
    within = ((file, file.relative_to(folder).parts) for file in folder.rglob("*") if file.is_file())
    files = one_form_of_each(file for file, parts in within if not any(part.startswith(".") for part in parts))
    if not files:
        raise ValueError(f"{folder}: a folder without files")
    return files


def read_documents(
    path: str | Path,
    *,
    sentence_a_line: bool = False,
    any_case: bool = False,
    wikitext: bool = False,
    file_is_document: bool = False,
) -> Iterator[Sentence]:
    """Yield the sentences of a text, plain, .xz or .gz, whose words are separated by blanks.

    Parameters
    ----------
    sentence_a_line, any_case : bool
        Every line is a sentence; or a final mark ends a sentence before any word, see `split_sentences`.
    wikitext : bool
        Every line is a paragraph or a heading between equals signs, which is a sentence. A document begins with a
        heading between single equals signs that follows a blank line.
    file_is_document : bool
        The file is one document; blank lines end sentences only.

    Raises
    ------
    LineError
        As `accel.data.files.lines.read_text_lines` does.
    """
    if wikitext:
        yield from _read_wikitext(path, sentence_a_line, any_case)
        return
    n_blocks = 0
    for blank, block in groupby(read_text_lines(path), key=lambda line: not line[1].split()):
        if blank:
            continue
        document = 0 if file_is_document else n_blocks
        if sentence_a_line:
            for number, line in block:
                yield Sentence(line.split(), number, document)
        else:
            numbered_words = ((number, word) for number, line in block for word in line.split())
            for number, words in split_sentences(numbered_words, any_case=any_case):
                yield Sentence(words, number, document)
        n_blocks += 1


def _read_wikitext(path: str | Path, sentence_a_line: bool, any_case: bool) -> Iterator[Sentence]:
    document, after_blank = -1, True
    for number, line in read_text_lines(path):
        words = line.split()
        if words:
            level = _heading_level(words)
            document += (level == 1 and after_blank) or document < 0
            whole = sentence_a_line or level > 0
            numbered_words = ((number, word) for word in words)
            for _, sentence in [(number, words)] if whole else split_sentences(numbered_words, any_case=any_case):
                yield Sentence(sentence, number, document)
        after_blank = not words


def _heading_level(words: list[str]) -> int:
    """Return how many equals signs stand before and after a heading of WikiText; 0 for other lines.

    >>> [_heading_level(text.split()) for text in ("= A title =", "= = Life = =", "a = b", "= 1 = =", "= =")]
    [1, 2, 0, 0, 0]
    """
    level = next((n for n, word in enumerate(words) if word != "="), 0)
    closing = next((n for n, word in enumerate(reversed(words)) if word != "="), 0)
    return level if level == closing else 0


def split_sentences(words: Iterable[tuple[int, str]], *, any_case: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Yield the sentences of numbered words, each with the number of its first word.

    A sentence ends after a full stop, a question or exclamation mark, or dots, and after closing quotes and brackets
    that follow, if the next word begins with a capital or opens a quotation or bracket, unless the last word is a title
    or initials. A straight quotation mark between blanks is a closing one. With `any_case` the next word may also begin
    with a small letter or a digit, but dots end no sentence: for text in lower case.

    Examples
    --------
    >>> text = "“Where is Mr. J. Smith?” she asked. (He sings.) “ Oh ! ” Birds do ... it"
    >>> [" ".join(words) for _, words in split_sentences(enumerate(text.split()))]
    ['“Where is Mr. J. Smith?” she asked.', '(He sings.)', '“ Oh ! ”', 'Birds do ... it']
    """
    sentence: list[str] = []
    first = 0
    for number, word in words:
        if sentence and _begins_sentence(word, any_case) and _ends_sentence(sentence, any_case):
            yield first, sentence
            sentence = []
        if not sentence:
            first = number
        sentence.append(word)
    if sentence:
        yield first, sentence


def _begins_sentence(word: str, any_case: bool) -> bool:
    inner = word.lstrip(_OPENING)
    first = inner[:1]
    return (first.isalnum() if any_case else first.isupper()) or (not inner and word not in "\"''")


def _ends_sentence(words: list[str], any_case: bool) -> bool:
    last = next((word for word in reversed(words) if word.strip(_CLOSING)), "")  # skips words that only close
    bare = last.rstrip(_CLOSING)
    has_mark = bare.endswith(_MARKS) and not (any_case and bare.endswith(("..", "…")))
    return has_mark and not _ABBREVIATIONS[any_case].fullmatch(last.lstrip(_OPENING))


def load_documents(
    path: str | Path | Sequence[Path],
    vocabulary: Vocabulary,
    cache: str | Path,
    *,
    longest: int | None = None,
    long: str = "refuse",
    **reading: bool,
) -> Documents:
    """Return an encoded text, memory-mapped from a folder in `cache` that is named after its first file and a hash.

    The hash covers the files' bytes, the vocabulary and all options. Text and ids are streamed, so that neither needs
    to fit into memory. The folder appears when it is complete.

    Parameters
    ----------
    path : one file, or several that are read one after the other
    longest : int or None
        How many tokens a sentence may have.
    long : "cut", "skip" or "refuse"
        What to do with a longer sentence. "cut" makes several sentences of it, between words where that is possible;
        "skip" leaves it out; "refuse" keeps it, and `cut_contexts` refuses it.
    reading : options of `read_documents`

    Raises
    ------
    LineError
        As `read_documents` does; at the line of a sentence with a word that the vocabulary does not have; if no
        sentence is left.
    """
    paths = [Path(path)] if isinstance(path, (str, Path)) else list(path)
    if long not in LONG:
        raise ValueError(f"long: unknown {long!r}: choose one of {', '.join(LONG)}")
    limit = None if long == "refuse" else longest
    options = "".join(f" {name}" for name, value in sorted(reading.items()) if value)
    description = f"documents {_FORMAT}{options} {long} {limit} {vocabulary.to_json()}"
    arrays = load_encoded(
        paths, cache, description, _DTYPES, lambda to: _encode(paths, reading, vocabulary, to, long, limit)
    )
    if not len(arrays["lines"]):
        raise LineError(paths[0], 0, f"no sentence of at most {limit} tokens")
    return Documents(paths[0], paths=tuple(paths), **arrays)


def _encode(
    paths: list[Path], reading: dict[str, bool], vocabulary: Vocabulary, to: dict[str, Growing],
    long: str, limit: int | None,
) -> None:  # fmt: skip
    pieces_of: dict[str, list[int]] = {}  # the pieces of every word so far
    to["sentences"].append([0])
    for path in paths:
        to["files"].append([to["lines"].size])
        for _, document in groupby(read_documents(path, **reading), key=lambda sentence: sentence.document):
            to["documents"].append([to["lines"].size])
            for words, line, _ in document:
                for word in words:
                    if word not in pieces_of:
                        with errors_at(path, line):
                            pieces_of[word] = vocabulary.encode_words([word])
                pieces = [pieces_of[word] for word in words]
                ids = [i for of_word in pieces for i in of_word]
                begins = [k == 0 for of_word in pieces for k in range(len(of_word))]
                is_long = limit is not None and len(ids) > limit
                to["long"].append([line] * is_long)
                for part in _parts(begins, limit if is_long else None) if not is_long or long == "cut" else ():
                    to["ids"].append(ids[part])
                    to["begins_word"].append(begins[part])
                    to["sentences"].append([to["ids"].size])
                    to["lines"].append([line])
    to["documents"].append([to["lines"].size])


def _parts(begins_word: list[bool], limit: int | None) -> list[slice]:
    """Return the parts of a sentence, of at most `limit` tokens each, that end with a word where that is possible.

    >>> _parts([True, True, False, True, False, False, False], 3)
    [slice(0, 3, None), slice(3, 6, None), slice(6, 7, None)]
    """
    bounds, n = [0], len(begins_word)
    while limit is not None and n - bounds[-1] > limit:
        low, high = bounds[-1] + 1, bounds[-1] + limit
        bounds.append(next((k for k in range(high, low - 1, -1) if begins_word[k]), high))
    return [slice(a, b) for a, b in zip(bounds, [*bounds[1:], n], strict=True)]
