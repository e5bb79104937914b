"""Write training, validation and test trees of three free treebanks, and of all of them together.

    python -m examples.transformer_grammars.free_treebanks --craft DIR --tg-example DIR --gum DIR --out treebanks

`treebanks/craft`, `treebanks/tg_example` and `treebanks/union` get train.trees, valid.trees and test.trees, one tree a
line, without traces and function tags, with part-of-speech tags. CRAFT (Verspoor et al. 2012): its development part is
the test set, since the test part is not available, and the last tenth of its training articles is the validation set.
`treebanks/craft_documents` has the same trees, with a blank line between articles, for `--documents`. GUM (Zeldes
2017): only texts whose licence allows any use. The union has the test sets of the other two.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path

from accel.data.corpora.sequences import read_treebank
from accel.data.corpora.treebank import Reading, tags
from accel.data.files.lines import find_file
from accel.training.directory import write_text
from examples.program import run_program
from refimpl.trees import Tree

FREE_GENRES = ("academic", "bio", "court", "interview", "news", "voyage")
SPLITS = ("train", "valid", "test")
_READING = Reading(drop_traces=True, drop_function_tags=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("craft", "tg-example", "gum", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    options = parser.parse_args(arguments)
    articles, tg_example, gum = _craft(options.craft), _tg_example(options.tg_example), _gum(options.gum)
    craft = {split: [tree for article in articles[split] for tree in article] for split in SPLITS}
    union = {split: [*craft[split], *tg_example[split], *gum[split]] for split in SPLITS}
    for name, splits in {"craft": craft, "tg_example": tg_example, "union": union}.items():
        _write(options.out / name, {split: [trees] for split, trees in splits.items()})
    _write(options.out / "craft_documents", articles)


def _write(folder: Path, splits: dict[str, list[list[Tree]]]) -> None:
    """Write the trees of every split, with a blank line between its documents, and print what is left out."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, documents in splits.items():
        tagged = [[tree for tree in document if tags(tree) is not None] for document in documents]
        write_text(folder / f"{split}.trees", "\n".join("".join(f"{tree}\n" for tree in trees) for trees in tagged))
        n_trees, n_tagged = (sum(map(len, part)) for part in (documents, tagged))
        of_documents = f" in {len(documents)} documents" if len(documents) > 1 else ""
        print(
            f"{folder.name}/{split}.trees: {n_tagged:,} trees{of_documents}; "
            f"left out for a tag over several words: {n_trees - n_tagged}"
        )


def _craft(folder: Path) -> dict[str, list[list[Tree]]]:
    """Return the articles of every split."""
    train, test = (_articles(folder, split) for split in ("train", "dev"))
    held_out = max(1, len(train) // 10)
    return {"train": train[:-held_out], "valid": train[-held_out:], "test": test}


def _articles(folder: Path, split: str) -> list[list[Tree]]:
    return [trees for _, trees in _texts(folder, split, f"{split}.mrg")]


def _texts(folder: Path, split: str, name: str) -> list[tuple[dict[str, str], list[Tree]]]:
    """Return the row in docs.tsv and the trees of every text of a split.

    Raises
    ------
    ValueError
        If the rows do not count as many trees as the file has.
    """
    rows, trees = [row for row in _documents(folder) if row["split"] == split], _trees(folder, name)
    ends = list(accumulate(int(row["trees"]) for row in rows))
    if ends[-1:] != [len(trees)]:
        message = f"{folder / 'docs.tsv'}: counts {sum(ends[-1:]):,} trees of {split}"
        raise ValueError(f"{message}, but {name} has {len(trees):,}: give the whole file, and a count of every text")
    return [(row, trees[begin:end]) for row, begin, end in zip(rows, [0, *ends], ends, strict=False)]


def _tg_example(folder: Path) -> dict[str, list[Tree]]:
    return {split: _trees(folder, f"{split}.txt") for split in SPLITS}


def _gum(folder: Path) -> dict[str, list[Tree]]:
    """Return the trees of the free texts; there is no test set, since their brackets are a parser's."""

    def part(name: str) -> list[Tree]:
        texts = _texts(folder, name, f"{name}.ptb")
        return [tree for row, trees in texts if row["genre"] in FREE_GENRES for tree in trees]

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
    run_program(main)
