"""Options of the commands that take proposal trees, their sentences, and the tables of their results."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from accel.commands.opened import Opened, progress, write_out
from accel.commands.threads import processes
from accel.data.corpora.draws import beside, stream_draws, with_draws
from accel.data.corpora.gathered import Draw, Sentences, gather
from accel.data.corpora.proposals import read_proposals, stream_proposals
from accel.data.corpora.treebank import Reading, Sentence
from accel.evaluation.bound_and_rerank import known_to
from accel.tasks.numbers import at_least
from accel.trained.opening import Model
from refimpl.trees import words

T = TypeVar("T")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--numbered",
        action="store_true",
        help="proposals have a sentence's number and a tab, no blank lines; a missing number has no proposals",
    )
    parser.add_argument(
        "--drawn",
        choices=("with", "without"),
        help="proposals are lines `i ||| log-probability ||| tree`, i from 0, drawn with replacement (RNNG) or without "
        "(propose --sample)",
    )
    help_text = "with --drawn without: trees to sum besides the drawn ones; numbered if --numbered is given"
    parser.add_argument("--also", type=Path, metavar="FILE", help=help_text)
    parser.add_argument(
        "--documents",
        type=Path,
        metavar="FILE",
        help="for a model of documents: the number of sentences of each, one a line (default: as in --gold)",
    )
    parser.add_argument(
        "--sentences", type=at_least(1), metavar="N", help="the number of sentences, with and without trees"
    )
    parser.add_argument("--max-words", type=at_least(1), metavar="N", help="skip longer sentences")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="write a row for every sentence, also if skipped")


def read_sentences(options: argparse.Namespace, reading: Reading, model: Model) -> Sentences:
    """Return the sentences that the options name; refuse proposals that the model cannot read."""
    if options.numbered and options.drawn and options.also is None:
        raise ValueError("--numbered: is not for --drawn, whose lines have numbers: leave it out")
    if options.also is not None and options.drawn != "without":
        raise ValueError("--also: is for --drawn without: leave it out, or write the trees to --proposals")
    draws: list[list[Draw]] = []
    certain = None if options.also is None else read_proposals(options.also, reading, numbered=options.numbered)
    for group in certain or []:
        if group and (options.max_words is None or len(words(group[0].tree)) <= options.max_words):
            known_to(model, options.also)(group)

    def drawn(**how: Any) -> Iterator[list[Sentence]]:
        draws.clear()
        stream = stream_draws(options.proposals, reading, with_replacement=options.drawn == "with", **how)
        for trees, of_sentence in stream if certain is None else beside(options.proposals, stream, certain):
            draws.append(of_sentence)
            yield trees

    sentences = gather(
        options.proposals,
        drawn if options.drawn else partial(stream_proposals, options.proposals, reading, numbered=options.numbered),
        reading,
        check=known_to(model, options.proposals),
        numbered=options.numbered or bool(options.drawn),
        gold=options.gold,
        documents=options.documents,
        n_sentences=options.sentences,
        max_words=options.max_words,
    )
    return with_draws(sentences, draws) if options.drawn else sentences


def asked(function: Callable[..., T], opened: Opened, sentences: Sentences) -> T:
    """Return the result of a function of `accel.evaluation.bound_and_rerank` for the opened models and sentences."""
    return function(
        opened.ops, opened.models, sentences.path, sentences.proposals, documents=sentences.documents,
        progress=partial(progress, unit="sentence"), processes=processes(opened.ops, opened.models[0]),
        **opened.scoring,
    )  # fmt: skip


def write_rows(path: Path, sentences: Sentences, names: str, values: Iterable[Sequence[object]]) -> None:
    """Write a table: every sentence's number, words, proposals and values, or "skipped: " and the reason."""
    lines = [f"sentence\twords\tproposals\t{names}"]
    rows = zip(sentences.n_words, sentences.n_proposals, sentences.reasons, values, strict=True)
    for number, (n_words, count, reason, cells) in enumerate(rows, 1):
        last = [f"skipped: {reason}"] if reason else cells
        lines.append("\t".join(map(str, [number, "?" if n_words is None else n_words, count, *last])))
    write_out(path, "".join(f"{line}\n" for line in lines))
