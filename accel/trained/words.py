"""The words of a line and the ids of a word, for every kind of model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from accel.data.batches.text import EOS, refuse_end
from accel.data.corpora.constituents import without_brackets
from accel.data.corpora.treebank import DOCUMENT
from accel.data.vocabularies.word_pieces import UNKNOWN_PIECE
from accel.data.vocabularies.words import Words
from accel.trained.kinds import CONTEXTS, LABELLED_TREES, PROPOSALS, can
from accel.trained.opening import Model
from refimpl.trees import START

Pieces = Sequence[Sequence[int]]
"""For every word of a sentence its id, or the ids of its pieces."""
Sentence = str | Sequence[str]
Batch = str | Sequence[Sentence]
"""One sentence, or several."""


def line_reader(model: Model) -> Callable[[str], list[str]]:
    """Return the function that splits a line into words, at blanks or into characters."""
    return (lambda line: list(line.strip())) if model.of_characters else str.split


def sentences_of(
    model: Model, batch: Batch, split: Callable[[str], list[str]] | None = None, name: str = "batch"
) -> list[list[str]]:
    """Return the words of one sentence or several; strings are split by `split`, or by the model's `line_reader`.

    `name` is that of the argument, for errors.

    Raises
    ------
    ValueError
        If a batch or a sentence is neither a string nor a list, or a word is no string, empty, or has blanks in it.
    """
    split = split or line_reader(model)
    if isinstance(batch, str) and os.path.splitext(batch)[1] and os.path.isfile(batch):
        raise ValueError(f"{name}: {batch} is a file: give its sentences")
    sentences = [batch] if isinstance(batch, str) else _listed(name, batch)
    place = "sentence" if name == "batch" else f"{name}: sentence"
    return [words_of(f"{place} {number}", sentence, split) for number, sentence in enumerate(sentences, 1)]


def words_of(name: str, sentence: Any, split: Callable[[str], list[str]]) -> list[str]:
    """Return the words of a sentence, which errors call `name`: a string is split, a list holds words."""
    if isinstance(sentence, str):
        return split(sentence)
    words = _listed(name, sentence)
    for place, word in enumerate(words, 1):
        if not isinstance(word, str) or word.split() != [word]:
            raise ValueError(f"{name}: word {place} is {word!r}, not a string without blanks")
    return words


def _listed(name: str, value: Any) -> list[Any]:
    """Return what a list, or another iterable, holds."""
    if isinstance(value, (bytes, PurePath, Mapping)) or not isinstance(value, Iterable):
        raise ValueError(f"{name}: is of type {type(value).__name__}: give a string or a list")
    return list(value)


def refuse_start(words: Sequence[str]) -> None:
    """Raise ValueError for the start symbol, which no tree may have as a word."""
    if START in words:
        raise ValueError(f"{START} begins the actions of every tree, and is no word: write another")


def check_each(sentences: Iterable[list[str]], check: Callable[[list[str]], object]) -> None:
    """Call `check` with every sentence, and raise its ValueError with the number of the sentence."""
    for number, sentence in enumerate(sentences, 1):
        try:
            check(sentence)
        except ValueError as error:
            raise ValueError(f"sentence {number}: {error}") from error


def encode_words(
    model: Model, words: Sequence[str], *, generated: bool = False, max_height: int | None = None
) -> list[list[int]]:
    """Return the ids of every word: one id, or those of its pieces.

    Parameters
    ----------
    generated : bool
        Whether the sentence is generated word by word, and must fit into a context of a model with contexts.
    max_height : int or None
        The number of tokens of a chart's longest phrase; None: no limit.

    Raises
    ------
    ValueError
        If there are no words, a word is outside a closed vocabulary, or there are more words than the model reads; for
        an `<eos>` among the words, if the model reads it at the end of a line.
    """
    if isinstance(model.vocabulary, Words) and EOS in model.vocabulary.ids:
        refuse_end(words)
    if can(model, PROPOSALS) and len(words) > model.config.max_words:
        raise ValueError(f"{len(words)} words, more than the parser reads, {model.config.max_words}")
    encoded = pieces_of(model, words)
    count = len(joined(encoded))
    if max_height is not None and count > max_height:
        raise ValueError(f"{count} tokens, but the chart ends at height {max_height}: no root")
    if generated and can(model, CONTEXTS) and count > (room := model.config.n_positions - 1):
        raise ValueError(f"a sentence of {count} tokens, more than a context of the model has, {room}")
    return encoded


def pieces_of(model: Model, words: Sequence[str]) -> list[list[int]]:
    """Return the ids of every word, without a limit on their number.

    Raises
    ------
    ValueError
        If there are no words, or a word is outside a closed vocabulary.
    """
    if not words:
        raise ValueError("an empty sentence")
    vocabulary = model.vocabulary
    encode = vocabulary.encode if isinstance(vocabulary, Words) else vocabulary.encode_words
    return [encode([word]) for word in as_in_trees(model, words)]


def as_in_trees(model: Model, words: Iterable[str]) -> list[str]:
    """Return the words as a model of trees has seen them: with -LRB- and -RRB- for brackets within them."""
    return list(words) if model.reading is None else list(map(without_brackets, words))


def before_sentence(model: Model) -> list[int]:
    """Return the actions that a model of trees reads before a sentence that stands alone.

    For a model of documents it is the action that opens a document: the sentence is its first (MARG-6, point g).
    """
    if not can(model, LABELLED_TREES) or model.reading is None or model.reading.documents == "none":
        return []
    opening, _ = model.vocabulary.wrap(DOCUMENT, [])
    return [opening]


def joined(pieces: Pieces) -> list[int]:
    """Return the ids of all words, one after the other."""
    return [i for word in pieces for i in word]


def count_unknown(model: Model, words: Iterable[str]) -> int:
    """Return how many of the words are unknown to the model."""
    vocabulary = model.vocabulary
    if getattr(vocabulary, "kind", "") == "word_pieces":  # decoding these changes capitals, and splits at punctuation
        ids = (joined(pieces_of(model, [word])) for word in words)
        return sum(UNKNOWN_PIECE in map(vocabulary.symbols.__getitem__, of_word) for of_word in ids)
    sentences = [[word] for word in words]
    return sum(vocabulary.decode(joined(pieces_of(model, x))) != as_in_trees(model, x) for x in sentences)
