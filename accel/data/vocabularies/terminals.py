"""The terminals of a vocabulary from the words of the training data: all words, words and classes, or pieces."""

from __future__ import annotations

import io
import re
from collections.abc import Container, Iterator

import numpy as np
import sentencepiece

from accel.autodiff.seeds import mix_all

MOST_WORDS = 2**21
"""The most words of the text from which SentencePiece learns; if there are more, all counts shrink in proportion."""
_LINE = 16  # words
_SUFFIXES = ("ed", "ing", "ion", "er", "est", "ly", "ity", "y", "al")


def all_words(words: dict[str, int], room: int | None) -> tuple[str, ...]:
    """Return all words, sorted; ValueError if there are more than `room`."""
    if room is not None and len(words) > room:
        use = "use unknown_classes or sentencepiece, or a larger vocabulary size"
        raise ValueError(f"{len(words)} words do not fit into {room} terminals; {use}")
    return tuple(sorted(words))


def words_and_classes(words: dict[str, int], room: int | None) -> tuple[str, ...]:
    """Return the most frequent words that occur twice or more, and the classes of all other words, sorted."""
    ranked = sorted(words, key=lambda word: (-words[word], word))
    n_frequent = sum(n > 1 for n in words.values())
    while n_frequent >= 0:
        frequent = set(ranked[:n_frequent])
        terminals = frequent | {unknown_class(word, frequent) for word in ranked[n_frequent:]} | {"UNK"}
        if room is None or len(terminals) <= room:
            return tuple(sorted(terminals))
        n_frequent -= len(terminals) - room
    raise ValueError(f"the unknown classes alone do not fit into {room} terminals; use a larger vocabulary size")


def train_pieces(words: dict[str, int], room: int, others: int = 0, fit: bool = False) -> tuple[tuple[str, ...], bytes]:
    """Return `room` pieces (256 of them bytes) and the unigram model, trained on the words with their counts.

    If the words do not give so many pieces, `fit` returns fewer; without it, a ValueError names a vocabulary size that
    works, which counts the `others` too: ids that are no pieces.
    """
    try:
        return _trained(words, room)
    except RuntimeError as error:
        return _trained_to_fit(words, room, others, fit, str(error))


def _trained_to_fit(
    words: dict[str, int], room: int, others: int, fit: bool, reason: str
) -> tuple[tuple[str, ...], bytes]:
    """Return fewer pieces, or raise ValueError: the trainer has refused `room` pieces for this reason."""
    size = f"vocabulary size {room + others}"
    if "too high" not in reason:
        raise ValueError(f"{size}, but {refusal_of(reason, 'byte', others - 1)}") from None
    pieces, model = _trained(words, room, hard_vocab_limit=False)
    if not fit:
        raise ValueError(f"{size}, but the training data give fewer pieces; use {len(pieces) + others} or less")
    return pieces, model


def refusal_of(reason: str, other: str, more: int = 0) -> str:
    """Return why SentencePiece has refused a number of pieces, and what to use; pieces are characters and `other`s.

    The vocabulary has `more` ids than SentencePiece counts.
    """
    least = re.search(r"smaller than required_chars\. \d+ vs (\d+)", reason)
    if least is not None:
        return f"every character and {other} is a piece; use {int(least[1]) + more} or more"
    if "insert_id" in reason:
        return f"every {other} is a piece; use more"
    return f"SentencePiece refuses it: {reason.rpartition('] ')[2] or reason}"


def _as_text(words: dict[str, int]) -> Iterator[str]:
    """Yield lines of the words, each as often as it is counted, in a shuffled order that depends on the counts alone.

    A list of words with counts, which SentencePiece also takes, gives worse pieces: where it looks for candidates it
    reads every word once, so that a frequent word with which no other begins never becomes a piece.
    """
    names, total = sorted(words), sum(words.values())
    ends = np.cumsum([words[name] for name in names], dtype=np.int64)
    ends = ends if total <= MOST_WORDS else ends * MOST_WORDS // total
    order = np.repeat(np.arange(len(names)), np.diff(ends, prepend=0))
    order = order[np.argsort(mix_all(0, np.arange(len(order))), kind="stable")]
    for begin in range(0, len(order), _LINE):
        yield " ".join(names[number] for number in order[begin : begin + _LINE].tolist())


def _trained(words: dict[str, int], room: int, **options: bool) -> tuple[tuple[str, ...], bytes]:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=_as_text(words),
        model_writer=model,
        model_type="unigram",
        vocab_size=room + 1,  # one more for the unknown piece, which is unused because bytes cover everything
        byte_fallback=True,
        character_coverage=1.0,
        max_sentence_length=2**30,  # bytes: by default longer lines are left out
        normalization_rule_name="identity",
        unk_id=0,
        bos_id=-1,
        eos_id=-1,
        pad_id=-1,
        num_threads=1,
        minloglevel=2,
        **options,
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    pieces = (processor.id_to_piece(i) for i in range(1, processor.get_piece_size()))
    return tuple(sorted(pieces)), model.getvalue()


def unknown_class(word: str, known: Container[str]) -> str:
    """Return the class of an unknown word by its shape (Petrov and Klein 2007; Dyer et al. 2016).

    ``known`` holds the words that may be the lower-case form of a capitalised one.

    Examples
    --------
    >>> [unknown_class(w, {"bird"}) for w in ("Bird", "NATO", "raced", "3rd", "re-run", "%")]
    ['UNK-INITC-KNOWNLC', 'UNK-CAPS', 'UNK-LC-ed', 'UNK-LC-NUM', 'UNK-LC-DASH', 'UNK']
    """
    n_capitals = sum(c.isupper() for c in word)
    digit, dash, lower = any(c.isdigit() for c in word), "-" in word, word.lower()
    out = "UNK"
    if word[0].isupper() and n_capitals == 1:
        out += "-INITC-KNOWNLC" if lower in known else "-INITC"
    elif n_capitals and (word[0].isupper() or not word[0].isalpha()):
        out += "-CAPS"
    elif any(c.islower() for c in word):
        out += "-LC"
    out += "-NUM" * digit + "-DASH" * dash
    if lower.endswith("s") and len(lower) >= 3:
        return out if lower[-2] in "siu" else out + "-s"
    if len(lower) >= 5 and not dash and not (digit and n_capitals):
        return out + next((f"-{suffix}" for suffix in _SUFFIXES if lower.endswith(suffix)), "")
    return out
