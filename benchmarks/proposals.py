"""Time the proposals of a trained parser and their scores by a trained model, stage by stage.

    python -m benchmarks.proposals --parser RUN --model RUN --trees TREEBANK [--threads 2] [--sentences 1000]

The sentences are the first 20 words of sentences of the treebank; shorter ones are left out. There is one process per
thread, which takes 16 sentences at a time. Prints Markdown: the elapsed time of one run, after a short run that
compiles the kernels, and how much of it each stage took, by the seconds of all processes.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import accel
from accel.data.batches.assemble import sequence_lengths
from accel.data.batches.prefixes import read_prefixes
from accel.data.corpora.sequences import read_treebank
from accel.data.corpora.treebank import encode_trees
from accel.models.transformer_grammars import model as transformer_grammar
from accel.parsing.propose import propose
from accel.tasks.numbers import at_least
from accel.trained.opening import Model, open_model
from accel.trained.processes import results
from accel.training.memory import keep_freed_memory
from benchmarks.run import restart
from refimpl.trees import words

Seconds = defaultdict[str, float]
SIDE_BY_SIDE = 16  # sentences
ACTIONS = 2048  # of a batch, as `grove rerank` has them
_OF_SCORES = ("sparse_attention", "cross_entropy")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("parser", "model", "trees"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--threads", type=at_least(1), default=os.cpu_count())
    parser.add_argument("--sentences", type=at_least(1), default=1000)
    parser.add_argument("--words", type=at_least(1), default=20, help="of every sentence")
    parser.add_argument("--number", type=at_least(1), default=300, help="proposals of every sentence")
    options = parser.parse_args()
    restart("benchmarks.proposals", options.threads)
    keep_freed_memory()
    ops = accel.load("cpu")
    proposing, scoring = open_model(ops, options.parser), open_model(ops, options.model)
    longer = (words(tree) for tree in read_treebank(options.trees) if len(words(tree)) >= options.words)
    sentences = [sentence[: options.words] for sentence in islice(longer, options.sentences)]
    chunks = [sentences[start : start + SIDE_BY_SIDE] for start in range(0, len(sentences), SIDE_BY_SIDE)]
    measure(proposing, scoring, chunks[0], options.number)
    seconds, counts, begin = Seconds(float), Counter[str](), perf_counter()
    work = partial(measure, proposing, scoring, number=options.number)
    for of_chunk in results(work, chunks, ops, options.threads):
        counts.update(of_chunk[1])
        for name, value in of_chunk[0].items():
            seconds[name] += value
    print("\n".join(table(seconds, counts, len(sentences), perf_counter() - begin)))


def measure(proposing: Model, scoring: Model, sentences: list[list[str]], number: int) -> tuple[Seconds, Counter[str]]:
    """Return the seconds of every stage, and the numbers of proposals, of their positions and of the rows read."""
    seconds, counts = Seconds(float), Counter[str]()
    ops = accel.load("cpu")
    calls = {name: _timed(getattr(ops, name), name, seconds) for name in ("span_logz", "best_trees", *_OF_SCORES)}
    timed: Any = SimpleNamespace(**vars(ops) | calls)
    begin = perf_counter()
    groups = [[tree for tree, _ in parses] for parses in propose(timed, proposing, sentences, number)]
    proposed = perf_counter()
    corpus = encode_trees([tree for group in groups for tree in group], scoring.vocabulary)
    sizes = [len(group) for group in groups]
    batches = list(read_prefixes(corpus, scoring.vocabulary, scoring.config, ops, sizes, n_actions=ACTIONS))
    structured = perf_counter()
    for batch in batches:
        transformer_grammar.prefix_logps(timed, scoring.config, scoring.parameters, batch)
    seconds |= {"proposals": proposed - begin, "structure": structured - proposed}
    seconds["scores"] = perf_counter() - structured
    counts["proposals"] += len(corpus)
    counts["positions"] += int(sequence_lengths(corpus, scoring.config.model).sum())
    counts["rows"] += sum(len(batch.ids) for batch in batches)
    return seconds, counts


def _timed(call: Callable[..., Any], name: str, seconds: Seconds) -> Callable[..., Any]:
    def timed(*arguments: Any, **options: Any) -> Any:
        begin = perf_counter()
        result = call(*arguments, **options)
        seconds[name] += perf_counter() - begin
        return result

    return timed


def table(seconds: Seconds, counts: Counter[str], n_sentences: int, elapsed: float) -> Iterator[str]:
    """Yield the lines of a Markdown table: stages, their shares of the elapsed seconds."""
    total = sum(seconds[name] for name in ("proposals", "structure", "scores"))
    trees = seconds["best_trees"] + seconds["span_logz"]
    network = seconds["scores"] - sum(seconds[name] for name in _OF_SCORES)
    stages = {
        "proposals: network of the parser, trees": seconds["proposals"] - trees,
        "proposals: the best trees of the charts": trees,
        "scores: common prefixes, who attends to whom": seconds["structure"],
        "scores: attention": seconds["sparse_attention"],
        "scores: vocabulary": seconds["cross_entropy"],
        "scores: other layers": network,
        "all": total,
    }
    saved = counts["positions"] / counts["rows"]
    yield f"{counts['proposals']:,} proposals of {n_sentences:,} sentences, {counts['positions']:,} positions, of which"
    yield f"{counts['rows']:,} are read: {saved:.1f} times fewer."
    yield ""
    yield "| stage | seconds | share |"
    yield "|---|---:|---:|"
    for name, value in stages.items():
        yield f"| {name} | {elapsed * value / total:.1f} | {100 * value / total:.0f} % |"


if __name__ == "__main__":
    main()
