"""The trees of a sample's sentences that `examples.measure` scores: a parser's best, drawn ones, and those of searches.

A file is written once and kept. Beside it, a file with the ending .hours says how long it took.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from types import ModuleType

from accel.commands.opened import progress
from accel.data.corpora.proposals import read_proposals
from accel.data.corpora.treebank import Reading
from accel.data.vocabularies.vocabulary import Vocabulary
from accel.parsing.labelled import searched_trees
from accel.search.word_level import limits_of
from accel.trained.opening import Model
from accel.training.directory import write_text
from examples.commands import grove
from examples.sample import Sample
from refimpl.trees import Tree, words

READING = Reading(drop_preterminals=False)


@dataclass(frozen=True)
class Candidates:
    """Files of trees for every sentence of a sample.

    Attributes
    ----------
    parsed : Path
        The best trees of a parser, blank lines between sentences.
    proposals : Path
        The parsed trees and, after them, the trees of the models' own searches that are not among them.
    draws : Path or None
        Trees that the parser draws without replacement; None if none are drawn.
    """

    parsed: Path
    proposals: Path
    draws: Path | None = None


def once(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file and the hours that this took, unless the file exists."""
    if not path.exists():
        start, partial = perf_counter(), path.with_name(f"partial-{path.name}")
        write(partial)
        write_text(path.with_suffix(".hours"), json.dumps((perf_counter() - start) / 3600))
        partial.replace(path)


def writing_hours(path: Path) -> float:
    """Return how long it took to write a file."""
    return float(json.loads(path.with_suffix(".hours").read_text(encoding="utf-8")))


def propose(
    parser: Path, sentences: Path, backend: str, number: int, out: Path, vocabulary: Vocabulary | None = None
) -> None:
    """Write a parser's best trees for the sentences of a treebank; leave out those with labels not in `vocabulary`.

    The parser of silver trees knows labels that its best trees never have; models that learned from these trees do
    not know them.
    """

    def write(path: Path) -> None:
        grove(*_command(parser, sentences, backend), "--number", number, "--out", path)
        if vocabulary is not None:
            groups = [[sentence.tree for sentence in group] for group in read_proposals(path, READING)]
            _write_groups(path, [vocabulary.with_known_labels(group) for group in groups])

    once(out, write)


def draw(parser: Path, sentences: Path, backend: str, number: int, out: Path) -> None:
    """Write trees that a parser draws for the sentences of a treebank."""
    command = _command(parser, sentences, backend)
    once(out, lambda path: grove(*command, "--number", number, "--sample", "--out", path))


def _command(parser: Path, sentences: Path, backend: str) -> tuple[str | Path, ...]:
    return ("propose", "--checkpoint", parser, "--trees", sentences, "--backend", backend)


def search(ops: ModuleType, model: Model, sample: Sample, beam: int, out: Path) -> None:
    """Write the trees that a model's word-level search ends with, the best first, each after its sentence's number."""

    def write(path: Path) -> None:
        tree_groups = searched_trees(ops, model, [words(tree) for tree in sample.gold], limits_of(beam))
        groups = list(progress(tree_groups, len(sample.gold), unit="sentence"))
        lines = (f"{number}\t{tree}\n" for number, group in enumerate(groups, 1) for tree, _ in group)
        path.write_text("".join(lines), encoding="utf-8")

    once(out, write)


def unite(parsed: Path, searched: Sequence[Path], out: Path) -> None:
    """Write the parser's trees of every sentence and, after them, those of the searches that are not among them."""
    groups = [[sentence.tree for sentence in group] for group in read_proposals(parsed, READING)]
    for path in searched:
        # the last sentences may have no trees: then the file has fewer groups
        for group, others in zip(groups, read_proposals(path, READING, numbered=True), strict=False):
            group += [sentence.tree for sentence in others if sentence.tree not in group]
    _write_groups(out, groups)


def _write_groups(out: Path, groups: Sequence[Sequence[Tree]]) -> None:
    write_text(out, "\n".join("".join(f"{tree}\n" for tree in group) for group in groups))
