"""The frozen numbering of actions: reserved symbols, terminals, open and closing non-terminals.

Ids run ``<s>``, ``</s>``, the terminals, ``(X`` of every label, ``X)`` of every label, each group sorted.
Words become terminals in one of three ways (KINDS): as they are, with unknown classes, or as SentencePiece pieces.
"""

from __future__ import annotations

import base64
import io
import json
from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from refimpl.trees import START, ActionType, Tree, action_type, actions

END = "</s>"
START_ID, END_ID = 0, 1
UNKNOWN = "<unk>"  # the unknown words of texts that come without them
KINDS = ("words", "unknown_classes", "sentencepiece")
_META = "\u2581"  # SentencePiece's mark of a word's beginning
_SUFFIXES = ("ed", "ing", "ion", "er", "est", "ly", "ity", "y", "al")


class VocabularyError(ValueError):
    """A word or a label that a vocabulary does not have."""


@dataclass(frozen=True)
class Vocabulary:
    """A numbering of actions.

    Attributes
    ----------
    kind : "words", "unknown_classes" or "sentencepiece"
        What a word outside the vocabulary is: ``<unk>`` if that is a terminal, else an error; its class
        (`unknown_class`); nothing is outside, a word is a sequence of pieces, the first of which carries the mark of a
        beginning, and bytes where no piece fits.
    terminals, labels : tuple of str
        Sorted, without repetition.
    model : bytes
        The SentencePiece model; empty for the other kinds.
    """

    kind: str
    terminals: tuple[str, ...]
    labels: tuple[str, ...]
    model: bytes = b""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown kind of vocabulary {self.kind!r}: choose one of {', '.join(KINDS)}")
        for name in ("terminals", "labels"):
            symbols = getattr(self, name)
            if list(symbols) != sorted(set(symbols)):
                raise ValueError(f"{name} of a vocabulary must be sorted, each there once")
        if (self.kind == "sentencepiece") != bool(self.model):
            raise ValueError("a sentencepiece vocabulary, and no other, needs a model")
        if self.kind == "unknown_classes" and "UNK" not in self.terminals:
            raise ValueError("a vocabulary with unknown classes needs the terminal UNK")

    def __len__(self) -> int:
        return 2 + len(self.terminals) + 2 * len(self.labels)

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """[V] every action as it is written, by id."""
        opening, closing = (f"({label}" for label in self.labels), (f"{label})" for label in self.labels)
        return (START, END, *self.terminals, *opening, *closing)

    @cached_property
    def type_of(self) -> NDArray[np.int8]:
        """[V] int8: the `ActionType` of every id; the start symbol is an ONT, the end symbol a terminal."""
        counts = (1, 1 + len(self.terminals), len(self.labels), len(self.labels))
        types = (ActionType.ONT, ActionType.T, ActionType.ONT, ActionType.CNT1)
        return np.repeat(np.array(types, np.int8), counts)

    @cached_property
    def begins_word(self) -> NDArray[np.bool_]:
        """[V] bool: False for the pieces that go on with a word."""
        goes_on = [bool(self.model) and not piece.startswith(_META) for piece in self.terminals]
        return ~np.array([False, False, *goes_on, *[False] * 2 * len(self.labels)])

    def encode(self, tree: Tree) -> list[int]:
        """Return the ids of a tree's actions, without the start symbol.

        Raises
        ------
        VocabularyError
            A label that the vocabulary does not have, or a word outside a closed one.
        """
        return [i for action in actions(tree) for i in self._ids_of(action)]

    def encode_words(self, words: Iterable[str]) -> list[int]:
        """Return the ids of words that stand in no tree; a word of a closed vocabulary must be in it."""
        return [i for word in words for i in self._terminals_of(word)]

    def wrap(self, label: str, ids: list[int]) -> list[int]:
        """Return the ids of a constituent from those of its children."""
        return [*self._ids_of(f"({label}"), *ids, *self._ids_of(f"{label})")]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Return the actions that the ids spell: pieces become words again, unknown words stay as their class."""
        out: list[str] = []
        pieces: list[str] = []
        for i in (*ids, START_ID):  # the last one makes way for the last word
            is_piece = bool(self.model) and 2 <= i < 2 + len(self.terminals)
            if pieces and self.begins_word[i]:
                out.append(self._processor.decode(pieces))
                pieces = []
            (pieces if is_piece else out).append(self.symbols[i])
        return out[:-1]

    def to_json(self) -> str:
        """Return the vocabulary as one line of JSON; `from_json` reads it."""
        model = base64.b64encode(self.model).decode("ascii")
        fields = {"kind": self.kind, "terminals": self.terminals, "labels": self.labels, "model": model}
        return json.dumps(fields, ensure_ascii=False, sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Vocabulary:
        """Return the vocabulary that `to_json` wrote."""
        try:
            fields = json.loads(text)
            model = base64.b64decode(fields["model"], validate=True)
            return Vocabulary(fields["kind"], tuple(fields["terminals"]), tuple(fields["labels"]), model)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not a vocabulary: {error}") from error

    @cached_property
    def _known(self) -> dict[str, tuple[int, ...]]:
        """Ids of the labels' actions, and of every word met so far: a word holds no bracket, so they never clash."""
        first = 2 + len(self.terminals)
        return {action: (i,) for i, action in enumerate(self.symbols[first:], first)}

    @cached_property
    def _terminal_ids(self) -> dict[str, int]:
        return {terminal: i for i, terminal in enumerate(self.terminals, 2)}

    @cached_property
    def _processor(self) -> sentencepiece.SentencePieceProcessor:
        return sentencepiece.SentencePieceProcessor(model_proto=self.model)

    def _ids_of(self, action: str) -> tuple[int, ...]:
        found = self._known.get(action)
        if found is None:
            if action[0] == "(" and len(action) > 1:
                raise VocabularyError(f"the label {action[1:]!r} is not in the vocabulary of {len(self.labels)} labels")
            found = self._known[action] = self._terminals_of(action)
        return found

    def _terminals_of(self, word: str) -> tuple[int, ...]:
        ids = self._terminal_ids
        if self.kind == "sentencepiece":
            if _META in word:
                raise VocabularyError(f"the word {word!r} holds SentencePiece's mark {_META!r}")
            return tuple(ids[piece] for piece in self._processor.encode(word, out_type=str))
        if word in ids:
            return (ids[word],)
        if self.kind == "words" and UNKNOWN in ids:
            return (ids[UNKNOWN],)
        if self.kind == "words":
            raise VocabularyError(f"the word {word!r} is not in the closed vocabulary of {len(ids)} words")
        unknown = unknown_class(word, ids)
        while unknown not in ids:
            unknown = unknown.rpartition("-")[0]
        return (ids[unknown],)


