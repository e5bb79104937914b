"""The names of parallel files in a folder: STEM.SOURCE and STEM.TARGET, such as train.en and train.de.

An ending is a language's code. A stem is a part's name, such as `valid`, or begins with one: `valid.lc.tok`,
`test_2016`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from accel.data.files.archive import names_in

PARTS = {
    "train": ("train", "training"),
    "validation": ("valid", "validation", "val", "dev", "development"),
    "test": ("test", "testing"),
}
"""The names that files of training, validation and test data have."""
_PACKED = (".gz", ".xz")


def _ends_of_stems(folder: str | Path) -> dict[str, set[str]]:
    """Return the stems of a folder or an archive that have two endings or more, with these endings."""
    return {stem: ends for stem, ends in _endings(folder).items() if len(ends) > 1}


def _endings(folder: str | Path) -> dict[str, set[str]]:
    """Return the endings of every stem."""
    folder = Path(folder)
    names = names_in(folder) if folder.is_file() else [path.name for path in folder.iterdir() if path.is_file()]
    endings: dict[str, set[str]] = {}
    for name in names:
        for packed in _PACKED:
            name = name.removesuffix(packed)
        stem, dot, ending = name.rpartition(".")
        if dot and stem:
            endings.setdefault(Path(stem).name, set()).add(ending)
    return dict(sorted(endings.items()))


def find_ends(folder: str | Path, source: str | None, target: str | None) -> tuple[str, str]:
    """Return the endings of source and target files, of which one at least must be given.

    Raises
    ------
    ValueError
        If no stem has two endings; if an ending is needed and the folder has several.
    """
    if source and target:
        return source, target
    files = _ends_of_stems(folder)
    if not files:
        raise ValueError(f"{folder}: no files with the same name and two endings, such as train.en and train.de")
    ends = sorted(set.union(*files.values()))
    given_end = source or target
    if given_end is None:
        raise ValueError(
            f"--source: not given, and {folder} has files in {' and '.join(ends)}; use --source {' or '.join(ends)}"
        )
    others = [end for end in ends if end != given_end]
    if given_end not in ends or len(others) > 1:
        option = "--target" if source else "--source"
        raise ValueError(f"{option}: not given, and {folder} has files in {', '.join(ends)}; use {option} {others[0]}")
    return (given_end, others[0]) if source else (others[0], given_end)


def stems_with(folder: str | Path, ends: Sequence[str]) -> list[str]:
    """Return the stems of the files of a folder or an archive with all these endings."""
    return [stem for stem, endings in _endings(folder).items() if endings.issuperset(ends)]


def find_stem(folder: str | Path, ends: Sequence[str], names: Sequence[str], option: str) -> str | None:
    """Return the stem that is one of the names or begins with one, and has all endings; None if there is none.

    Raises
    ------
    ValueError
        If there are several such stems; the message names the option.
    """
    stems = stems_with(folder, ends)
    exact = [stem for stem in stems if stem in names]
    longer_stems = [stem for stem in stems if re.split("[^a-zA-Z]", stem)[0] in names]
    candidates = exact or longer_stems
    if len(candidates) > 1:
        raise ValueError(f"{option}: not given, and {folder} has {', '.join(candidates)}; use {option} {candidates[0]}")
    return candidates[0] if candidates else None
