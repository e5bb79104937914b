"""Folders of trees as Transformer Grammars uses them: the Penn Treebank's Wall Street Journal, BLLIP, any .mrg files.

Every file is a document. Trees lose traces, function tags and a root that only wraps a sentence, and keep their
part-of-speech tags. Names of files and folders are found in upper and in lower case.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from accel.data.corpora.treebank import Reading, read_sentences
from accel.data.files.lines import LineError, read_lines
from refimpl.trees import Tree

ROOTS = ("TOP", "ROOT", "S1")
SPLITS = ("train", "valid", "test")
_READING = Reading(drop_traces=True, drop_function_tags=True)


class Part(NamedTuple):
    """A file of trees or a folder of such files, its split, and how many of its trees are taken (None: all).

    These are the first trees, with the files in the order of their names.
    """

    split: str
    name: str
    n_trees: int | None = None


BLLIP_LG = (
    *(Part("train", f"1987/w7_{number:03}") for number in range(3, 128)),
    *(Part("train", f"1988/w8_{number:03}") for number in range(3, 109)),
    *(Part("train", f"1989/w9_{number:03}") for number in range(12, 42)),
    *(Part("valid", name, 500) for name in ("1987/w7_001", "1988/w8_001", "1989/w9_010")),
    *(Part("test", name, 1000) for name in ("1987/w7_002", "1988/w8_002", "1989/w9_011")),
)
"""The parts of BLLIP-LG, as the authors of later work share them."""


def read_document(path: Path) -> Iterator[Tree]:
    """Yield the trees of a file, as this module describes them; raises as `read_sentences` does."""
    for sentence in read_sentences(path, _READING):
        yield unwrapped(sentence.tree)


def unwrapped(tree: Tree) -> Tree:
    """Return the tree below a root that only wraps it.

    Examples
    --------
    >>> unwrapped(Tree("S1", (Tree("S", ("yes",)),))), unwrapped(Tree("S1", ("yes",)))
    (Tree('(S yes)'), Tree('(S1 yes)'))
    """
    while tree.label in ROOTS and len(tree.children) == 1 and isinstance(tree.children[0], Tree):
        tree = tree.children[0]
    return tree


def mrg_files(folder: Path) -> list[Path]:
    """Return the .mrg files below a folder, sorted by path; ValueError if there are none."""
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() == ".mrg" and path.is_file())
    if not files:
        raise ValueError(f"{folder}: not a folder with .mrg files below it")
    return files


def sections(text: str) -> list[int]:
    """Return the sections that a text such as ``2-21`` or ``22`` names; ValueError unless they are in 0 to 24.

    Examples
    --------
    >>> sections("2-4"), sections("22")
    ([2, 3, 4], [22])
    """
    match = re.fullmatch(r"(\d{1,2})(?:-(\d{1,2}))?", text, re.ASCII)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if not first <= last <= 24:
        raise ValueError(f"{text!r} names no sections: give one such as 24, or the first and last such as 2-21")
    return list(range(first, last + 1))


def section_files(folder: Path, text: str) -> list[Path]:
    """Return the .mrg files of sections, sorted; the folder holds a folder for each, 00 to 24."""
    files = []
    for section in sections(text):
        place = folder / f"{section:02}"
        if not place.is_dir():
            reason = f"no folder {place.name} in it: give the folder that holds the sections, such as parsed/mrg/wsj"
            raise ValueError(f"{folder}: {reason}")
        files += mrg_files(place)
    return files


def read_parts(path: Path) -> list[Part]:
    """Return the parts that a file lists, one a line: a split, a file or folder, and perhaps the number of its trees.

    Raises
    ------
    LineError
        At a line that is none of these, and as `read_lines` does.
    """
    parts = []
    for number, line in read_lines(path):
        columns = line.split()
        if not columns:
            continue
        split, name, *rest = columns if len(columns) > 1 else (columns[0], "")
        count = int(rest[0]) if len(rest) == 1 and rest[0].isascii() and rest[0].isdigit() else 0
        if split not in SPLITS or not name or (rest and not count):
            reason = f"not {', '.join(SPLITS[:-1])} or {SPLITS[-1]}, a folder or file, and perhaps a number of trees"
            raise LineError(path, number, reason)
        parts.append(Part(split, name, count or None))
    if len({part.name for part in parts}) < len(parts):
        raise LineError(path, 0, "lists a folder or file twice")
    return parts


def part_files(folder: Path, part: Part) -> list[Path]:
    """Return the files of a part, sorted by name; ValueError if there are none."""
    place = folder
    for name in Path(part.name).parts:
        inside = sorted(place.iterdir()) if place.is_dir() else []
        place = next((path for path in inside if path.name.lower() == name.lower()), place / name)
    if place.is_file():
        return [place]
    files = sorted(path for path in place.glob("*") if path.is_file() and not path.name.startswith("."))
    if not files:
        raise ValueError(f"{place}: no such file, nor a folder with files in it")
    return files


def documents_of(folder: Path, part: Part) -> Iterator[list[Tree]]:
    """Yield the trees of each file of a part; raises as `read_document`, and ValueError for too few trees."""
    left = part.n_trees
    for path in part_files(folder, part):
        trees = list(read_document(path))[:left]
        yield trees
        if left is not None:
            left -= len(trees)
            if not left:
                return
    if left:
        raise ValueError(f"{folder / part.name}: {part.n_trees} trees are asked for, {left} more than there are")
