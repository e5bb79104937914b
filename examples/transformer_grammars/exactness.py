"""The bound from J proposals rises to log p(x), the sum over all trees of a sentence, in cases where that is known.

    python -m examples.transformer_grammars.exactness

An ambiguous grammar, whose phrases take any number of prepositional phrases, gives its sentences up to hundreds of
trees. Under the grammar, log p(x) comes from the inside algorithm, which never lists a tree. Under a trained
Transformer Grammar, which gives probability to other trees too, it is summed over every tree of short sentences with at
most one label a span. The grammar's trees are proposed in several orders; a parser trained on them proposes its own.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import cache
from math import inf, log, log10
from pathlib import Path
from types import ModuleType

import numpy as np

import accel
from accel.data.corpora.treebank import Reading, encode_trees
from accel.data.generated.pcfg import Grammar, label, parse_grammar
from accel.data.vocabularies.building import build
from accel.drawing.svg import Picture
from accel.parsing.propose import propose
from accel.scoring.trees import tree_logps
from accel.tasks.numbers import at_least
from accel.trained.opening import Model, open_model
from accel.training.directory import write_text
from examples.commands import grove
from examples.findings import Findings, digest_of, hours, write_analysis
from examples.markdown import table
from examples.panels import Panel, Series, draw_panels
from examples.program import run_program
from examples.transformer_grammars.analyses import parser_of, trained
from examples.transformer_grammars.sentences import Data, generated_test
from refimpl.transformer_grammars.marginal import perplexity, sentence_logp
from refimpl.trees import Tree, words

COUNTS = (1, 3, 10, 30, 100, 300)
AMBIGUOUS = parse_grammar(
    """
    S   1  NP VP
    NP  5  det noun
    NP  3  NP PP
    NP  2  name
    VP  3  verb NP
    VP  2  VP PP
    VP  2  sleeps
    PP  1  prep NP
    """,
    """
    det     the a
    noun    dog cat park telescope
    name    Kim Mary John
    verb    sees likes
    sleeps  sleeps sings
    prep    with in near
    """,
    "S",
)
WARMUP = 50
NOISE = 2.0  # nats, the scale of the noise in the order "best first, spoilt"
UNDER = {"grammar": "the grammar, log p(x) from the inside algorithm", "tg": "a trained TG, all trees of three words"}

Groups = Sequence[Sequence[float]]  # log p of the proposals of every sentence, in their order


def main(arguments: Sequence[str] | None = None) -> dict[str, Findings]:
    """Return the bounds under the grammar and under a trained TG."""
    parser = parser_of("exactness", __doc__, sentences=5000, test=100, length=128, pairs=0)
    parser.add_argument(
        "--parser-steps", type=at_least(0), default=300, help="training steps of a parser; 0: no parser"
    )
    parser.add_argument(
        "--max-words", type=at_least(1), default=20, help="of a test sentence; longer ones have too many trees"
    )
    parser.add_argument(
        "--short", type=at_least(1), default=8, help="different sentences of three words, for the trained TG"
    )
    options = parser.parse_args(arguments)
    if options.data or options.proposals:
        raise SystemExit("--data, --proposals: the grammar must be known, so trees are generated: leave them out")
    ops, data, test = accel.load(options.backend), *_data(options)
    figures = {"grammar": under_grammar(test, _orders(ops, options, test))}
    model = open_model(ops, trained(ops, options, data, "tg", 0, model="tg"))
    short = [sentence for sentence in test if len(sentence) == 3]
    if not short:
        raise SystemExit("--test: no sentence has three words: draw more of them")
    figures["tg"] = under_model(ops, model, short[: options.short])
    n_hours = hours([model.path.parent])
    write_analysis(options, "exactness", table_of(figures), figures, picture_of(figures), data.sources, n_hours, [0])
    return figures


def _data(options: argparse.Namespace) -> tuple[Data, list[list[str]]]:
    """Return trees to train on, and the test sentences, each once."""
    sizes = (("train", options.sentences), ("valid", 200), ("test", generated_test(options)))
    trees = {name: list(AMBIGUOUS.sample(size, seed)) for seed, (name, size) in enumerate(sizes, 1)}
    vocabulary = build([*trees["train"], *trees["test"]])
    sources = {f"ambiguous {name}": digest_of(map(str, part)) for name, part in trees.items()}
    corpora = (encode_trees(trees[name], vocabulary) for name in ("train", "valid"))
    different = dict.fromkeys(tuple(words(tree)) for tree in trees["test"])
    sentences = [list(sentence) for sentence in different if len(sentence) <= options.max_words]
    return Data("the grammar", Reading(), vocabulary, *corpora, [], [], sources), sentences


def parses(grammar: Grammar, sentence: Sequence[str]) -> list[Tree]:
    """Return every tree that the grammar gives a sentence, each once; rules may not have a single phrase as child."""

    @cache
    def of(symbol: str, i: int, j: int) -> tuple[Tree | str, ...]:
        if symbol in grammar.lexicon:
            is_known = any(word == sentence[i] for _, word in grammar.lexicon[symbol])
            return (sentence[i],) if j == i + 1 and is_known else ()
        constituents = (Tree(label(symbol), row) for _, rhs in grammar.phrases[symbol] for row in rows(rhs, i, j))
        return tuple(dict.fromkeys(constituents))

    @cache
    def rows(rhs: tuple[str, ...], i: int, j: int) -> tuple[tuple[Tree | str, ...], ...]:
        if len(rhs) == 1:
            return tuple((node,) for node in of(rhs[0], i, j))
        splits = range(i + 1, j - len(rhs) + 2)
        return tuple((node, *rest) for k in splits for rest in rows(rhs[1:], k, j) for node in of(rhs[0], i, k))

    return [tree for tree in of(grammar.start, 0, len(sentence)) if isinstance(tree, Tree)]


def labelled_trees(sentence: Sequence[str], labels: Sequence[str]) -> list[Tree]:
    """Return every tree in which each span has at most one label.

    A constituent over several words has two children or more; a word has no label or one.

    Examples
    --------
    >>> [str(tree) for tree in labelled_trees(["a", "b"], ["X"])]
    ['(X a b)', '(X a (X b))', '(X (X a) b)', '(X (X a) (X b))']
    """

    def nodes(i: int, j: int) -> list[Tree | str]:
        bare: list[Tree | str] = [sentence[i]] if j == i + 1 else []
        return [*bare, *trees(i, j)]

    @cache
    def trees(i: int, j: int) -> tuple[Tree, ...]:
        inner = [(sentence[i],)] if j == i + 1 else [row for row in rows(i, j) if len(row) > 1]
        return tuple(Tree(name, row) for name in labels for row in inner)

    @cache
    def rows(i: int, j: int) -> tuple[tuple[Tree | str, ...], ...]:
        """Return every row of children of a span, without the row that is the span itself."""
        all_rows = [(first, *rest) for k in range(i + 1, j) for first in nodes(i, k) for rest in tails(k, j)]
        return tuple(all_rows)

    def tails(k: int, j: int) -> list[tuple[Tree | str, ...]]:
        return [*((node,) for node in nodes(k, j)), *(rows(k, j) if j > k + 1 else ())]

    return list(trees(0, len(sentence)))


def under_grammar(sentences: Sequence[Sequence[str]], orders: Mapping[str, Sequence[Sequence[Tree]]]) -> Findings:
    """Return the bounds of every order of proposals on the perplexity under the grammar, and its exact value."""
    exact = [AMBIGUOUS.sentence_logp(sentence) for sentence in sentences]
    groups = {name: [[AMBIGUOUS.tree_logp(tree) for tree in group] for group in order]
              for name, order in orders.items()}  # fmt: skip
    counts = [len(parses(AMBIGUOUS, sentence)) for sentence in sentences]
    n_words = sum(map(len, sentences))
    return {"sentences": len(sentences), "words": n_words, "mean trees": float(np.mean(counts)), "most": max(counts),
            "exact": perplexity(exact, n_words), "bounds": _bounds(groups, n_words)}  # fmt: skip


def under_model(ops: ModuleType, model: Model, sentences: Sequence[Sequence[str]]) -> Findings:
    """Return the bounds under a model, and its perplexity over all trees with at most one label a span."""
    groups: dict[str, list[list[float]]] = {"best first": [], "the grammar's first": [], "at random": []}
    for number, sentence in enumerate(sentences):
        trees = labelled_trees(sentence, model.vocabulary.labels)
        logps = list(tree_logps(ops, [model], encode_trees(trees, model.vocabulary), groups=[len(trees)]))
        shuffled = np.random.Generator(np.random.Philox(number)).permutation(len(trees)).tolist()
        grammatical = set(parses(AMBIGUOUS, sentence))
        ranks = {"best first": sorted(range(len(trees)), key=lambda k: -logps[k]),
                 "the grammar's first": sorted(shuffled, key=lambda k: trees[k] not in grammatical),
                 "at random": shuffled}  # fmt: skip
        for name, order in ranks.items():
            groups[name].append([logps[k] for k in order])
    n_words = sum(map(len, sentences))
    exact = perplexity([float(np.logaddexp.reduce(sorted(logps))) for logps in groups["at random"]], n_words)
    counts = [len(group) for group in groups["at random"]]
    return {"sentences": len(sentences), "words": n_words, "mean trees": float(np.mean(counts)), "most": max(counts),
            "exact": exact, "bounds": _bounds(groups, n_words)}  # fmt: skip


def _bounds(groups: Mapping[str, Groups], n_words: int) -> dict[str, dict[str, float]]:
    """Return for every order and J the perplexity over the first J proposals; "all" is over all of them."""
    return {
        name: {str(count or "all"): bound(order, count, n_words) for count in (*COUNTS, None)}
        for name, order in groups.items()
    }


def bound(groups: Groups, count: int | None, n_words: int) -> float:
    """Return the perplexity over the first proposals: infinite if all those of a sentence have probability 0."""
    return perplexity([sentence_logp(list(group[:count])) for group in groups], n_words)


def _orders(
    ops: ModuleType, options: argparse.Namespace, sentences: Sequence[list[str]]
) -> dict[str, list[list[Tree]]]:
    """Return the trees of every sentence in several orders."""
    orders: dict[str, list[list[Tree]]] = {"best first": [], "best first, spoilt": [], "at random": []}
    for number, sentence in enumerate(sentences):
        trees = parses(AMBIGUOUS, sentence)
        logps = np.array([AMBIGUOUS.tree_logp(tree) for tree in trees])
        noise = np.random.Generator(np.random.Philox(number)).gumbel(size=len(trees))
        for name, keys in zip(orders, (logps, logps + NOISE * noise, noise), strict=True):
            orders[name].append([trees[k] for k in np.argsort(-keys, kind="stable")])
    if options.parser_steps:
        proposals = propose(ops, open_model(ops, _parser(options)), sentences, max(COUNTS))
        orders["by the parser"] = [[tree for tree, _ in group] for group in proposals]
    return orders


def _parser(options: argparse.Namespace) -> Path:
    """Train a parser on the training trees, or resume its training, and return its run."""
    options.out.mkdir(parents=True, exist_ok=True)
    files: list[str | Path] = []
    for seed, (option, size) in enumerate({"data": options.sentences, "validation": 200}.items(), 1):
        path = options.out / f"{option}.trees"
        write_text(path, "".join(f"{tree}\n" for tree in AMBIGUOUS.sample(size, seed)))
        files += [f"--{option}", path]
    sizes = ("--set", "d_model=64", "--set", "d_span=64", "--set", "d_ff=128", "--set", f"warmup_steps={WARMUP}")
    run = ("--out", options.out / "parser", "--resume", "--backend", options.backend)
    run += ("--steps", max(options.parser_steps, WARMUP + 1))
    grove("train", "--task", "span_parser", *files, "--keep-tags", "--vocabulary", "words", *sizes, *run)
    return Path(options.out / "parser")


def table_of(figures: Mapping[str, Findings]) -> str:
    """Return for every order a row of bounds, the exact perplexity last."""
    rows = []
    for under, row in figures.items():
        for order, bounds in row["bounds"].items():
            cells = [f"{value:.4f}" if value < inf else "∞" for value in bounds.values()]
            rows.append([UNDER[under], order, *cells, f"{row['exact']:.4f}"])
    heads = [f"J = {count}" for count in COUNTS]
    return table(["perplexity under", "proposals", *heads, "all proposals", "exact"], rows, n_names=2)


def picture_of(figures: Mapping[str, Findings]) -> Picture:
    """Return a panel for each model: logarithms of the bounds that are finite, against the number of proposals."""
    panels = []
    for under, row in figures.items():
        series = {}
        for order, bounds in row["bounds"].items():
            finite = [count for count in COUNTS if bounds[str(count)] < inf]
            series[order] = Series([(log(count), log10(bounds[str(count)])) for count in finite])
        series["exact"] = Series([(log(count), log10(row["exact"])) for count in (COUNTS[0], COUNTS[-1])])
        names = {log(count): str(count) for count in COUNTS}
        panels.append(Panel(f"proposals J: {UNDER[under].split(',')[0]}", "log10 of the perplexity", series, names))
    return draw_panels(panels, "The bound on perplexity falls to the exact value")


if __name__ == "__main__":
    run_program(main)
