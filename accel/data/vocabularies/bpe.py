"""Byte-pair encoding of words (Sennrich, Haddow and Birch 2016), learnt and applied as the tool subword-nmt does.

A word is a sequence of characters, the last of which carries the mark of the end; merges are learnt from the words of
the training data with their counts. Every piece but the last of a word ends with "@@".
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from accel.data.vocabularies.byte_pairs import Ranks, merged

CONTINUES = "@@"
HEADER = "#version: 0.2"
_END = "</w>"
Pair = tuple[str, str]


def characters(word: str) -> list[str]:
    """Return the characters of a word, the last one with the mark of the end; ValueError if they end with "@@"."""
    if word.endswith(CONTINUES):
        raise ValueError(f"the word {word!r} ends with the mark {CONTINUES!r} of pieces")
    return [*word[:-1], word[-1] + _END]


def learn(words: Mapping[str, int], room: int) -> tuple[tuple[str, ...], list[str]]:
    """Return at most `room` pieces, sorted, and the merges "left right" in their order.

    The pieces are all characters, both as they are within words and at their end, and the results of the merges. Each
    merge joins the most frequent pair, or of equally frequent pairs the last in the alphabet. A pair that occurs only
    once is not merged.

    Raises
    ------
    ValueError
        If the characters alone do not fit into the room.

    Examples
    --------
    >>> learn({"low": 5, "slow": 2, "s": 1}, 14)[1]
    ['o w</w>', 'l ow</w>', 's low</w>']
    """
    spelled = [characters(word) for word in words]
    counts = list(words.values())
    alphabet = {character for word in words for character in word}
    pieces = {_shown(symbol) for character in alphabet for symbol in (character, character + _END)}
    if len(pieces) > room:
        raise ValueError(f"{len(pieces)} characters, within and at the end of words, do not fit into {room} pieces")
    totals, places = Counter[Pair](), defaultdict[Pair, set[int]](set)
    for number, symbols in enumerate(spelled):
        for pair in zip(symbols[:-1], symbols[1:], strict=True):
            totals[pair] += counts[number]
            places[pair].add(number)
    heap = [_entry(pair, n) for pair, n in totals.items()]
    heapq.heapify(heap)
    merges = list[str]()
    while heap and len(pieces) < room:
        negative, *_, pair = heapq.heappop(heap)
        if -negative != totals[pair]:
            continue  # the pair's count has changed since; the pair has a newer entry
        if -negative < 2:
            break
        merges.append(" ".join(pair))
        pieces.add(_shown("".join(pair)))
        changed_pairs = _merge(spelled, counts, pair, totals, places)
        for other in changed_pairs:
            if totals[other]:
                heapq.heappush(heap, _entry(other, totals[other]))
    return tuple(sorted(pieces)), merges


def _merge(
    spelled: list[list[str]], counts: list[int], pair: Pair, totals: Counter[Pair], places: dict[Pair, set[int]]
) -> set[Pair]:
    """Merge a pair in all words that have it, and return the pairs whose counts have changed."""
    changed_pairs = set[Pair]()
    for number in sorted(places.pop(pair)):
        before, after = spelled[number], merged(spelled[number], {pair: 0})
        old, new = (list(zip(x[:-1], x[1:], strict=True)) for x in (before, after))
        for other in old:
            totals[other] -= counts[number]
        for other in new:
            totals[other] += counts[number]
            places[other].add(number)
        spelled[number] = after
        changed_pairs |= {*old, *new}
    return changed_pairs - {pair}


def _entry(pair: Pair, n: int) -> tuple[int, tuple[int, ...], tuple[int, ...], Pair]:
    """Return an entry of the heap: the most frequent pair comes first, then the last in the alphabet."""
    left, right = (tuple(-ord(character) for character in symbol) + (1,) for symbol in pair)
    return -n, left, right, pair


def cut(word: str, ranks: Ranks) -> list[str]:
    """Return the pieces of a word after all merges; ValueError if it ends with "@@".

    Examples
    --------
    >>> cut("slows", {("o", "w"): 0, ("l", "ow"): 1})
    ['s@@', 'low@@', 's']
    """
    return [_shown(symbol) for symbol in merged(characters(word), ranks)]


def _shown(symbol: str) -> str:
    """Return a symbol as text: with "@@", or without the mark of the end."""
    return symbol.removesuffix(_END) if symbol.endswith(_END) else symbol + CONTINUES


def joined(pieces: Iterable[str]) -> list[str]:
    """Return the words of pieces; the last word may be unfinished.

    Examples
    --------
    >>> joined(["s@@", "low@@", "s", "a", "b@@"])
    ['slows', 'a', 'b']
    """
    words, beginning = list[str](), ""
    for piece in pieces:
        if piece.endswith(CONTINUES):
            beginning += piece.removesuffix(CONTINUES)
        else:
            words.append(beginning + piece)
            beginning = ""
    return words + [beginning] * bool(beginning)
