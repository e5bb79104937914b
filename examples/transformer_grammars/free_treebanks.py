"""Write training, validation and test trees of three free treebanks, and of all of them together.

    python -m examples.transformer_grammars.free_treebanks --craft DIR --tg-example DIR --gum DIR --out treebanks

`treebanks/craft`, `treebanks/tg_example` and `treebanks/union` get train.trees, valid.trees and test.trees, one tree a
line, without traces and function tags, with part-of-speech tags. CRAFT (Verspoor et al. 2012): its development part is
the test set, since the test part is not available, and the last tenth of its training articles is the validation set.
GUM (Zeldes 2017): only texts whose licence allows any use. The union has the test sets of the other two.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from accel.data.corpora.treebank import Reading, read_treebank, tags
from accel.data.files.lines import find_file
from accel.training.directory import write_text
from refimpl.trees import Tree

FREE_GENRES = ("academic", "bio", "court", "interview", "news", "voyage")
SPLITS = ("train", "valid", "test")
_READING = Reading(drop_traces=True, drop_function_tags=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("craft", "tg-example", "gum", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    options = parser.parse_args(arguments)
    treebanks = {"craft": _craft(options.craft), "tg_example": _tg_example(options.tg_example)}
    gum = _gum(options.gum)
    treebanks["union"] = {
        split: [*treebanks["craft"][split], *treebanks["tg_example"][split], *gum[split]] for split in SPLITS
    }
    for name, splits in treebanks.items():
        (options.out / name).mkdir(parents=True, exist_ok=True)
        for split, trees in splits.items():
            tagged = [tree for tree in trees if tags(tree) is not None]
            write_text(options.out / name / f"{split}.trees", "".join(f"{tree}\n" for tree in tagged))
            left_out = len(trees) - len(tagged)
            print(f"{name}/{split}.trees: {len(tagged):,} trees; left out for a tag over several words: {left_out}")


def _craft(folder: Path) -> dict[str, list[Tree]]:
    trees = iter(_trees(folder, "train.mrg"))
    articles = [list(islice(trees, int(row["trees"]))) for row in _documents(folder) if row["split"] == "train"]
    held_out = len(articles) // 10
    parts = articles[:-held_out], articles[-held_out:]
    train, valid = ([tree for article in part for tree in article] for part in parts)
    return {"train": train, "valid": valid, "test": _trees(folder, "dev.mrg")}


def _tg_example(folder: Path) -> dict[str, list[Tree]]:
    return {split: _trees(folder, f"{split}.txt") for split in SPLITS}


def _gum(folder: Path) -> dict[str, list[Tree]]:
    """Return the trees of the free texts; there is no test set, since their brackets are a parser's."""

    def part(name: str) -> list[Tree]:
        trees = iter(_trees(folder, f"{name}.ptb"))
        rows = [row for row in _documents(folder) if row["split"] == name]
        texts = [(row["genre"], list(islice(trees, int(row["trees"])))) for row in rows]
        return [tree for genre, text in texts if genre in FREE_GENRES for tree in text]

    return {"train": part("train"), "valid": part("dev"), "test": []}


def _documents(folder: Path) -> Iterator[dict[str, str]]:
    with open(folder / "docs.tsv", encoding="utf-8", newline="") as lines:
        yield from csv.DictReader(lines, delimiter="\t")


def _trees(folder: Path, name: str) -> list[Tree]:
    return [_without_root(tree) for tree in read_treebank(find_file(folder, name), _READING)]


def _without_root(tree: Tree) -> Tree:
    """Return the only child of (ROOT ...), or a tree without that label as it is."""
    only = tree.children[0]
    return only if tree.label == "ROOT" and len(tree.children) == 1 and isinstance(only, Tree) else tree


if __name__ == "__main__":
    main()
