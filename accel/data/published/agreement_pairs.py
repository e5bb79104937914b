"""Minimal pairs of subject-verb agreement: a sentence with its verb in the right form, and in the wrong one.

The sentences are in tables with the place of the verb, as `accel.data.generated.agreement` reads them (Linzen et al.,
2016); then this module derives the other form. Or a file beside the sentences has both forms (Gulordava et al., 2018);
these sentences are from Wikipedia, or nonsense.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from accel.data.files.lines import LineError, errors_at, find_file, open_files, read_lines, unpacked
from accel.data.generated import agreement
from accel.data.published.minimal_pairs import Pair

MANY = 4  # sentences with this many attractors or more form one paradigm
_END = "<eos>"
_IRREGULAR = {"are": "is", "have": "has", "do": "does", "go": "goes", "focus": "focuses", "bias": "biases",
              "quiz": "quizzes"}  # fmt: skip
_PLURAL = {singular: plural for plural, singular in _IRREGULAR.items()} | {
    f"{verb}s": verb
    for verb in ("die", "lie", "tie", "vie", "belie", "underlie", "untie", "ache", "cache", "axe", "hoe", "toe",
                 "shoe", "finesse", "impasse")
}  # fmt: skip
"""Forms that the endings of a verb do not determine."""


def other_form(verb: str, label: str) -> str | None:
    """Return the plural of a singular verb of the present tense (VBZ), or the singular of a plural one (VBP).

    None if the letters do not determine it: for 's, and for a singular without an s.

    Examples
    --------
    >>> [other_form(verb, "VBZ") for verb in ("Is", "watches", "aches", "relies", "lies", "uses", "quizzes", "'s")]
    ['Are', 'watch', 'ache', 'rely', 'lie', 'use', 'quiz', None]
    >>> [other_form(verb, "VBP") for verb in ("have", "pass", "carry", "play", "undergo")]
    ['has', 'passes', 'carries', 'plays', 'undergoes']
    """
    for case in (str.capitalize, str.upper):
        if verb != verb.lower() and verb == case(verb):
            form = other_form(verb.lower(), label)
            return form and case(form)
    if not re.fullmatch("[a-z]+(-[a-z]+)*", verb):
        return None
    if label == "VBP":
        stem = re.sub("(?<=[^aeiou])y$", "ie", verb)
        return _IRREGULAR.get(verb, stem + ("es" if re.search("(s|x|z|ch|sh|[^aeiou]o)$", verb) else "s"))
    if not verb.endswith("s") or verb.endswith("ss"):
        return None
    if re.search("(ss|x|zz|ch|sh|[^aeiou]o)es$", verb):
        return _PLURAL.get(verb, verb[:-2])
    return _PLURAL.get(verb, re.sub("ies$", "ys", verb)[:-1])


def read_agreement(path: str | Path, split: str | None = None) -> Iterator[Pair]:
    """Yield the pairs of a table with the places of the verbs, or of .gold files with the forms of the verbs.

    For tables, and for .gold files of 4 columns (Linzen's sentences), the paradigm is the number of attractors between
    subject and verb. For .gold files of 12 columns (nonsense) it is the pattern of the construction and the source; the
    field is "generated sentences", or "original sentences" for those from which the nonsense was made. The critical
    word is the verb.

    Parameters
    ----------
    path : str or Path
        A table, .tsv, for `accel.data.generated.agreement.read_items`; or a .gold file beside its .text; or a folder or
        an archive of .gold and .text files. Each file may be packed, .gz or .xz, but for those in an archive.
    split : str or None
        The split of a table; None: test.

    Raises
    ------
    LineError
        As `read_items`; at the faulty line: other than 4 or 12 columns of a .gold file, a place of the verb outside the
        sentence, another verb there, an empty form, an ill-formed number; a .text with another number of lines.
    ValueError
        If there are no such files, or a .gold or .text both plain and packed; if no sentence is of that split; a split
        of .gold files, which have none.
    """
    path = Path(path)
    if ".tsv" in path.suffixes:
        split = split or "test"
        items = [item for item in agreement.read_items(path) if item.split == split]
        if not items:
            raise ValueError(f"{path}: no sentence is of the split {split}")
        for item in items:
            yield _pair_of_item(item, f"{path.name}:{item.line}")
        return
    if split is not None:
        raise ValueError(f"--split: is for a table, .tsv, not for {path}: leave it out")
    text_files = open_files(_text_beside(path) if unpacked(path).suffix == ".gold" else path, ".text")
    texts = {unpacked(file).with_suffix(".gold"): list(read_lines(file, stream)) for file, stream in text_files}
    for file, stream in open_files(path, ".gold"):
        if unpacked(file) not in texts:
            raise ValueError(f"{file}: no .text beside it")
        for gold, text in zip_longest(read_lines(file, stream), texts[unpacked(file)]):
            if gold is None or text is None:
                raise LineError(file, (gold or text)[0], "the .text beside it has another number of lines")
            with errors_at(file, gold[0]):
                yield _pair_of_forms(gold[1].split("\t"), text[1].split(), f"{file.name}:{gold[0]}")


def _text_beside(path: Path) -> Path:
    """Return the .text file, plain or packed, of a .gold file; in an archive it is plain."""
    text = unpacked(path).with_suffix(".text")
    return find_file(text.parent, text.name) if text.parent.is_dir() else text


def _pair_of_item(item: agreement.Item, place: str) -> Pair:
    verb, *after = item.rest
    kind = _attractors(item.n_diff_intervening), "treebank sentences", "treebank sentences"
    wrong = other_form(verb, item.label)
    if wrong is None:
        return Pair(place, *kind, [], [], None, f"no other form of {verb!r}, {item.label}, is known")
    return _pair(place, kind, [*item.words, verb, *after], len(item.words), verb, wrong)


def _pair_of_forms(columns: list[str], words: list[str], place: str) -> Pair:
    if len(columns) == 4:
        at, right, wrong, attractors = columns
        kind = _attractors(_number("the number of attractors", attractors)), "Wikipedia sentences"
    elif len(columns) == 12:
        pattern, _, sentence, at, _, _, right, wrong, *_ = columns
        source = "original" if _number("the number of the sentence", sentence) == 0 else "generated"
        kind = f"{'_'.join(pattern.split('!')[1:2]) or pattern}, {source}", f"{source} sentences"
    else:
        raise ValueError(f"{len(columns)} columns, neither 4 nor 12")
    words = words[:-1] if words[-1:] == [_END] else words
    index = _number("the place of the verb", at)
    if not index < len(words):
        raise ValueError(f"the place of the verb is {index}: the sentence has {len(words)} words")
    if len(columns) == 4 and words[index].lower() != right.lower():
        raise ValueError(f"the verb is {right!r}, but the sentence has {words[index]!r} there")
    if not right or not wrong:
        raise ValueError("a form of the verb is empty")
    if right == wrong:
        return Pair(place, *kind, kind[1], [], [], None, f"{right!r} is both the right form and the wrong one")
    return _pair(place, (*kind, kind[1]), words, index, right, wrong)


def _pair(place: str, kind: tuple[str, str, str], words: list[str], index: int, right: str, wrong: str) -> Pair:
    good, bad = ([*words[:index], form, *words[index + 1 :]] for form in (right, wrong))
    return Pair(place, *kind, good, bad, (range(index, index + 1), range(index, index + 1)))


def _attractors(count: int) -> str:
    return f"{MANY} attractors or more" if count >= MANY else f"{count} attractor{'s' if count != 1 else ''}"


def _number(name: str, text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{name} is {text!r}")
    return int(text)
