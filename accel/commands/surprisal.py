"""`grove surprisal`: the surprisal of every word of a text under a model, in bits, one word a line.

Each line of the text is one sentence, read by itself; a GPST and a GPT-2 can read it after the lines before it. A blank
line ends a document. The surprisal of a word is the sum over its pieces.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import accel
from accel.commands.search_options import add_proposals, add_search, surprisals_of
from accel.data.corpora.documents import Sentence, read_documents
from accel.data.files.lines import LineError
from accel.scoring.surprisals import bits_of_words, check_surprisals, check_words, sums_of_words
from accel.search.word_level import Limits, surprisals
from accel.trained.kinds import CONTEXTS, can
from accel.trained.opening import Model, open_model
from accel.trained.words import encode_words, joined


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--checkpoint", type=Path, required=True, metavar="RUN", help="a run's directory, or a file")
    parser.add_argument("file", type=Path, metavar="FILE", help="a sentence a line, words between blanks")
    add_search(parser)
    add_proposals(parser)
    parser.add_argument(
        "--context-lines",
        type=int,
        default=0,
        metavar="N",
        help="GPST, GPT-2: read every line after up to N lines of its document, as many as the context holds (0)",
    )
    parser.add_argument("--backend", default="cpu", choices=accel.BACKENDS)
    parser.add_argument("--batch-size", type=int, default=8, help="sentences searched side by side")


def run(options: argparse.Namespace) -> int:
    if options.context_lines < 0:
        raise ValueError(f"--context-lines {options.context_lines}: must not be negative")
    ops = accel.load(options.backend)
    model = open_model(ops, options.checkpoint)
    check_surprisals(model)
    search = surprisals_of(ops, model, options)
    lines = list(read_documents(options.file, sentence_a_line=True))
    for line in lines:
        _check(model, options.file, line, search.get("parser"))
    if not options.context_lines:
        words = [line.words for line in lines]
        bits_of_lines = bits_of_words(ops, model, words, batch_size=options.batch_size, **search)
    elif can(model, CONTEXTS):
        encoded = [encode_words(model, line.words) for line in lines]
        tokens = [joined(pieces) for pieces in encoded]
        contexts = _contexts(lines, tokens, options.context_lines, model.config.n_positions - 1)
        limits = Limits(search.get("beam", 20), one_pool=True)
        bits = surprisals(ops, model, tokens, limits, batch_size=options.batch_size, contexts=contexts)
        bits_of_lines = map(sums_of_words, encoded, bits)
    else:
        raise ValueError(f"--context-lines: {model.path} reads every line by itself")
    print("line", "word", "bits", sep="\t")
    for line, bits in zip(lines, bits_of_lines, strict=True):
        for word, surprisal in zip(line.words, bits, strict=True):
            print(line.line, word, f"{surprisal:.4f}", sep="\t", flush=True)
    return 0


def _check(model: Model, path: Path, sentence: Sentence, parser: Model | None) -> None:
    try:
        check_words(model, sentence.words, parser)
    except ValueError as error:
        raise LineError(path, sentence.line, str(error)) from error


def _contexts(
    lines: list[Sentence], tokens: list[list[int]], most_lines: int, most_tokens: int
) -> list[list[list[int]]]:
    """Return the context of every line: the last lines before it in its document, as many as both limits allow."""
    contexts = []
    for end, line in enumerate(tokens):
        begin, room = end, most_tokens - len(line)
        while begin > max(0, end - most_lines) and lines[begin - 1].document == lines[end].document:
            room -= len(tokens[begin - 1])
            if room < 0:
                break
            begin -= 1
        contexts.append(tokens[begin:end])
    return contexts
