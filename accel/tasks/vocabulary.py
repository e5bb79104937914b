"""The options for a vocabulary of words or pieces, the sizes that they mean, and the line that describes it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from accel.data.vocabularies.vocabulary import BPE, KINDS, Vocabulary, VocabularyError
from accel.tasks.numbers import at_least
from accel.training.directory import VOCABULARY, load_vocabulary

PIECES = 8192
SUBWORDS = 2**15  # of bpe
MOST = 8000  # of the vocabularies that source and target share
_CONTENTS = {
    "words": "every word of the training data; a word outside is an error: --vocabulary unknown_classes takes any",
    "unknown_classes": "the words that the training data have twice or more, and classes of all other words",
    "sentencepiece": "pieces and bytes, which spell any word",
    "bpe": "pairs of characters, the most frequent ones first, all pieces but the last of a word with @@",
    "byte_pairs": "GPT-2's pairs of bytes, which spell any word",
    "word_pieces": "BERT's word pieces, and one for all words that they do not spell",
}


def add_vocabulary(parser: argparse.ArgumentParser, kind: str, pieces: int = PIECES, most: int | None = None) -> None:
    """Add the options for the kind and the size; `pieces` is the default size of sentencepiece, `most` of classes.

    If `most` is given, source and target share the vocabulary, and its kind may also be bpe.
    """
    kinds, of_bpe = (KINDS, "") if most is None else ((*KINDS, BPE), f", of bpe {SUBWORDS}")
    help_text = f"all words; words seen twice, and classes of the others; or pieces (default: {kind})"
    parser.add_argument("--vocabulary", choices=kinds, default=kind, help=help_text)
    others = "as many as there are" if most is None else f"at most {most}"
    help_text = f"the most ids (default: {others}; of sentencepiece {pieces}{of_bpe}, or what small data give)"
    parser.add_argument("--vocabulary-size", type=at_least(1), metavar="V", help=help_text)


def size_of(kind: str, given: int | None, pieces: int = PIECES, most: int | None = None) -> dict[str, Any]:
    """Return the options of `build` for the size; if no size is given, the default is cut to what the data give.

    >>> size_of("sentencepiece", None), size_of("sentencepiece", 99), size_of("words", None)
    ({'size': 8192, 'fit': True}, {'size': 99}, {'size': None, 'fit': True})
    """
    default = {"sentencepiece": pieces, "unknown_classes": most, "words": None, BPE: SUBWORDS}
    return {"size": default[kind], "fit": True} if given is None else {"size": given}


def stored_vocabulary(options: argparse.Namespace, form: Any = Vocabulary) -> Any:
    """Return the vocabulary of the run that is resumed; None if there is none."""
    is_stored = options.resume and (options.out / VOCABULARY).exists()
    return load_vocabulary(options.out, form) if is_stored else None


def described(vocabulary: Vocabulary) -> str:
    """Return a line about a vocabulary: its size, its kind, and what it holds.

    >>> described(Vocabulary("unknown_classes", ("UNK", "a"), ("NP", "S")))[:62]
    'vocabulary: 8 ids with 2 labels, unknown_classes: the words th'
    """
    labels = f" with {len(vocabulary.labels)} labels" if vocabulary.labels else ""
    return f"vocabulary: {len(vocabulary):,} ids{labels}, {vocabulary.kind}: {_CONTENTS[vocabulary.kind]}"


@contextmanager
def open_to_words(option: str = "--vocabulary unknown_classes") -> Iterator[None]:
    """Add the option that reads any word to the error about a word outside a closed vocabulary."""
    try:
        yield
    except ValueError as error:
        reason = error.__cause__ or error
        if isinstance(reason, VocabularyError) and "closed vocabulary" in str(reason):
            raise ValueError(f"{error}; use {option}") from reason
        raise
