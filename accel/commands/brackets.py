"""EVALB's score of labelled brackets, as commands print it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from accel.data.corpora.treebank import tags
from accel.evaluation.bound_and_rerank import has_tags
from accel.evaluation.evalb import Score
from refimpl.trees import Tree


def print_score(score: Score, gold: Sequence[Tree], skipped: Iterable[str] = ()) -> None:
    """Print a score, what is skipped, and how words without a tag in the gold trees count."""
    print(f"F1              {score.f1:.2f}")
    print(f"recall          {score.recall:.2f}")
    print(f"precision       {score.precision:.2f}")
    print(f"complete match  {score.complete_match:.2f}")
    print(f"sentences       {score.valid} scored, {score.errors} with errors, {score.skipped} skipped")
    for sentences in skipped:
        print(f"skipped         {sentences}")
    if (n_untagged := sum(tags(tree) is None for tree in gold)) and not has_tags(gold):
        print("tags            none in the gold trees: punctuation counts as words do")
    elif n_untagged:
        print(f"tags            not of all words in {n_untagged} gold trees: these words count as words do")
