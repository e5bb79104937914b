"""`grove rerank`: the most probable of every sentence's proposals, and how well they match the gold trees."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from accel.commands import models
from accel.data.tagged import tags
from accel.data.treebank import read_treebank
from accel.proposals import bracket_score, choose, read_proposals
from accel.saved import write_text
from refimpl.bracket_score import COLLINS, EvalbParameters, read_parameters


def add_arguments(parser: argparse.ArgumentParser) -> None:
    models.add_arguments(parser)
    parser.add_argument("--proposals", type=Path, required=True, help="trees, blank lines between sentences")
    parser.add_argument(
        "--numbered", action="store_true", help="proposals have no blank lines, but a sentence's number and a tab"
    )
    parser.add_argument("--gold", type=Path, required=True, help="the gold tree of every sentence")
    parser.add_argument("--parameters", type=Path, help="a parameter file of EVALB (default: those of COLLINS.prm)")
    parser.add_argument("--out", type=Path, help="write the chosen trees, one a line")


def run(options: argparse.Namespace) -> int:
    opened = models.open_models(options)
    parameters = COLLINS if options.parameters is None else _read_parameters(options.parameters)
    reading = opened.reading
    if reading.documents != "none":
        raise ValueError(f"{options.proposals}: proposals are sentences, and this model reads documents")
    proposals = read_proposals(options.proposals, reading, numbered=options.numbered)
    gold = list(read_treebank(options.gold, replace(reading, drop_preterminals=False)))
    if len(gold) != len(proposals):
        raise ValueError(f"{options.gold}: {len(gold)} trees, but {options.proposals} has {len(proposals)} sentences")
    chosen = choose(
        opened.ops, opened.models, options.proposals, proposals, progress=models.progress, **opened.scoring
    )
    if options.out is not None:
        write_text(options.out, "".join(f"{tree}\n" for tree in chosen))
    score = bracket_score(chosen, gold, parameters)
    tagged = all(tags(tree) is not None for tree in gold)
    print(f"F1              {score.f1:.2f}")
    print(f"recall          {score.recall:.2f}")
    print(f"precision       {score.precision:.2f}")
    print(f"complete match  {score.complete_match:.2f}")
    print(f"sentences       {score.valid} scored, {score.errors} with errors, {score.skipped} skipped")
    if not tagged:
        print("tags            none in the gold trees: punctuation counts as words do")
    return 0


def _read_parameters(path: Path) -> EvalbParameters:
    try:
        return read_parameters(path.read_text(encoding="utf-8").splitlines())
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
