"""A plain vocabulary of words: one id a word; a word outside is an error or the unknown word."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from accel.data.vocabularies.vocabulary import UNKNOWN, VocabularyError


@dataclass(frozen=True)
class Words:
    """A numbering of words.

    Attributes
    ----------
    words : tuple of str
        By id, without repetition.
    unknown : str or None
        The word that stands for every word outside; None: a word outside is an error.
    lower : bool
        A word outside is read in lower case, if that is in the vocabulary.

    Examples
    --------
    >>> Words(("a", "b", "<unk>"), "<unk>").encode(["b", "zebra"])
    [1, 2]
    >>> Words(("the", "<unk>"), "<unk>", lower=True).encode(["The", "Zebra"])
    [0, 1]
    """

    words: tuple[str, ...]
    unknown: str | None = None
    lower: bool = False

    def __post_init__(self) -> None:
        repeated = [word for word, count in Counter(self.words).items() if count > 1]
        if repeated:
            raise ValueError(f"the word {repeated[0]!r} is in a vocabulary twice")
        if self.unknown is not None and self.unknown not in self.words:
            raise ValueError(f"the unknown word {self.unknown!r} is not in its vocabulary")

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def ids(self) -> dict[str, int]:
        """The id of every word."""
        return {word: i for i, word in enumerate(self.words)}

    def encode(self, words: Iterable[str]) -> list[int]:
        """Return the ids of words.

        Raises
        ------
        VocabularyError
            A word outside a closed vocabulary.
        """
        ids = self.ids
        if self.lower:
            words = (word if word in ids else word.lower() for word in words)
        if self.unknown is not None:
            unknown = ids[self.unknown]
            return [ids.get(word, unknown) for word in words]
        try:
            return [ids[word] for word in words]
        except KeyError as error:
            raise VocabularyError(f"the word {error} is not in the closed vocabulary of {len(ids)} words") from None

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Return the words of ids."""
        return [self.words[i] for i in ids]

    def to_json(self) -> str:
        """Return the vocabulary as one line of JSON; `from_json` reads it."""
        lower = {"lower": True} if self.lower else {}
        return json.dumps({"unknown": self.unknown, **lower, "words": self.words}, ensure_ascii=False)

    @staticmethod
    def from_json(text: str) -> Words:
        """Return the vocabulary that `to_json` wrote."""
        try:
            fields = json.loads(text)
            return Words(tuple(fields["words"]), fields["unknown"], fields.get("lower", False))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not a vocabulary of words: {error}") from error


def build_words(
    sentences: Iterable[Iterable[str]], *, size: int | None = None, least: int = 1, extra: tuple[str, ...] = ()
) -> Words:
    """Return the `extra` symbols, then the words of the training sentences in the order of their first occurrence.

    Parameters
    ----------
    size : int or None
        The most ids to have: the rarest words are left out, and of equally rare ones the later.
    least : int
        How often a word must occur.
    extra : tuple of str
        Symbols that come first; with `<unk>` among them, words outside become it.

    Raises
    ------
    ValueError
        If there are no words, or no room for any.
    """
    counts: Counter[str] = Counter()
    for sentence in sentences:
        counts.update(sentence)
    if not counts:
        raise ValueError("no words to build a vocabulary from")
    frequent = [word for word, count in counts.items() if count >= least and word not in extra]
    if size is not None:
        if size <= len(extra):
            raise ValueError(f"vocabulary size {size} leaves no room for words beside {len(extra)} symbols")
        most_frequent = set(sorted(frequent, key=lambda word: -counts[word])[: size - len(extra)])
        frequent = [word for word in frequent if word in most_frequent]
    words = (*extra, *frequent)
    return Words(words, UNKNOWN if UNKNOWN in words else None)
