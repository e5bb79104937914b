"""BERT's word pieces: a word is cut at punctuation, and every part into the longest pieces from the left.

A piece that continues a part begins with "##". A part without such pieces is the unknown piece. If a list has no
capitals, words lose their capitals and accents.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Container, Iterable, Sequence

UNKNOWN_PIECE = "[UNK]"
CONTINUES = "##"
_LONGEST = 100  # characters of a part that has pieces
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip


def is_lower_case(pieces: Iterable[str]) -> bool:
    """Return whether no piece has a capital, but for those in square brackets.

    Examples
    --------
    >>> is_lower_case(["[UNK]", "a", "##b"]), is_lower_case(["[UNK]", "A"])
    (True, False)
    """
    return not any(x.isupper() for piece in pieces if not (piece[:1] == "[" and piece[-1:] == "]") for x in piece)


def cut(word: str, pieces: Container[str], lower: bool) -> list[str]:
    """Return the pieces of a word.

    Examples
    --------
    >>> cut("Unaffable!", {"un", "##aff", "##able", "!"}, lower=True), cut("unfair", {"un", "##aff"}, lower=True)
    (['un', '##aff', '##able', '!'], ['[UNK]'])
    """
    return [piece for part in parts(word, lower) for piece in _longest(part, pieces)] or [UNKNOWN_PIECE]


def parts(word: str, lower: bool) -> list[str]:
    """Return a word cut at punctuation and around ideographs, without control characters.

    Examples
    --------
    >>> parts("Café-bar's", lower=True), parts("Café", lower=False)
    (['cafe', '-', 'bar', "'", 's'], ['Café'])
    """
    if lower:
        word = "".join(x for x in unicodedata.normalize("NFD", word.lower()) if unicodedata.category(x) != "Mn")
    out, is_open = list[str](), False
    for x in word:
        if unicodedata.category(x)[0] == "C" or x == "\ufffd":
            continue
        stands_alone = _is_punctuation(x) or any(low <= ord(x) <= high for low, high in _IDEOGRAPHS)
        if stands_alone or not is_open:
            out.append(x)
        else:
            out[-1] += x
        is_open = not stands_alone
    return out


def joined(pieces: Sequence[str]) -> str:
    """Return a part from its pieces."""
    return pieces[0] + "".join(piece.removeprefix(CONTINUES) for piece in pieces[1:])


def _longest(part: str, pieces: Container[str]) -> list[str]:
    out, begin = list[str](), 0
    while begin < len(part):
        prefix = CONTINUES if begin else ""
        ends = range(len(part), begin, -1) if len(part) <= _LONGEST else ()
        end = next((end for end in ends if prefix + part[begin:end] in pieces), None)
        if end is None:
            return [UNKNOWN_PIECE]
        out.append(prefix + part[begin:end])
        begin = end
    return out


def _is_punctuation(x: str) -> bool:
    """Return whether a character is punctuation, or a symbol of ASCII."""
    return (x.isascii() and x.isprintable() and not x.isalnum()) or unicodedata.category(x)[0] == "P"
