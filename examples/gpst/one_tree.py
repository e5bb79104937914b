"""How much of a GPST's perplexity is due to counting one tree in place of all: lines of a text, each read by itself.

    python -m examples.gpst.one_tree --gpst RUN --gpt2 RUN --text TEXT --out JSON

A GPST has two perplexities, of the induced trees alone and summed over the parses of a search; a GPT-2 beside it has
one, which is exact. Of a longer text every k-th line is read; lines with more pieces than a context holds are left out.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import accel
from accel.data.files.lines import read_lines
from accel.tasks.numbers import at_least
from accel.trained.opening import Model, open_model
from accel.trained.words import encode_words
from accel.training.directory import write_text
from examples.gpst.runs import apart
from examples.program import run_program


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Return the perplexities of both models on the same lines."""
    options = read_options(arguments)
    ops = accel.load(options.backend)
    models = {name: open_model(ops, getattr(options, name)) for name in ("gpst", "gpt2")}
    lines = [words for _, line in read_lines(options.text) if (words := line.split())]
    step = max(1, -(-len(lines) // options.most))
    read = [words for words in lines[::step] if all(fits(model, words) for model in models.values())]
    for name, model in models.items():
        if model.config.model != name:
            raise SystemExit(f"--{name}: {model.path} holds a {model.config.model}: swap --gpst and --gpt2")
    if not read:
        raise SystemExit(
            f"--text: {options.text}: has no line that fits into a context: give a text of a sentence a line"
        )
    content: dict[str, Any] = {name: apart(ops, model, read, options.beam) for name, model in models.items()}
    content |= {"sentences": len(read), "words": sum(map(len, read)), "of": len(lines), "beam": options.beam}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    write_text(options.out, json.dumps(content, indent=1) + "\n")
    return content


def read_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpst", type=Path, required=True, metavar="RUN")
    parser.add_argument("--gpt2", type=Path, required=True, metavar="RUN")
    parser.add_argument("--text", type=Path, required=True, help="a sentence a line; may be .gz or .xz")
    parser.add_argument("--most", type=at_least(1), default=500, help="lines that are read (%(default)s)")
    parser.add_argument("--beam", type=at_least(1), default=20, help="parses kept for a sentence (%(default)s)")
    parser.add_argument("--backend", choices=accel.BACKENDS, default="cpu")
    parser.add_argument("--out", type=Path, required=True, metavar="JSON")
    return parser.parse_args(arguments)


def fits(model: Model, words: Sequence[str]) -> bool:
    """Return whether a model can read the words in one context."""
    try:
        encode_words(model, words, generated=True)
    except ValueError:
        return False
    return True


if __name__ == "__main__":
    run_program(main)