def unknown_class(word: str, known: Container[str]) -> str:
    """Return the class of an unknown word by its shape (Petrov and Klein 2007; Dyer et al. 2016).

    ``known`` decides whether a capitalised word is known in lower case.

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


def build(trees: Iterable[Tree], kind: str = "words", size: int | None = None, extra: Iterable[str] = ()) -> Vocabulary:
    """Return the vocabulary of the training trees, which are read once.

    Parameters
    ----------
    trees : iterable of Tree
        Training trees, normalised as the corpora will be.
    kind : "words", "unknown_classes" or "sentencepiece"
        "unknown_classes" turns the words that occur once into their classes.
    size : int or None
        The most ids to have, V; for "sentencepiece", which needs it, exactly V. With "unknown_classes" rare words give
        way to their classes; with "words" there is nothing to give way.
    extra : iterable of str
        Labels to have besides those of the trees, as ``DOC``.

    Raises
    ------
    ValueError
        Unknown kind; no trees; a size that cannot be had.
    """
    counts: Counter[str] = Counter()
    for tree in trees:
        counts.update(actions(tree))
    if not counts:
        raise ValueError("no trees to build a vocabulary from")
    opening = {action[1:] for action in counts if action_type(action) == ActionType.ONT}
    labels = tuple(sorted(opening | set(extra)))
    words = {word: n for word, n in counts.items() if action_type(word) == ActionType.T}
    return _numbered(words, labels, kind, size)


def build_of_words(
    sentences: Iterable[Iterable[str]], kind: str = "words", size: int | None = None, labels: tuple[str, ...] = ()
) -> Vocabulary:
    """Return the vocabulary, with sorted labels or without, of the words of training sentences; see `build`."""
    counts: Counter[str] = Counter()
    for sentence in sentences:
        counts.update(sentence)
    if not counts:
        raise ValueError("no words to build a vocabulary from")
    return _numbered(counts, labels, kind, size)


def _numbered(words: dict[str, int], labels: tuple[str, ...], kind: str, size: int | None) -> Vocabulary:
    if kind not in KINDS:
        raise ValueError(f"unknown kind of vocabulary {kind!r}: choose one of {', '.join(KINDS)}")
    room = None if size is None else size - 2 - 2 * len(labels)
    if room is not None and room < 1:
        raise ValueError(f"vocabulary size {size} leaves no room for terminals beside {len(labels)} labels")
    if kind == "sentencepiece":
        if room is None:
            raise ValueError("a sentencepiece vocabulary needs a size")
        pieces, model = _train_pieces(words, room)
        return Vocabulary(kind, pieces, labels, model)
    return Vocabulary(kind, _classed(words, room) if kind == "unknown_classes" else _closed(words, room), labels)


def _closed(words: dict[str, int], room: int | None) -> tuple[str, ...]:
    if room is not None and len(words) > room:
        raise ValueError(f"{len(words)} words do not fit into {room} terminals: take unknown_classes or sentencepiece")
    return tuple(sorted(words))


def _classed(words: dict[str, int], room: int | None) -> tuple[str, ...]:
    """Return the most frequent words that occur twice or more, and the classes of all the others."""
    ranked = sorted(words, key=lambda word: (-words[word], word))
    n_kept = sum(n > 1 for n in words.values())
    while n_kept >= 0:
        kept = set(ranked[:n_kept])
        terminals = kept | {unknown_class(word, kept) for word in ranked[n_kept:]} | {"UNK"}
        if room is None or len(terminals) <= room:
            return tuple(sorted(terminals))
        n_kept -= len(terminals) - room
    raise ValueError(f"the unknown classes alone do not fit into {room} terminals")


def _train_pieces(words: dict[str, int], room: int) -> tuple[tuple[str, ...], bytes]:
    """Return `room` pieces (256 of them bytes) and the unigram model, trained on the words with their counts."""
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(f"{word}\t{words[word]}" for word in sorted(words)),
            model_writer=model,
            input_format="tsv",
            model_type="unigram",
            vocab_size=room + 1,  # and the unknown piece, which bytes make needless
            byte_fallback=True,
            character_coverage=1.0,
            normalization_rule_name="identity",
            unk_id=0,
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            num_threads=1,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise ValueError(f"sentencepiece refuses {room} terminals: {str(error).rpartition('] ')[2]}") from error
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    return tuple(sorted(processor.id_to_piece(i) for i in range(1, room + 1))), model.getvalue()
