"""The frozen numbering of actions: reserved symbols, terminals, open and closing non-terminals.

Ids run ``<s>``, ``</s>``, the terminals, ``(X`` of every label, ``X)`` of every label, each group sorted.
Words become terminals in one of three ways (KINDS): unchanged, with unknown classes, or as SentencePiece pieces; or
(GIVEN) as the pieces of lists that others have made, see `accel.data.vocabularies.given`; or ("bpe") as pieces for
pairs of sequences, see `accel.data.vocabularies.bpe`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from accel.data.vocabularies import bpe, byte_pairs, word_pieces
from accel.data.vocabularies.terminals import unknown_class
from refimpl.trees import START, ActionType, Tree, actions, words

END = "</s>"
START_ID, END_ID = 0, 1
UNKNOWN = "<unk>"  # the unknown word
KINDS = ("words", "unknown_classes", "sentencepiece")
GIVEN = ("byte_pairs", "word_pieces")
BPE = "bpe"
OF_PIECES = ("sentencepiece", *GIVEN, BPE)
"""The kinds whose words have several terminals."""
_META = "\u2581"  # SentencePiece's mark of a word's beginning


class VocabularyError(ValueError):
    """A word or a label that a vocabulary does not have."""


@dataclass(frozen=True)
class Vocabulary:
    """A numbering of actions.

    Attributes
    ----------
    kind : "words", "unknown_classes", "sentencepiece", "byte_pairs", "word_pieces" or "bpe"
        How words become terminals. "words": a word outside the vocabulary is ``<unk>`` if that is a terminal, else an
        error. "unknown_classes": a word outside is its class (`unknown_class`). "sentencepiece": a word is a sequence
        of pieces, the first of which carries the mark of a beginning, and of bytes where no piece fits; ``<unk>`` is
        one piece where it is a terminal. "byte_pairs", "word_pieces": as GPT-2 and BERT have them. "bpe": all pieces
        but the last of a word end with "@@"; a word with another character is ``<unk>``.
    terminals, labels : tuple of str
        Sorted, without repetition. Without labels a tree is the sequence of its words.
    model : bytes
        The SentencePiece model, or the merges of byte pairs or of characters, a line each; empty for other kinds.
    """

    kind: str
    terminals: tuple[str, ...]
    labels: tuple[str, ...]
    model: bytes = b""

    def __post_init__(self) -> None:
        if self.kind not in (*KINDS, *GIVEN, BPE):
            choices = ", ".join((*KINDS, *GIVEN, BPE))
            raise ValueError(f"unknown kind of vocabulary {self.kind!r}: choose one of {choices}")
        for name in ("terminals", "labels"):
            symbols = getattr(self, name)
            if list(symbols) != sorted(set(symbols)):
                raise ValueError(f"{name} of a vocabulary must be sorted, without repetition")
        if (self.kind in ("sentencepiece", "byte_pairs", BPE)) != bool(self.model):
            raise ValueError("a vocabulary of sentencepiece, byte_pairs or bpe, and no other, needs a model")
        if self.kind == "unknown_classes" and "UNK" not in self.terminals:
            raise ValueError("a vocabulary with unknown classes needs the terminal UNK")

    def __len__(self) -> int:
        return 2 + len(self.terminals) + 2 * len(self.labels)

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """[V] every action as text, by id."""
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
        """[V] bool: False for the pieces that continue a word.

        Raises VocabularyError for bpe, where the piece before says whether a piece continues a word.
        """
        if self.kind == BPE:
            raise VocabularyError("a vocabulary of bpe is for pairs of sequences; use sentencepiece")
        of_pieces, others = self.kind in OF_PIECES, [True] * 2 * len(self.labels)
        begins = [not of_pieces or piece == UNKNOWN or self._begins(piece) for piece in self.terminals]
        return np.array([True, True, *begins, *others])

    def _begins(self, piece: str) -> bool:
        if self.kind == "word_pieces":
            return not piece.startswith(word_pieces.CONTINUES)
        return piece.startswith(_META if self.kind == "sentencepiece" else byte_pairs.MARK)

    def encode(self, tree: Tree) -> list[int]:
        """Return the ids of a tree's actions, without the start symbol; without labels those of its words.

        Raises
        ------
        VocabularyError
            A label that the vocabulary does not have, or a word outside a closed one.
        """
        return [i for action in (actions(tree) if self.labels else words(tree)) for i in self._ids_of(action)]

    def with_known_labels(self, trees: Sequence[Tree]) -> list[Tree]:
        """Return the trees that have only labels of the vocabulary, or all trees if no tree is such.

        A model gives a tree with another label probability 0.
        """
        known_trees = [tree for tree in trees if not self.labels or labels_of(tree).issubset(self.labels)]
        return known_trees or list(trees)

    def encode_words(self, words: Iterable[str]) -> list[int]:
        """Return the ids of words outside trees; in a closed vocabulary every word must be known."""
        return [i for word in words for i in self._terminals_of(word)]

    def wrap(self, label: str, ids: list[int]) -> list[int]:
        """Return the ids of a constituent from those of its children; without labels, the children's ids."""
        if not self.labels:
            return ids
        return [*self._ids_of(f"({label}"), *ids, *self._ids_of(f"{label})")]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Return the actions of the ids: pieces become words again, unknown words remain classes."""
        if self.kind == BPE:
            return bpe.joined(self.symbols[i] for i in ids)
        out: list[str] = []
        pieces: list[str] = []
        for i in (*ids, START_ID):  # the start symbol ends the last word
            is_piece = self.kind in OF_PIECES and 2 <= i < 2 + len(self.terminals) and self.symbols[i] != UNKNOWN
            if pieces and self.begins_word[i]:
                out.append(self._joined(pieces))
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

    def _joined(self, pieces: list[str]) -> str:
        """Return the word of pieces."""
        if self.kind == "sentencepiece":
            return str(self._processor.decode(pieces))
        return byte_pairs.joined(pieces) if self.kind == "byte_pairs" else word_pieces.joined(pieces)

    @cached_property
    def _ranks(self) -> byte_pairs.Ranks:
        merges = self.model.decode("utf-8").split("\n")
        return byte_pairs.ranks_of(line for line in merges if line not in ("", bpe.HEADER))

    @cached_property
    def _is_lower_case(self) -> bool:
        return word_pieces.is_lower_case(self.terminals)

    @cached_property
    def _action_ids(self) -> dict[str, tuple[int, ...]]:
        """Ids of the labels' actions, and a cache of words: a word holds no bracket, so they never clash."""
        first = 2 + len(self.terminals)
        return {action: (i,) for i, action in enumerate(self.symbols[first:], first)}

    @cached_property
    def _terminal_ids(self) -> dict[str, int]:
        return {terminal: i for i, terminal in enumerate(self.terminals, 2)}

    @cached_property
    def _processor(self) -> sentencepiece.SentencePieceProcessor:
        return sentencepiece.SentencePieceProcessor(model_proto=self.model)

    def _ids_of(self, action: str) -> tuple[int, ...]:
        ids = self._action_ids.get(action)
        if ids is None:
            if action[0] == "(" and len(action) > 1:
                raise VocabularyError(f"the label {action[1:]!r} is not in the vocabulary of {len(self.labels)} labels")
            ids = self._action_ids[action] = self._terminals_of(action)
        return ids

    def _terminals_of(self, word: str) -> tuple[int, ...]:
        ids = self._terminal_ids
        if self.kind in OF_PIECES:
            pieces = self._pieces_of(word)
            if any(piece not in ids for piece in pieces):
                pieces = [UNKNOWN]
            if pieces == [UNKNOWN] and UNKNOWN not in ids:
                raise VocabularyError(f"the word {word!r} cannot be spelled with the pieces of the vocabulary")
            return tuple(ids[piece] for piece in pieces)
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

    def _pieces_of(self, word: str) -> list[str]:
        """Return the pieces of a word, some of which the vocabulary may not have."""
        if self.kind == "byte_pairs":
            return byte_pairs.cut(word, self._ranks)
        if self.kind == BPE:
            try:
                return [UNKNOWN] if word == UNKNOWN else bpe.cut(word, self._ranks)
            except ValueError as error:
                raise VocabularyError(str(error)) from error
        if self.kind == "word_pieces":
            if word == UNKNOWN:
                return [word_pieces.UNKNOWN_PIECE]
            return word_pieces.cut(word, self._terminal_ids, self._is_lower_case)
        if _META in word:
            raise VocabularyError(f"the word {word!r} holds SentencePiece's mark {_META!r}: type another character")
        if word == UNKNOWN and UNKNOWN in self._terminal_ids:
            return [UNKNOWN]
        return list(self._processor.encode(word, out_type=str)) or [_META]  # normalisation may leave nothing


def labels_of(tree: Tree) -> set[str]:
    """Return the labels of a tree."""
    labels, agenda = set(), [tree]
    while agenda:
        node = agenda.pop()
        labels.add(node.label)
        agenda += (child for child in node.children if isinstance(child, Tree))
    return labels
