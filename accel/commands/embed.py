"""`grove embed`: the inside vectors of all words and constituents of a text, from a GPST's composition model.

Each line is a sentence. A sentence of n words has 2 n - 1 nodes, in the post-order of its induced tree. The command
writes a safetensors file:

    vectors [nodes, d] float32
    spans [nodes, 2] int64    first and last word within the sentence, from 0
    lines [nodes] int64       the line of the sentence, from 1

The text is checked before anything is written. Only the vectors of one batch are in memory.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from math import prod
from pathlib import Path

import numpy as np

import accel
from accel.autodiff.arrays import host
from accel.commands.opened import check_outs, figures, progress, replaced
from accel.data.corpora.documents import read_documents
from accel.data.files.lines import errors_at
from accel.parsing.gpst import constituents
from accel.tasks.numbers import at_least
from accel.trained.kinds import GPST_TREES, require
from accel.trained.opening import Model, open_model
from accel.trained.words import encode_words


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a sentence a line, words between blanks")
    parser.add_argument("--checkpoint", type=Path, required=True, metavar="RUN", help="a run's directory, or a file")
    parser.add_argument("--out", type=Path, required=True, metavar="VECTORS", help="a safetensors file to write")
    parser.add_argument("--backend", default="cpu", choices=accel.BACKENDS)
    parser.add_argument("--batch-size", type=at_least(1), default=64, help="how many sentences are read side by side")


def run(options: argparse.Namespace) -> int:
    check_outs(options, "out")
    ops = accel.load(options.backend)
    model = open_model(ops, options.checkpoint)
    require(model, GPST_TREES)
    numbers, sentences = zip(*_encoded(model, options.file), strict=True)
    sizes = np.array([2 * len(words) - 1 for words in sentences], np.int64)
    nodes = constituents(ops, model, sentences, batch_size=options.batch_size)
    all_spans = []
    with replaced(options.out) as file:
        file.write(_header(int(sizes.sum()), model.config.d_compose))
        for spans, vectors in progress(nodes, len(sizes)):
            file.write(host(vectors).astype(np.float32).tobytes())
            all_spans.append(spans.astype(np.int64))
        file.write(np.concatenate(all_spans).tobytes())
        file.write(np.repeat(np.array(numbers, np.int64), sizes).tobytes())
    with figures(options.out):
        print(options.out)
    return 0


def _encoded(model: Model, path: Path) -> Iterator[tuple[int, list[list[int]]]]:
    """Yield the number of every line that has words, and the pieces of its words."""
    for words, number, _ in read_documents(path, sentence_a_line=True):
        with errors_at(path, number):
            yield number, encode_words(model, words)


def _header(nodes: int, d: int) -> bytes:
    """Return the header of the safetensors file."""
    tensors = {"vectors": ("F32", 4, [nodes, d]), "spans": ("I64", 8, [nodes, 2]), "lines": ("I64", 8, [nodes])}
    header, end = {}, 0
    for name, (dtype, size, shape) in tensors.items():
        begin, end = end, end + size * prod(shape)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text
