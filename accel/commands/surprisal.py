"""`grove surprisal`: how unexpected every word of a text is under a GPST, in bits, one line a word.

Each line is read by itself, as one sentence; lines without words have none. A word of several pieces has the sum of
theirs.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import accel
from accel.data.lines import LineError
from accel.data.text import read_sentences
from accel.parse_gpst import pieces_of, require_trees
from accel.saved import Model, load_model
from accel.word_search import surprisals


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--checkpoint", type=Path, required=True, metavar="RUN", help="a run's directory, or a file")
    parser.add_argument("file", type=Path, metavar="FILE", help="a sentence a line, words between blanks")
    parser.add_argument("--beam", type=int, default=20, help="parses that are kept of a sentence (20; the paper: 300)")
    parser.add_argument("--backend", default="cpu", choices=accel.BACKENDS)
    parser.add_argument("--batch-size", type=int, default=8, help="sentences searched side by side")


def run(options: argparse.Namespace) -> int:
    ops = accel.load(options.backend)
    model = load_model(ops, options.checkpoint)
    require_trees(model)
    lines = list(read_sentences(options.file))
    encoded = [_encode(model, options.file, number, words) for number, words in lines]
    tokens = [[i for pieces in of_line for i in pieces] for of_line in encoded]
    chosen = {"beam": options.beam, "batch_size": options.batch_size}
    found = surprisals(ops, model.config, model.parameters, tokens, **chosen)
    print("line", "word", "bits", sep="\t")
    for (number, words), of_line, bits in zip(lines, encoded, found, strict=True):
        begins = np.cumsum([0, *map(len, of_line)])[:-1]
        for word, of_word in zip(words, np.add.reduceat(bits, begins).tolist(), strict=True):
            print(number, word, f"{of_word:.4f}", sep="\t", flush=True)
    return 0


def _encode(model: Model, path: Path, number: int, words: list[str]) -> list[list[int]]:
    try:
        return pieces_of(model, words)
    except ValueError as error:
        raise LineError(path, number, str(error)) from error
