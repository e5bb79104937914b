"""`grove propose`: the most probable trees of every sentence, or drawn ones, all different, by a trained parser."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import accel
from accel.commands.opened import check_outs, figures, growing, progress
from accel.commands.threads import processes
from accel.data.corpora.constituents import bracketed, tree_of
from accel.data.files.lines import LineError, errors_at, place
from accel.evaluation.bound_and_rerank import bracket_score
from accel.evaluation.evalb_input import COLLINS
from accel.parsing.propose import Parse, Sentence, closest, parses, read_gold, read_words, sampled_parses
from accel.tasks.numbers import at_least
from accel.tasks.reading import add_reading, changed, refuse_reading
from accel.trained.kinds import PROPOSALS, require
from accel.trained.opening import Model, open_model
from accel.trained.words import pieces_of, refuse_start
from refimpl.trees import Tree

Numbered = tuple[int, Sentence]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, nargs="?", metavar="FILE", help="a sentence a line, words between blanks")
    parser.add_argument(
        "--trees", type=Path, metavar="TREEBANK", help="parse its sentences, and score the proposals against its trees"
    )
    parser.add_argument("--checkpoint", required=True, metavar="PATH", help="a parser: a run's directory, or a file")
    parser.add_argument(
        "--number", type=at_least(1), default=300, metavar="J", help="the most trees of a sentence (300)"
    )
    parser.add_argument("--out", type=Path, required=True, help="the proposals, blank lines between sentences")
    parser.add_argument(
        "--numbered", action="store_true", help="a sentence's number and a tab before every tree, and no blank lines"
    )
    parser.add_argument(
        "--sample",
        action="store_true",
        help="draw the trees without replacement; lines: i ||| log-probability to be among them ||| tree, i from 0",
    )
    parser.add_argument("--seed", type=at_least(0), metavar="S", help="of --sample (0)")
    help_text = (
        "the most words of a sentence (default: the parser's limit); a longer one is left out with --numbered or "
        "--sample, and an error otherwise"
    )
    parser.add_argument("--max-words", type=at_least(1), metavar="N", help=help_text)
    parser.add_argument("--backend", default="cpu", choices=accel.BACKENDS)
    parser.add_argument("--batch-size", type=at_least(1), default=16, help="sentences parsed side by side (16)")
    add_reading(parser, default=None, otherwise="as the parser was trained")


def run(options: argparse.Namespace) -> int:
    check_outs(options, "out")
    if options.sample and options.numbered:
        raise ValueError("--numbered: is not for --sample, whose lines have numbers: leave it out")
    if options.seed is not None and not options.sample:
        raise ValueError("--seed: is for --sample: give both, or neither")
    ops = accel.load(options.backend)
    model = open_model(ops, options.checkpoint)
    require(model, PROPOSALS)
    path, sentences = _read(options, model)
    short = list(_short_enough(path, sentences, model, options))
    if not short:
        raise LineError(path, 0, f"every one of {len(sentences)} sentences is left out")
    common: dict[str, Any] = {
        "count": options.number,
        "batch_size": options.batch_size,
        "processes": processes(ops, model),
    }
    if options.sample:
        common["seed"] = options.seed or 0
    ranked = (sampled_parses if options.sample else parses)(ops, model, [x.words for _, x in short], **common)
    best: list[Tree] = []
    oracle: list[Tree] = []
    count = 0
    with growing(options.out) as file:
        for (number, sentence), trees in progress(zip(short, ranked, strict=True), len(short), unit="sentence"):
            if options.sample:
                _write_draws(file, number - 1, sentence, trees)
            else:
                _write(file, sentence, trees, f"{number}\t" if options.numbered else "", first=not count)
            file.flush()
            count += len(trees)
            if sentence.tree is not None:
                best_pair = trees[0], trees[closest(trees, sentence.constituents)]
                for group, (tree, _) in zip((best, oracle), best_pair, strict=True):
                    group.append(tree_of(tree, sentence.words))
    with figures(options.out):
        print(f"sentences       {len(short)}")
        print(f"proposals       {count} ({count / len(short):.1f} a sentence)")
        if best:
            gold = [x.tree for _, x in short if x.tree is not None]
            print(f"{'first F1' if options.sample else 'F1':<15} {bracket_score(best, gold, COLLINS).f1:.2f}")
            print(f"oracle F1       {bracket_score(oracle, gold, COLLINS).f1:.2f}")
    return 0


def _read(options: argparse.Namespace, model: Model) -> tuple[Path, list[Sentence]]:
    """Return the file of the sentences, and the sentences."""
    if (options.file is None) == (options.trees is None):
        raise ValueError("propose: give either a FILE of sentences, or trees with --trees")
    if options.file is not None:
        refuse_reading(options, "is for --trees, and a FILE of sentences is given: leave it out")
        return options.file, [sentence for sentence in read_words(options.file) if sentence.words]
    assert model.reading is not None
    return options.trees, list(read_gold(options.trees, changed(model.reading, options)))


def _short_enough(
    path: Path, sentences: list[Sentence], model: Model, options: argparse.Namespace
) -> Iterator[Numbered]:
    """Yield the sentences that are short enough, with their numbers, and report the others on stderr.

    Raises LineError at any other sentence if the output has no numbers: neither --numbered nor --sample is given.
    """
    limit = model.config.max_words
    max_words = limit if options.max_words is None else options.max_words
    if not 1 <= max_words <= limit:
        raise ValueError(f"--max-words {max_words}: the parser reads 1 to {limit} words")
    n_left_out = 0
    for number, sentence in enumerate(sentences, 1):
        with errors_at(path, sentence.line):
            if sentence.words:
                refuse_start(sentence.words)
                pieces_of(model, sentence.words)
        if 1 <= len(sentence.words) <= max_words:
            yield number, sentence
            continue
        n_left_out += 1
        reason, advice = f"{len(sentence.words)} words, more than {max_words}", ""
        if not sentence.words:
            reason = "not every word has a part-of-speech tag"
        elif max_words < limit:
            advice = ", or give a larger --max-words"
        if not (options.numbered or options.sample):
            raise LineError(path, sentence.line, f"{reason}: leave it out with --numbered{advice}")
        print(f"grove: {place(path, sentence.line)}: {reason}: sentence {number} is left out", file=sys.stderr)
    if n_left_out:
        print(f"grove: {place(path)}: {n_left_out} of {len(sentences)} sentences left out", file=sys.stderr)


def _write(file: BinaryIO, sentence: Sentence, trees: list[Parse], mark: str, *, first: bool) -> None:
    """Write the trees of a sentence, each after its mark; without marks a blank line separates sentences."""
    if not (mark or first):
        file.write(b"\n")
    file.writelines(f"{mark}{bracketed(tree, sentence.words)}\n".encode() for tree, _ in trees)


def _write_draws(file: BinaryIO, number: int, sentence: Sentence, trees: list[Parse]) -> None:
    """Write the drawn trees of sentence `number`, counted from 0, with their log-probabilities."""
    lines = (f"{number} ||| {logp!r} ||| {bracketed(tree, sentence.words)}\n" for tree, logp in trees)
    file.writelines(line.encode() for line in lines)
