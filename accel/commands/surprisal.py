"""`grove surprisal`: the surprisal of every word of a text under a model, in bits, one word a line.

Each line of the text is one sentence, read by itself; a GPST and a GPT-2 can read it after the lines before it. A blank
line ends a document. The surprisal of a word is the sum over its pieces.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import accel
from accel.commands.opened import add_ensemble, progress
from accel.commands.search_options import (
    add_models,
    add_proposals,
    add_search,
    open_ensemble,
    surprisals_of,
)
from accel.commands.threads import processes
from accel.data.corpora.documents import read_documents
from accel.data.files.lines import errors_at
from accel.scoring.surprisals import bits_after_lines, bits_of_words, check_context, check_words
from accel.tasks.numbers import at_least


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_models(parser)
    add_ensemble(parser)
    parser.add_argument("file", type=Path, metavar="FILE", help="a sentence a line, words between blanks")
    add_search(parser)
    add_proposals(parser)
    parser.add_argument(
        "--context-lines",
        type=at_least(0),
        default=0,
        metavar="N",
        help="GPST, GPT-2: read every line after up to N lines of its document, as many as the context holds (0)",
    )
    parser.add_argument("--backend", default="cpu", choices=accel.BACKENDS)
    parser.add_argument("--batch-size", type=at_least(1), default=8, help="sentences searched side by side")


def run(options: argparse.Namespace) -> int:
    ops = accel.load(options.backend)
    model, others = open_ensemble(ops, options)
    check_context(model, options.context_lines)
    search = surprisals_of(ops, model, options, others)
    lines = list(read_documents(options.file, sentence_a_line=True))
    for line in lines:
        with errors_at(options.file, line.line):
            check_words(model, line.words, search.get("parser"))
    words = [line.words for line in lines]
    if options.context_lines:
        documents = [line.document for line in lines]
        context = {"context_lines": options.context_lines, "batch_size": options.batch_size}
        bits_of_lines = bits_after_lines(ops, model, words, documents, **context, **search)
    else:
        side_by_side = {"batch_size": options.batch_size, "processes": processes(ops, model)}
        bits_of_lines = bits_of_words(ops, model, words, **side_by_side, **search)
    print("line", "word", "bits", sep="\t")
    bits_of_lines = progress(bits_of_lines, len(lines), "line", printed=True)
    for line, bits in zip(lines, bits_of_lines, strict=True):
        for word, surprisal in zip(line.words, bits, strict=True):
            print(line.line, word, f"{surprisal:.4f}", sep="\t", flush=True)
    return 0
