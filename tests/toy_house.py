"""A folder in which `grove` can be tried: treebank, proposals, trained models."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import accel
from accel import cli
from accel.data.grammar import ENGLISH, proposals
from accel.saved import Model, load_model
from refimpl.trees import Tree

TINY = ("d_model=16", "d_ff=24", "n_layers=2", "segment_length=12", "memory_length=9", "warmup_steps=2")
MODELS = {
    "tg": ("--model", "tg"),
    "long": ("--model", "tg", "--seed", "1", "--set", "segment_length=128", "--memory", "shift"),
    "txl_cc": ("--model", "txl_cc"),
    "words": ("--model", "txl_terminals"),
}


def write(path: Path, trees: list[Tree]) -> Path:
    path.write_text("".join(f"{tree}\n" for tree in trees), encoding="utf-8")
    return path


def train(out: Path, data: Path, *more: str) -> list[str]:
    settings = [part for setting in TINY for part in ("--set", setting)]
    return ["train", "--out", str(out), "--data", str(data), "--keep-tags", "--steps=6", *settings, *more]


class House:
    """A folder with a generated treebank, proposals for its validation trees, and tiny models."""

    def __init__(self, folder: Path, names: Iterable[str] = MODELS) -> None:
        self.folder = folder
        self.gold = list(ENGLISH.sample(12, 2))
        self.proposed = [proposals(tree, 4, seed) for seed, tree in enumerate(self.gold)]
        self.data = write(folder / "train.trees", list(ENGLISH.sample(150, 1)))
        self.valid = write(folder / "valid.trees", self.gold)
        self.flat = write(folder / "flat.trees", [tree for group in self.proposed for tree in group])
        blocks = ["".join(f"{tree}\n" for tree in (*group, group[0])) for group in self.proposed]
        self.proposals = folder / "proposals.trees"
        self.proposals.write_text("\n".join(blocks))
        lines = (f"{i}\t{line}\n" for i, block in enumerate(blocks, 1) for line in block.splitlines())
        self.numbered = folder / "numbered.trees"
        self.numbered.write_text("".join(lines))
        for name in names:
            assert cli.main(train(folder / name, self.data, "--validation", str(self.valid), *MODELS[name])) == 0

    def model(self, name: str) -> Model:
        return load_model(accel.load("cpu"), self.folder / name)

    def checkpoints(self, *names: str) -> list[str]:
        return [part for name in names for part in ("--checkpoint", str(self.folder / name))]
