"""CoGnition (Li, Yin, Chen and Zhang, 2021): new English compounds, and whether their Chinese translations are right.

A compound such as ``found the small dog he liked`` occurs in five sentences. It counts as translated if the translation
of the sentence holds one of the lexicon's translations of each of its words, with the noun after its modifiers. This is
the rule of the data set's authors; but here the roles of the words follow from the form of the compound, not from lists
of verbs and nouns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from accel.data.batches.sequence_pairs import read_parallel
from accel.data.files.lines import LineError, errors_at, read_lines

CONTEXTS = 5
DETERMINERS = ("the", "every", "any", "another", "each")
PREPOSITIONS = (
    "about", "around", "before", "behind", "except", "for", "from", "inside", "like", "near", "on", "to", "toward",
    "towards", "under", "with", "without",
)  # fmt: skip
MODIFIERS = {"he liked": "mod0", "at the store": "mod1", "on the floor": "mod2"}
"""The modifiers that may follow the noun, and their names in the lexicon."""
_TOKEN = re.compile(r"[\u4e00-\u9fff]|[^\s\u4e00-\u9fff]+")
_PHRASES = {"verb": "VP", "preposition": "PP", "determiner": "NP"}

Lexicon = dict[str, tuple[str, ...]]
"""The translations of every word; empty if a word needs none."""


def tokens(line: str) -> list[str]:
    """Return every Chinese character as a token, and every other string between Chinese characters and blanks.

    Examples
    --------
    >>> tokens("他花 了 20 分钟。"), tokens("it 's late .")
    (['他', '花', '了', '20', '分', '钟', '。'], ['it', "'s", 'late', '.'])
    """
    return _TOKEN.findall(line)


def read_lexicon(path: str | Path) -> Lexicon:
    """Return the lexicon of a file of lines ``word TAB translation/translation``; the last line of a word counts.

    Raises
    ------
    LineError
        At the faulty line: other than two columns; as `read_lines` does.
    """
    lexicon: Lexicon = {}
    for number, line in read_lines(path):
        columns = line.strip().split("\t")
        if len(columns) != 2:
            raise LineError(path, number, f"{len(columns)} columns, not 2: a word and its translations")
        word, translations = columns
        lexicon[word] = () if translations == "/" else tuple(translations.split("/"))
    return lexicon


@dataclass(frozen=True)
class Instance:
    """A sentence and the words of its compound by their roles, in order; a modifier by its name in the lexicon."""

    source: tuple[str, ...]
    compound: Mapping[str, str]

    @property
    def kind(self) -> str:
        """NP, VP or PP."""
        return _PHRASES[next(iter(self.compound))]


def roles(compound: str) -> dict[str, str]:
    """Return the words of a compound by their roles.

    Raises
    ------
    ValueError
        If the compound is not, in this order: a verb or a preposition (may be missing), a determiner, an adjective (may
        be missing), a noun, a modifier (may be missing).

    Examples
    --------
    >>> roles("found the small dog he liked")
    {'verb': 'found', 'determiner': 'the', 'adjective': 'small', 'noun': 'dog', 'modifier': 'mod0'}
    """
    words_by_role = {}
    modifiers = [phrase for phrase in MODIFIERS if compound.endswith(f" {phrase}")]
    words = compound.removesuffix(modifiers[0]).split() if modifiers else compound.split()
    if words[:1] and words[0] not in DETERMINERS:
        head = words.pop(0)
        words_by_role["preposition" if head in PREPOSITIONS else "verb"] = head
    if words[:1] and words[0] in DETERMINERS and len(words) in (2, 3):
        names = ("determiner", "noun") if len(words) == 2 else ("determiner", "adjective", "noun")
        words_by_role |= dict(zip(names, words, strict=True))
        return words_by_role | ({"modifier": MODIFIERS[modifiers[0]]} if modifiers else {})
    raise ValueError(f"{compound!r} is no compound such as 'found the small dog he liked'")


def is_translated(compound: Mapping[str, str], translation: str, lexicon: Lexicon) -> bool:
    """Return whether a translation, without blanks, holds all words of a compound in order.

    Determiner and adjective must begin before the noun's last occurrence, and so must the modifier unless there is a
    verb that it may belong to.

    Examples
    --------
    >>> lexicon = {"the": (), "red": ("红",), "dog": ("狗", "犬"), "mod2": ("地上", "地板上")}
    >>> dog = roles("the red dog on the floor")
    >>> [is_translated(dog, text, lexicon) for text in ("地上的红犬", "红犬在地上", "地上的狗")]
    [True, False, False]
    """
    begins: dict[str, tuple[int, int]] = {}
    for role, word in compound.items():
        matches = [text for text in lexicon[word] if text in translation]
        if matches:
            begins[role] = min(map(translation.find, matches)), max(map(translation.rfind, matches))
        elif lexicon[word]:
            return False
    ordered = ("determiner", "adjective") if "verb" in compound else ("determiner", "adjective", "modifier")
    return all(begins[role][0] < begins["noun"][1] for role in ordered if {role, "noun"} <= begins.keys())


def read_instances(source: str | Path, compounds: str | Path, lexicon: Lexicon) -> list[Instance]:
    """Return the instances of two files with equally many lines; every CONTEXTS lines share a compound.

    Raises
    ------
    LineError
        At the faulty line: a compound that is ill-formed, has a word outside the lexicon, is not in its sentence, or
        has fewer than CONTEXTS sentences; as `read_parallel` does.
    """
    instances: list[Instance] = []
    for number, (sentence, words) in enumerate(read_parallel(source, compounds), 1):
        compound = " ".join(words)
        if f" {compound} " not in f" {' '.join(sentence)} ":
            raise LineError(compounds, number, f"{compound!r} is not in its sentence")
        with errors_at(compounds, number):
            instances.append(Instance(tuple(sentence), roles(compound)))
        unknown = [word for word in instances[-1].compound.values() if word not in lexicon]
        if unknown:
            raise LineError(compounds, number, f"the lexicon has no {unknown[0]!r}")
        if number % CONTEXTS != 1 and instances[-1].compound != instances[-2].compound:
            raise LineError(compounds, number, f"{compound!r}: the compound before has fewer than {CONTEXTS} sentences")
    if len(instances) % CONTEXTS:
        raise LineError(compounds, len(instances), f"the last compound has fewer than {CONTEXTS} sentences")
    return instances


def error_rates(
    instances: Sequence[Instance], translations: Sequence[Sequence[str]], lexicon: Lexicon
) -> dict[str, float]:
    """Return the shares, from 0 to 1, of wrong instances ("instance") and of compounds with one ("aggregate").

    The shares of each kind have its name after a blank, such as "instance NP".
    """
    pairs = list(zip(instances, translations, strict=True))
    wrong = [not is_translated(instance.compound, "".join(words), lexicon) for instance, words in pairs]
    rates = {}
    for kind in ("", *_PHRASES.values()):
        of_kind = [bad for instance, bad in zip(instances, wrong, strict=True) if kind in ("", instance.kind)]
        if of_kind:
            groups = [any(of_kind[i : i + CONTEXTS]) for i in range(0, len(of_kind), CONTEXTS)]
            for name, marks in (("instance", of_kind), ("aggregate", groups)):
                rates[f"{name} {kind}".rstrip()] = sum(marks) / len(marks)
    return rates
