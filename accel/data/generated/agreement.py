"""Agreement of subject and verb (Linzen, Dupoux and Goldberg, 2016): is the verb after these words singular or plural?

The items are read from tab-separated files with a header. Two layouts are known: columns `split`, `label`, `verb_index`
from 0, and `sentence`; or Linzen's own, `verb_pos`, `verb_index` from 1, and `sentence`, without splits. Both also have
`n_intervening` and `n_diff_intervening`. Or the grammar of `accel.data.generated.grammar` generates the items, with
attractors between subject and verb.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from accel.data.batches.sentences import Example
from accel.data.files.lines import LineError, errors_at, read_lines
from accel.data.generated.grammar import CONSTRUCTIONS, ENGLISH, minimal_pairs
from refimpl.trees import words as words_of

CLASSES = ("VBZ", "VBP")
SPLITS = ("train", "dev", "test")
_COUNTS = ("n_intervening", "n_diff_intervening")


@dataclass(frozen=True)
class Item:
    """The words before a verb.

    Attributes
    ----------
    label : "VBZ" or "VBP"
        The verb's form: singular or plural.
    words : tuple of str
    line : int
        The line of the item in its file; generated items are numbered from 1.
    split : str
        One of SPLITS.
    n_intervening, n_diff_intervening : int
        How many nouns are between subject and verb, and how many of them have the other grammatical number
        (attractors).
    rest : tuple of str
        The verb and the words after it.
    """

    label: str
    words: tuple[str, ...]
    line: int
    split: str
    n_intervening: int
    n_diff_intervening: int
    rest: tuple[str, ...]


def examples(items: Iterable[Item]) -> Iterator[Example]:
    """Yield the items as examples for `accel.data.batches.sentences.encode_examples`."""
    for item in items:
        yield Example(item.label, (list(item.words),), item.line)


def read_items(path: str | Path) -> list[Item]:
    """Return the items of a file.

    A file without splits is divided as in the Tensor2Tensor task: the items are shuffled with seed 1; 9 % are for
    training, 1 % for dev, the rest for testing. A test item is kept only if all its intervening nouns are attractors.

    Raises
    ------
    LineError
        At the faulty line: a missing column, an unknown label or split, an ill-formed number, no words before the verb.
    """
    lines = read_lines(path)
    _, header = next(lines)
    columns = header.split("\t")
    label, first = ("verb_pos", 1) if "verb_pos" in columns else ("label", 0)
    splits = ["split"] if label == "label" else []
    for name in (label, "verb_index", "sentence", *_COUNTS, *splits):
        if name not in columns:
            raise LineError(path, 1, f"the header has no column {name!r}")
    items = []
    for number, line in lines:
        values = line.split("\t")
        if len(values) != len(columns):
            raise LineError(path, number, f"{len(values)} columns, the header has {len(columns)}")
        with errors_at(path, number):
            items.append(_item(dict(zip(columns, values, strict=True)), number, label, first))
    if not items:
        raise LineError(path, 1, "no lines after the header")
    return items if splits else _with_splits(items)


def _item(row: dict[str, str], line: int, label: str, first: int) -> Item:
    if row[label] not in CLASSES:
        raise ValueError(f"unknown label {row[label]!r}: it must be one of {' '.join(CLASSES)}")
    split = row.get("split", "train")
    if split not in SPLITS:
        raise ValueError(f"unknown split {split!r}: it must be one of {' '.join(SPLITS)}")
    for name in ("verb_index", *_COUNTS):
        if not row[name].isdecimal():
            raise ValueError(f"{name} is {row[name]!r}, not a number")
    words, verb = row["sentence"].split(), int(row["verb_index"]) - first
    if not 0 < verb < len(words):
        raise ValueError(f"verb_index {row['verb_index']} is not that of a word after the first: {len(words)} words")
    counts = (int(row[name]) for name in _COUNTS)
    return Item(row[label], tuple(words[:verb]), line, split, *counts, tuple(words[verb:]))


def _with_splits(items: list[Item]) -> list[Item]:
    order = list(items)
    random.Random(1).shuffle(order)
    n_train, n_dev = int(0.09 * len(order)), int(0.01 * len(order))
    sizes = (n_train, n_dev, len(order) - n_train - n_dev)
    splits = [split for split, size in zip(SPLITS, sizes, strict=True) for _ in range(size)]
    split_items = [replace(item, split=split) for item, split in zip(order, splits, strict=True)]
    return [item for item in split_items if item.split != "test" or item.n_intervening == item.n_diff_intervening]


def generate(count: int, seed: int, *, split: str = "train") -> list[Item]:
    """Return generated items from every construction of the grammar in turn.

    Training and dev items come from the same constructions, with at most one noun, an attractor, between subject and
    verb; a dev item may also be a training item. The constructions of test items are held out, and have two such nouns.

    Examples
    --------
    >>> [" ".join(item.words) for item in generate(2, seed=1, split="test")]
    ['a boy past many girls past the dogs', 'many horses with the dog that this cat chases']
    """
    if split not in SPLITS:
        raise ValueError(f"unknown split {split!r}: choose one of {', '.join(SPLITS)}")
    if count < 1:
        raise ValueError(f"count must be at least 1, not {count}")
    constructions = [name for name, held_out in CONSTRUCTIONS.items() if held_out == (split == "test")]
    n_each = -(-count // len(constructions))
    first = (2 * seed + (split == "dev")) * len(constructions)
    samples = [minimal_pairs(name, n_each, first + i) for i, name in enumerate(constructions)]
    items = []
    for line, pair in enumerate((pair for turn in zip(*samples, strict=True) for pair in turn), 1):
        words = tuple(words_of(pair.tree))
        before, rest = words[: pair.position], words[pair.position :]
        n_nouns = sum(word in _NOUNS for word in before) - 1
        items.append(Item(CLASSES[not pair.right.endswith("s")], before, line, split, n_nouns, n_nouns, rest))
    return items[:count]


_NOUNS = frozenset(word for number in ("sg", "pl") for _, word in ENGLISH.lexicon[f"noun.{number}"])
