"""Files of generated English: a treebank and its sentences, for all who have no treebank.

    python -m accel.data.generated.english --out trees

`trees/` gets train, valid and test, each as bracketed trees (`.trees`) and as their words, a sentence a line (`.txt`).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from errno import EEXIST
from pathlib import Path

from accel.data.files.written import replaced
from accel.data.generated.grammar import ENGLISH
from refimpl.trees import words

HELD_OUT = {"valid": 500, "test": 500}


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the files that the command line asks for, and print their names and lengths."""
    parser = argparse.ArgumentParser(
        prog="python -m accel.data.generated.english", description="write trees and sentences of generated English"
    )
    parser.add_argument("--out", required=True, metavar="FOLDER", help="gets {train,valid,test}.{trees,txt}")
    parser.add_argument(
        "--sentences", type=int, default=20_000, help="sentences of train; valid and test have 500 each (20000)"
    )
    parser.add_argument("--seed", type=int, default=0, help="another seed gives other sentences (0)")
    options = parser.parse_args(arguments)
    try:
        paths = write_files(options.out, {"train": options.sentences, **HELD_OUT}, options.seed)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    print("".join(f"{path}: {n:,} sentences\n" for path, n in paths.items()), end="")


def write_files(folder: str | Path, sizes: Mapping[str, int], seed: int) -> dict[Path, int]:
    """Write ``NAME.trees`` and ``NAME.txt`` for every name; return the paths with their numbers of sentences.

    Raises
    ------
    ValueError
        If a number of sentences is less than 1.
    FileExistsError
        If the folder has one of these files already.
    """
    if min(sizes.values()) < 1:
        raise ValueError(f"--sentences {min(sizes.values())}: at least one is needed")
    folder = Path(folder)
    paths = {folder / f"{name}.{ending}": n for name, n in sizes.items() for ending in ("trees", "txt")}
    for path in paths:
        if path.exists():
            raise FileExistsError(EEXIST, "File exists", str(path))
    folder.mkdir(parents=True, exist_ok=True)
    for number, (name, n) in enumerate(sizes.items()):
        trees = list(ENGLISH.sample(n, len(sizes) * seed + number))
        for ending, lines in (("trees", trees), ("txt", [" ".join(words(tree)) for tree in trees])):
            with replaced(folder / f"{name}.{ending}") as file:
                file.writelines(f"{line}\n".encode() for line in lines)
    return paths


if __name__ == "__main__":
    main()
