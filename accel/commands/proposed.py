"""What the commands that take proposal trees have in common: which sentences there are, and a row for each."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from accel.data.corpora.proposals import Sentences, gather, read_proposals
from accel.data.corpora.treebank import Reading
from accel.training.directory import write_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--numbered",
        action="store_true",
        help="proposals have no blank lines, but a sentence's number and a tab; a number left out has no proposals",
    )
    parser.add_argument(
        "--documents",
        type=Path,
        metavar="FILE",
        help="for a model that reads documents: how many sentences each has, a number a line (default: as in --gold)",
    )
    parser.add_argument(
        "--sentences", type=int, metavar="N", help="how many sentences there are, with and without trees"
    )
    parser.add_argument("--max-words", type=int, metavar="N", help="skip longer sentences")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="write a row for every sentence, skipped ones too")


def read_sentences(options: argparse.Namespace, reading: Reading) -> Sentences:
    """Return the sentences that the options name."""
    for name, value in (("--sentences", options.sentences), ("--max-words", options.max_words)):
        if value is not None and value < 1:
            raise ValueError(f"{name} {value}: must be positive")
    return gather(
        options.proposals,
        read_proposals(options.proposals, reading, numbered=options.numbered),
        reading,
        numbered=options.numbered,
        gold=options.gold,
        documents=options.documents,
        n_sentences=options.sentences,
        max_words=options.max_words,
    )


def write_rows(path: Path, sentences: Sentences, names: str, values: Iterable[Sequence[object]]) -> None:
    """Write a table: every sentence's number, words, proposals and own values, or "skipped: " and the reason."""
    lines = [f"sentence\twords\tproposals\t{names}"]
    rows = zip(sentences.n_words, sentences.proposals, sentences.reasons, values, strict=True)
    for number, (n_words, group, reason, of_sentence) in enumerate(rows, 1):
        shown = [f"skipped: {reason}"] if reason else of_sentence
        lines.append("\t".join(map(str, [number, "?" if n_words is None else n_words, len(group), *shown])))
    write_text(path, "".join(f"{line}\n" for line in lines))
