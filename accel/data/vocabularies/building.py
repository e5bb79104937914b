"""The making of a vocabulary from the words and the labels of training data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from accel.data.vocabularies import bpe
from accel.data.vocabularies.terminals import all_words, train_pieces, words_and_classes
from accel.data.vocabularies.vocabulary import BPE, KINDS, UNKNOWN, Vocabulary
from refimpl.trees import ActionType, Tree, action_type, actions


def build(
    trees: Iterable[Tree], kind: str = "words", size: int | None = None, extra: Iterable[str] = (), fit: bool = False
) -> Vocabulary:
    """Return the vocabulary of the training trees, which are read once.

    Parameters
    ----------
    trees : iterable of Tree
        Training trees, normalised as the corpora will be.
    kind : "words", "unknown_classes" or "sentencepiece"
        "unknown_classes" turns the words that occur once into their classes.
    size : int or None
        The most ids to have, V; for "sentencepiece", which needs it, exactly V. With "unknown_classes" rare words are
        replaced by their classes; with "words" all words must fit.
    extra : iterable of str
        Labels besides those of the trees, such as ``DOC``.
    fit : bool
        "sentencepiece" has fewer ids than `size` if the words do not give so many pieces; otherwise that is an error.

    Raises
    ------
    ValueError
        Unknown kind; no trees; a size that is too small, or that SentencePiece cannot reach.
    """
    counts: Counter[str] = Counter()
    for tree in trees:
        counts.update(actions(tree))
    if not counts:
        raise ValueError("no trees to build a vocabulary from")
    opening = {action[1:] for action in counts if action_type(action) == ActionType.ONT}
    labels = tuple(sorted(opening | set(extra)))
    words = {word: n for word, n in counts.items() if action_type(word) == ActionType.T}
    return _numbered(words, labels, kind, size, fit)


def build_of_words(
    sentences: Iterable[Iterable[str]],
    kind: str = "words",
    size: int | None = None,
    labels: tuple[str, ...] = (),
    fit: bool = False,
) -> Vocabulary:
    """Return the vocabulary, with sorted labels or without, of the words of training sentences; see `build`.

    Without labels, `kind` may also be "bpe", which needs a size, as "sentencepiece" does. It does not learn from words
    that end with "@@": `Vocabulary.encode_words` refuses them, where their line is known.
    """
    counts: Counter[str] = Counter()
    for sentence in sentences:
        counts.update(sentence)
    if not counts:
        raise ValueError("no words to build a vocabulary from")
    return _numbered(counts, labels, kind, size, fit)


def _of_bpe(words: dict[str, int], size: int, fit: bool) -> Vocabulary:
    """Return the pieces and merges of words, and ``<unk>``; fewer ids than `size` only if `fit`."""
    try:
        pieces, merges = bpe.learn(words, size - 3)
    except ValueError as error:
        raise ValueError(f"vocabulary size {size}: {error}; use a larger size, or sentencepiece") from error
    if len(pieces) + 3 < size and not fit:
        raise ValueError(
            f"vocabulary size {size}, but the training data give fewer pieces; use {len(pieces) + 3} or less"
        )
    text = "\n".join([bpe.HEADER, *merges, ""])
    return Vocabulary(BPE, tuple(sorted((*pieces, UNKNOWN))), (), text.encode())


def _numbered(words: dict[str, int], labels: tuple[str, ...], kind: str, size: int | None, fit: bool) -> Vocabulary:
    if kind not in (*KINDS, BPE):
        raise ValueError(f"unknown kind of vocabulary {kind!r}: choose one of {', '.join((*KINDS, BPE))}")
    room = None if size is None else size - 2 - 2 * len(labels)
    if room is not None and room < 1:
        raise ValueError(f"vocabulary size {size}, but {len(labels)} labels leave no room; use a larger size")
    if kind in ("sentencepiece", BPE) and room is None:
        raise ValueError(f"a {kind} vocabulary needs a size")
    if kind == BPE and labels:
        raise ValueError("a vocabulary of bpe is for pairs of sequences; use sentencepiece")
    if kind == BPE:
        spelled = {word: n for word, n in words.items() if word != UNKNOWN and not word.endswith(bpe.CONTINUES)}
        return _of_bpe(spelled, size, fit)
    if kind == "sentencepiece":
        whole = (UNKNOWN,) if UNKNOWN in words else ()
        spelled = {word: n for word, n in words.items() if word != UNKNOWN}
        pieces, model = train_pieces(spelled, room - len(whole), 2 + 2 * len(labels) + len(whole), fit)
        return Vocabulary(kind, tuple(sorted((*pieces, *whole))), labels, model)
    return Vocabulary(
        kind, words_and_classes(words, room) if kind == "unknown_classes" else all_words(words, room), labels
    )
