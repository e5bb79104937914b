"""GPT-2's byte pairs: a word is cut into runs of letters, digits or other characters, and their bytes are merged.

Bytes are written as printable characters, a blank as "Ġ". A word is read after a blank, so that "Ġ" marks its first
piece.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

MARK = "\u0120"
_CONTRACTIONS = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")
_PRINTABLE = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
_OTHERS = [byte for byte in range(256) if byte not in _PRINTABLE]
CHARACTERS = {byte: chr(byte) for byte in _PRINTABLE} | {byte: chr(256 + n) for n, byte in enumerate(_OTHERS)}
"""The character of every byte."""
_BYTES = {character: byte for byte, character in CHARACTERS.items()}
Ranks = dict[tuple[str, str], int]


def ranks_of(merges: Iterable[str]) -> Ranks:
    """Return the place of every merge "left right" in the order in which they apply."""
    return {(left, right): rank for rank, (left, _, right) in enumerate(line.partition(" ") for line in merges)}


def cut(word: str, ranks: Ranks) -> list[str]:
    """Return the pieces of a word.

    Examples
    --------
    >>> cut("low's", ranks_of(["l o", "Ġ lo", "Ġlo w"]))
    ['Ġlow', "'", 's']
    """
    return [piece for run in runs(word) for piece in merged([CHARACTERS[byte] for byte in run.encode()], ranks)]


def runs(word: str) -> list[str]:
    """Return the runs of a word that follows a blank, as GPT-2's pattern cuts them.

    Examples
    --------
    >>> runs("don't"), runs("3rd,"), runs("'tis")
    ([' don', "'t"], [' 3', 'rd', ','], [" '", 'tis'])
    """
    out, begin = list[str](), 0
    while begin < len(word):
        contraction = next((x for x in _CONTRACTIONS if begin and word.startswith(x, begin)), None)
        if contraction is not None:
            end = begin + len(contraction)
        else:
            end, kind = begin + 1, _kind(word[begin])
            while end < len(word) and _kind(word[end]) == kind:
                end += 1
        out.append(" " * (begin == 0) + word[begin:end])
        begin = end
    return out


def merged(pieces: list[str], ranks: Ranks) -> list[str]:
    """Return the pieces after all merges: the pair with the lowest rank first, everywhere from left to right."""
    while len(pieces) > 1:
        pair = min(zip(pieces[:-1], pieces[1:], strict=True), key=lambda pair: ranks.get(pair, len(ranks)))
        if pair not in ranks:
            break
        out, n = list[str](), 0
        while n < len(pieces):
            is_pair = (pieces[n], *pieces[n + 1 : n + 2]) == pair
            out.append("".join(pair) if is_pair else pieces[n])
            n += 1 + is_pair
        pieces = out
    return pieces


def joined(pieces: Sequence[str]) -> str:
    """Return the word of pieces; bytes that are no UTF-8 become the replacement character."""
    return bytes(_BYTES[character] for character in "".join(pieces)).decode("utf-8", errors="replace").strip(" ")


def _kind(character: str) -> str:
    """Return "L" for letters, "N" for numbers, "" for others."""
    kind = unicodedata.category(character)[0]
    return kind if kind in "LN" else ""
