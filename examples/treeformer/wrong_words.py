"""Print which words a model of COGS gets wrong in logical forms that are right otherwise, category by category.

    python -m examples.treeformer.wrong_words --data cogs --category prim_to_inf_arg RUN...

Every word is predicted after the right beginning, as `grove evaluate` does: a target counts as right if all its words
are. `one word` is the share of targets in which a single word is wrong, wherever it stands. The last column has the
words that are most often wrong in these targets, with the share of the category's targets. A target with a word that
training does not have is always wrong.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import accel
from accel.data.batches.sequence_pairs import TextPair, assemble_pairs, encode_pairs
from accel.data.files.lines import find_file
from accel.data.files.progress import progress
from accel.data.published.cogs import read_cogs
from accel.models.encoder_decoder.model import scores
from accel.trained.opening import Model, open_model
from examples.markdown import table
from examples.program import run_program

BATCH = 64  # sentences
MOST = 3  # words of the last column
END = "the end"


def wrong_words(ops: ModuleType, model: Model, path: Path, pairs: Sequence[TextPair]) -> Iterator[set[str]]:
    """Yield, for every pair, the different words of its target that the model does not find most probable."""
    vocabulary = {*model.vocabulary.terminals, END}
    for begin in progress(range(0, len(pairs), BATCH), -(-len(pairs) // BATCH), unit="batch"):
        part = pairs[begin : begin + BATCH]
        batch = assemble_pairs(encode_pairs(path, part, model.vocabulary), ops)
        right = scores(ops, model.config, model.parameters, batch)[1]
        ends = batch.target_offsets.tolist()
        for number, pair in enumerate(part):
            is_right = right[ends[number] : ends[number + 1]]
            targets = zip((*pair.target, END), is_right.tolist(), strict=True)
            yield {word for word, is_best in targets if not is_best or word not in vocabulary}


def row(name: str, category: str, words_of_pairs: Sequence[set[str]]) -> tuple[str, ...]:
    """Return the cells of a run and a category.

    >>> row("run", "prim", [set(), {"crawl"}, {"crawl", "x"}, {"crawl"}])
    ('run', 'prim', '4', '25.0', '50.0', 'crawl 50.0')
    """
    count = len(words_of_pairs)
    single_words = Counter(next(iter(words)) for words in words_of_pairs if len(words) == 1)
    frequent = ", ".join(f"{word} {100 * n / count:.1f}" for word, n in single_words.most_common(MOST))
    n_right = sum(not words for words in words_of_pairs)
    shares = (100 * n / count for n in (n_right, single_words.total()))
    return name, category, str(count), *(f"{share:.1f}" for share in shares), frequent


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table with a row for every run and every category."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.treeformer.wrong_words",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a run of `grove train --task cogs`")
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER", help="the folder with gen.tsv")
    parser.add_argument("--category", action="append", help="a category of gen.tsv; may be repeated (all)")
    options = parser.parse_args(arguments)
    path = find_file(options.data, "gen.tsv")
    pairs: dict[str, list[TextPair]] = {}
    for pair in read_cogs(path):
        pairs.setdefault(str(pair.kind), []).append(pair)
    categories = options.category or sorted(pairs)
    if unknown := [name for name in categories if name not in pairs]:
        raise ValueError(f"--category: {unknown[0]} is not in {path}; use {', '.join(sorted(pairs))}")
    ops, rows = accel.load("cpu"), []
    for run in options.runs:
        model = open_model(ops, run)
        for name in categories:
            rows.append(row(str(run), name, list(wrong_words(ops, model, path, pairs[name]))))
    print(table(("run", "category", "sentences", "right, %", "one word, %", "these words, %"), rows, n_names=2))


if __name__ == "__main__":
    run_program(main)
