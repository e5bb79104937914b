"""Minimal pairs, a good sentence and a bad one: BLiMP (Warstadt et al., 2020), and Marvin and Linzen's (2018).

BLiMP is plain text. Its words are separated as in the Penn Treebank: the final mark of a sentence, n't, 's and the
other clitics, and the apostrophe of plurals are words. On all of BLiMP these rules give the words of NLTK's
TreebankWordTokenizer. All other files have blanks between words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from accel.data.files.json_lines import json_value
from accel.data.files.lines import LineError, errors_at, open_files, read_lines

_CLITIC = re.compile(r"(?i)(?<=\w)(n't|'(?:s|re|ve|ll|d|m)|')(?=[\s,;:.?!]|$)")
_PUBLISHED_NAMES = {"s-selection": "argument_structure", "syntax/semantics": "syntax_semantics"}
"""Names of phenomena in three paradigms of BLiMP, and their names in its published results."""
_COLUMNS = "template\tcase\tgood\tbad\tthird"
_THIRD = ", third sentence"


class Pair(NamedTuple):
    """Two sentences of which the first is the better one.

    Attributes
    ----------
    place : str
        File and line.
    paradigm, phenomenon, field : str
        Its class, from the narrowest to the widest.
    good, bad : list of str
        Words.
    critical : pair of range, or None
        The words of each sentence that distinguish the two.
    skipped : str
        Why the sentences are missing; "" if they are not.
    """

    place: str
    paradigm: str
    phenomenon: str
    field: str
    good: list[str]
    bad: list[str]
    critical: tuple[range, range] | None = None
    skipped: str = ""


def words_of(sentence: str) -> list[str]:
    """Return the words of a sentence in plain text.

    Examples
    --------
    >>> words_of("Jo's boys' dog can't sleep, I'm told.")
    ['Jo', "'s", 'boys', "'", 'dog', 'ca', "n't", 'sleep', ',', 'I', "'m", 'told', '.']
    """
    apart = re.sub(r"([.?!])$", r" \1", sentence.strip())
    apart = re.sub(r"([,;:])(?=\s)", r" \1", apart)
    return _CLITIC.sub(r" \1", apart).split()


def one_word_apart(good: list[str], bad: list[str]) -> tuple[range, range] | None:
    """Return the place of the word in which two sentences differ; None unless there is exactly one."""
    places = [k for k, (word, other_word) in enumerate(zip(good, bad, strict=False)) if word != other_word]
    if len(good) != len(bad) or len(places) != 1:
        return None
    return range(places[0], places[0] + 1), range(places[0], places[0] + 1)


_NEEDED = ("UID", "field", "linguistics_term", "sentence_good", "sentence_bad")
"""The fields that every line must have; fields of prefixes are optional, and tell the critical words."""


def read_blimp(path: str | Path) -> Iterator[Pair]:
    """Yield the pairs of a .jsonl file, plain, .gz or .xz, or of all those in a folder or an archive.

    If a paradigm has prefixes, the critical words follow them: the two sentences have the same prefix and then
    different words, or different prefixes and then the same word. Here such a word may be several words: "doesn't" is
    two.

    Raises
    ------
    LineError
        At the faulty line: as `json_value` does; a field that is missing or of another type, a sentence without words,
        prefixes and words that do not begin the sentences.
    ValueError
        If there are no .jsonl files; as `open_files` does.
    """
    for file, stream in open_files(path, ".jsonl"):
        for number, line in read_lines(file, stream):
            with errors_at(file, number):
                yield _blimp_pair(json_value(file, number, line), f"{file.name}:{number}")


def _blimp_pair(content: Any, place: str) -> Pair:
    lacking = [name for name in _NEEDED if type(content) is dict and name not in content]
    if lacking:
        raise ValueError(f"{lacking[0]!r} is missing: give every line {', '.join(_NEEDED)}, as BLiMP has them")
    names = [_field(content, name, str) for name in ("UID", "linguistics_term", "field")]
    good, bad = (words_of(_field(content, f"sentence_{side}", str)) for side in ("good", "bad"))
    _check(good, bad)
    has_one, has_two = (
        name in content and _field(content, name, bool) for name in ("one_prefix_method", "two_prefix_method")
    )
    critical = None
    if has_one:
        prefix, word = "one_prefix_prefix", "one_prefix_word"
        critical = (
            _words_after(content, prefix, f"{word}_good", good),
            _words_after(content, prefix, f"{word}_bad", bad),
        )
    elif has_two:
        prefix, word = "two_prefix_prefix", "two_prefix_word"
        critical = (
            _words_after(content, f"{prefix}_good", word, good),
            _words_after(content, f"{prefix}_bad", word, bad),
        )
    paradigm, phenomenon, field = (_PUBLISHED_NAMES.get(name, name) for name in names)
    return Pair(place, paradigm, phenomenon, field, good, bad, critical)


def _words_after(content: Any, prefix_field: str, word_field: str, sentence: list[str]) -> range:
    """Return the range of the words of a sentence that follow a prefix."""
    prefix, critical = (words_of(_field(content, name, str)) for name in (prefix_field, word_field))
    if not critical or [*prefix, *critical] != sentence[: len(prefix) + len(critical)]:
        begin = " ".join([*prefix, *critical])
        raise ValueError(f"{prefix_field}, {word_field}: {begin!r} does not begin {' '.join(sentence)!r}")
    return range(len(prefix), len(prefix) + len(critical))


def read_marvin_linzen(path: str | Path) -> Iterator[Pair]:
    """Yield the pairs of a table of template, case, good, bad and third sentence, tab-separated, plain, .gz or .xz.

    Templates with a negative polarity item have a third sentence, without any licensor; the bad sentence has a licensor
    that does not license the item. Good and third are a pair of a separate paradigm. All other sentences differ in one
    word, the critical one.

    Raises
    ------
    LineError
        At the faulty line: another header, other than five columns, an empty template or sentence, sentences that
        differ in other than one word.
    """
    lines = read_lines(path)
    if next(lines)[1] != _COLUMNS:
        raise LineError(path, 1, f"the columns are {' '.join(_COLUMNS.split())}")
    empty = True
    for number, line in lines:
        empty = False
        with errors_at(path, number):
            yield from _marvin_linzen_pairs(line.split("\t"), f"{Path(path).name}:{number}")
    if empty:
        raise LineError(path, 1, "no lines after the header")


def _marvin_linzen_pairs(columns: list[str], place: str) -> Iterator[Pair]:
    if len(columns) != 5:
        raise ValueError(f"{len(columns)} columns, not 5")
    template, _, good, bad, third = columns
    if not template:
        raise ValueError("template is empty")
    _check(good.split(), bad.split())
    if third:
        field = "negative polarity items"
        yield Pair(place, template, field, field, good.split(), bad.split())
        _check(good.split(), third.split(), "third")
        yield Pair(place, template + _THIRD, field + _THIRD, field + _THIRD, good.split(), third.split())
        return
    field = "reflexive anaphora" if "reflexive" in template else "subject-verb agreement"
    critical = one_word_apart(good.split(), bad.split())
    if critical is None:
        raise ValueError("good and bad differ in other than one word")
    yield Pair(place, template, field, field, good.split(), bad.split(), critical)


def read_published(path: str | Path) -> dict[str, dict[tuple[str, str], float]]:
    """Return the published accuracies of every model, by paradigm and phenomenon; a mean has the paradigm "overall".

    Every line is a JSON object with UID, linguistics_term, and a number between 0 and 1 for every model.

    Raises
    ------
    LineError
        At the faulty line: as `json_value` does; a field that is missing or of another type, a second line for a
        paradigm.
    """
    accuracies: dict[str, dict[tuple[str, str], float]] = {}
    keys = set()
    for number, line in read_lines(path):
        with errors_at(path, number):
            content = json_value(path, number, line)
            key = _field(content, "UID", str), _field(content, "linguistics_term", str)
            models = [name for name in content if name not in ("UID", "linguistics_term")]
            values = {name: float(_field(content, name, (float, int))) for name in models}
        if key in keys:
            raise LineError(path, number, f"{' '.join(key)}: a second line")
        keys.add(key)
        for name, value in values.items():
            if not 0 <= value <= 1:
                raise LineError(path, number, f"{name}: {value} is not between 0 and 1")
            accuracies.setdefault(name, {})[key] = value
    return accuracies


def _check(good: list[str], bad: list[str], name: str = "bad") -> None:
    for side, words in (("good", good), (name, bad)):
        if not words:
            raise ValueError(f"{side}: a sentence without words")


def _field(content: Any, name: str, kind: Any) -> Any:
    """Return the field of that name, which must be of that type."""
    if type(content) is not dict or name not in content:
        raise ValueError(f"{name!r} is missing")
    if type(content[name]) not in (kind if isinstance(kind, tuple) else (kind,)):
        raise ValueError(f"{name!r} is {content[name]!r}, of type {type(content[name]).__name__}")
    return content[name]
