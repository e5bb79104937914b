"""Terminals that Transformer Grammars predict better or worse than TXL (CC): the paper's two regressions (section 3.8).

    python -m examples.transformer_grammars.regressions                      # generated documents
    python -m examples.transformer_grammars.regressions --tg RUN ... --txl-cc RUN ... --train TREES --trees TREES

The response is the difference of a terminal's log-probabilities, given all actions before it. One regression is on the
frequency of the terminal in the training trees, the other on its earlier occurrence: in the current sentence, only in
previous sentences of the document, or nowhere. A third one is ours: whether a Transformer Grammar still sees the
earlier terminal on its stack, or only in the composed vectors of closed constituents. Every case has an indicator, so
that a coefficient is the mean difference of its case. Several runs of a kind are a mixture; the mean of each of them is
stored, too, for intervals over seeds. Trees with labels that the runs have not seen are left out. Generated documents
repeat few nouns.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from types import ModuleType

import numpy as np

import accel
from accel.data.corpora.sequences import read_whole
from accel.data.corpora.treebank import DOCUMENT, Corpus, Reading, encode_trees, load_corpus
from accel.data.generated.grammar import ENGLISH, tree_over
from accel.data.vocabularies.building import build
from accel.data.vocabularies.vocabulary import Vocabulary
from accel.drawing.svg import Picture
from accel.evaluation.significance import Regression, least_squares
from accel.scoring.trees import event_logps
from accel.trained.ensembles import check_ensemble
from accel.trained.opening import Model, open_model
from accel.training.checkpoint import read_state
from examples.findings import Findings, digest_of, hours, write_analysis
from examples.markdown import normal, table
from examples.panels import Panel, Series, draw_panels
from examples.program import run_program
from examples.provenance import digests
from examples.transformer_grammars.analyses import parser_of, trained
from examples.transformer_grammars.sentences import Data, generated_test
from refimpl.transformer_grammars.marginal import mixture_logp
from refimpl.trees import ActionType, Tree, spans, words

FREQUENCIES = ("HighFreq", "MediumFreq", "LowFreq")
CONTEXTS = ("InContextPrevSentences", "InContextCurSentence", "NotInContext")
PLACES = ("OnStack", "OnlyComposed", "NotInContext")
REGRESSIONS = ("frequency", "copying", "stack")
PAPER = (1e-3, 1e-5)
GENERATED = (2e-2, 5e-3)  # higher than the paper's: 90 words, not 32,000 pieces
SENTENCES, NOUNS = 4, 2  # of a generated document


def main(arguments: Sequence[str] | None = None) -> Findings:
    """Return all regressions, and the number of terminals in each case."""
    parser = parser_of("regressions", __doc__, sentences=12_000, test=300, batch_size=24, seeds=1)
    parser.add_argument("--tg", type=Path, nargs="+", default=[], help="runs of Transformer Grammars")
    parser.add_argument("--txl-cc", type=Path, nargs="+", default=[], help="runs of TXL (CC)")
    parser.add_argument("--train", type=Path, help="the trees that the runs were trained on, for the frequencies")
    parser.add_argument("--trees", type=Path, help="the trees to predict")
    help_text = f"least relative frequencies (given trees: {PAPER}, generated ones: {GENERATED})"
    parser.add_argument("--frequencies", type=float, nargs=2, metavar=("HIGH", "MEDIUM"), help=help_text)
    options = parser.parse_args(arguments)
    ops = accel.load(options.backend)
    paths = (options.tg, options.txl_cc, options.train, options.trees)
    if any(paths) and not all(paths):
        raise SystemExit("--tg, --txl-cc, --train, --trees: give all of them or none")
    if options.data or options.proposals:
        raise SystemExit("--data, --proposals: real trees are given by --train and --trees: leave them out")
    thresholds = options.frequencies or (PAPER if any(paths) else GENERATED)
    if thresholds[0] < thresholds[1]:
        raise SystemExit("--frequencies: HIGH is below MEDIUM: give the greater one first")
    models, train_corpus, corpus, sources, n_hours = (_given if any(paths) else _generated)(ops, options)
    figures = regressions(ops, *models, train_corpus, corpus, thresholds)
    seeds = sorted({read_state(model.path)["training"]["seed"] for of_kind in models for model in of_kind})
    write_analysis(options, "regressions", table_of(figures), figures, picture_of(figures), sources, n_hours, seeds)
    return figures


Material = tuple[tuple[list[Model], list[Model]], Corpus, Corpus, dict[str, str], float]


def _given(ops: ModuleType, options: argparse.Namespace) -> Material:
    models = [open_model(ops, path) for path in options.tg], [open_model(ops, path) for path in options.txl_cc]
    first = models[0][0]
    for kind, models_of_kind in zip(("tg", "txl_cc"), models, strict=True):
        for model in models_of_kind:
            if model.config.model != kind or model.reading != first.reading:
                raise SystemExit(f"{model.path}: no {kind} that reads trees as {first.path} does")
    check_ensemble([*models[0], *models[1]])
    train_corpus = load_corpus(options.train, first.vocabulary, options.out / "cache", first.reading)
    trees = [sentence.tree for sentence in read_whole(options.trees, first.reading)][: options.test or None]
    known_trees = first.vocabulary.with_known_labels(trees)
    if n_left_out := len(trees) - len(known_trees):
        print(f"left out {n_left_out:,} of {len(trees):,} trees: the runs have not seen their labels")
    runs = {model.path.parent for models_of_kind in models for model in models_of_kind}
    sources = digests([options.train, options.trees])
    return models, train_corpus, encode_trees(known_trees, first.vocabulary), sources, hours(runs)


def _generated(ops: ModuleType, options: argparse.Namespace) -> Material:
    sizes = (("train", options.sentences // SENTENCES), ("valid", 60), ("test", generated_test(options)))
    parts = {name: documents(size, seed) for seed, (name, size) in enumerate(sizes, 1)}
    vocabulary = build(chain.from_iterable(parts.values()))
    corpora = {name: encode_trees(part, vocabulary) for name, part in parts.items()}
    sources = {f"generated documents, {name}": digest_of(map(str, part)) for name, part in parts.items()}
    reading = Reading(documents="blank")
    data = Data("generated documents", reading, vocabulary, corpora["train"], corpora["valid"], [], [], sources)
    runs = {kind: [trained(ops, options, data, kind, seed, model=kind) for seed in range(options.seeds)]
            for kind in ("tg", "txl_cc")}  # fmt: skip
    models = [open_model(ops, path) for path in runs["tg"]], [open_model(ops, path) for path in runs["txl_cc"]]
    n_hours = hours(path for paths in runs.values() for path in paths)
    return models, corpora["train"], corpora["test"], sources, n_hours


def documents(count: int, seed: int) -> list[Tree]:
    """Return documents of generated sentences; the nouns of a document come from a few lemmas, drawn for it."""
    rng = np.random.Generator(np.random.Philox([seed, 1]))
    names = {number: [word for _, word in ENGLISH.lexicon[f"noun.{number}"]] for number in ("sg", "pl")}
    place = {word: (number, k) for number, nouns in names.items() for k, word in enumerate(nouns)}
    sentences = ENGLISH.sample(count * SENTENCES, seed)
    document_trees = []
    for _ in range(count):
        lemmas = rng.choice(len(names["sg"]), NOUNS, replace=False)
        trees = []
        for tree in (next(sentences) for _ in range(SENTENCES)):
            new_words = [names[place[word][0]][rng.choice(lemmas)] if word in place else word for word in words(tree)]
            trees.append(tree_over(spans(tree), new_words))
        document_trees.append(Tree(DOCUMENT, tuple(trees)))
    return document_trees


def regressions(
    ops: ModuleType,
    tgs: Sequence[Model],
    txls: Sequence[Model],
    train_corpus: Corpus,
    corpus: Corpus,
    thresholds: Sequence[float],
) -> Findings:
    """Return the regressions of the difference on the indicators of cases; cases that do not occur are left out."""
    vocabulary = tgs[0].vocabulary
    logps = {kind: terminal_logps(ops, models, corpus) for kind, models in (("tg", tgs), ("txl_cc", txls))}
    contexts, places = (
        np.concatenate([case_of(corpus[number], vocabulary) for number in range(len(corpus))])
        for case_of in (context_of, place_of)
    )
    frequency = frequency_of(terminals(train_corpus, vocabulary), len(vocabulary), thresholds)
    cases = dict(zip(REGRESSIONS, (
        (FREQUENCIES, frequency[terminals(corpus, vocabulary)]), (CONTEXTS, contexts), (PLACES, places),
    ), strict=True))  # fmt: skip
    y = mixture_logp(logps["tg"]) - mixture_logp(logps["txl_cc"])
    figures: Findings = {
        "thresholds": list(thresholds),
        "zipf": zipf(terminals(train_corpus, vocabulary)),
        "mean": y.mean(),
    }
    return figures | {name: _regressed(names, case, y, logps) for name, (names, case) in cases.items()}


def terminal_logps(ops: ModuleType, models: Sequence[Model], corpus: Corpus) -> np.ndarray:
    """Return log p of every terminal by each model, given all actions before it: [models, terminals] float64, nats."""
    terminal = models[0].vocabulary.type_of[corpus.actions] == ActionType.T
    return np.array([np.concatenate([*event_logps(ops, [model], corpus)])[terminal] for model in models])


def _regressed(names: Sequence[str], case: np.ndarray, y: np.ndarray, logps: dict[str, np.ndarray]) -> Findings:
    columns, kept_names = design(names, case)
    regression: Regression = least_squares(kept_names, columns, y)
    return {
        "rows": regression.rows,
        "adjusted_r2": regression.adjusted_r2,
        "absent": [name for name in names if name not in kept_names],
        "coefficients": {
            name: one._asdict() | {"terminals": int(columns[:, k].sum())}
            for k, (name, one) in enumerate(regression.coefficients.items())
        },
        "means": {
            kind: {name: of_models[:, columns[:, k] > 0].mean(axis=1).tolist() for k, name in enumerate(kept_names)}
            for kind, of_models in logps.items()
        },
    }


def design(names: Sequence[str], case: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Return the indicators [n, k] of the cases that occur, and their names; `case` has the case of each row."""
    cases = [k for k in range(len(names)) if (case == k).any()]
    return (case[:, None] == np.array(cases)).astype(np.float64), [names[k] for k in cases]


def terminals(corpus: Corpus, vocabulary: Vocabulary) -> np.ndarray:
    """Return the ids of all terminals in order."""
    return corpus.actions[vocabulary.type_of[corpus.actions] == ActionType.T]


def frequency_of(ids: np.ndarray, size: int, thresholds: Sequence[float]) -> np.ndarray:
    """Return for every id of a vocabulary its frequency among `ids`: high (0), medium (1) or low (2)."""
    share = np.bincount(ids, minlength=size) / len(ids)
    high, medium = thresholds
    return np.where(share >= high, 0, np.where(share >= medium, 1, 2))


def context_of(actions: Iterable[int], vocabulary: Vocabulary) -> np.ndarray:
    """Return for each terminal of a sentence or a document where it occurred before.

    Only in previous sentences (0), in the current one (1), or nowhere (2).
    """
    is_document = f"({DOCUMENT}"
    previous, current, contexts = set[int](), set[int](), list[int]()
    depth, outermost = 0, 0
    for action in actions:
        action_type = vocabulary.type_of[action]
        if action_type == ActionType.ONT:
            depth += 1
            if depth == 1 and vocabulary.symbols[action] == is_document:
                outermost = 1
            elif depth == 1 + outermost:
                previous, current = previous | current, set()
        elif action_type == ActionType.T:
            contexts.append(1 if action in current else 0 if action in previous else 2)
            current.add(int(action))
        else:
            depth -= 1
    return np.array(contexts, np.int64)


def place_of(actions: Iterable[int], vocabulary: Vocabulary) -> np.ndarray:
    """Return for each terminal where it occurred before, on the stack of a Transformer Grammar or not.

    As a child of a constituent that is still open (0), only in closed constituents (1), or nowhere (2).
    """
    open_constituents, history, places = [set[int]()], set[int](), list[int]()
    for action in actions:
        action_type = vocabulary.type_of[action]
        if action_type == ActionType.ONT:
            open_constituents.append(set())
        elif action_type == ActionType.T:
            is_open = any(action in children for children in open_constituents)
            places.append(0 if is_open else 1 if action in history else 2)
            open_constituents[-1].add(action)
            history.add(action)
        else:
            open_constituents.pop()
    return np.array(places, np.int64)


def zipf(ids: np.ndarray) -> float:
    """Return the slope of log frequency over log rank, by least squares over all terminals that occur."""
    counts = np.sort(np.bincount(ids))[::-1]
    counts = counts[counts > 0]
    x = np.log(np.arange(1, len(counts) + 1))
    return float(np.polyfit(x, np.log(counts), 1)[0]) if len(counts) > 1 else 0.0


def table_of(figures: Findings) -> str:
    """Return a row for each coefficient of every regression."""
    rows, lines = [], []
    for name in REGRESSIONS:
        one = figures[name]
        for variable, coefficient in one["coefficients"].items():
            p = "< 0.001" if coefficient["p"] < 1e-3 else f"{coefficient['p']:.3f}"
            cells = (
                f"{coefficient['terminals']:,}",
                f"{coefficient['estimate']:+.4f}",
                f"{coefficient['standard_error']:.4f}",
                p,
            )
            rows.append([name, variable, *cells, f"{one['adjusted_r2']:.4f}"])
        lines += [f"No terminal is {variable}." for variable in one["absent"]]
    high, medium = figures["thresholds"]
    limits = (
        f"High: a share of training terminals of at least {high:g}, medium: {medium:g}. Zipf: {figures['zipf']:.2f}."
    )
    text = table(["regression", "variable", "terminals", "coefficient, nats", "error", "p", "adjusted R²"], rows, 2)
    return "\n".join([text, "", limits, *lines])


def picture_of(figures: Findings) -> Picture:
    """Return a panel for each regression: coefficients with 95 % intervals."""
    panels = []
    for name in REGRESSIONS:
        coefficients = list(figures[name]["coefficients"].items())
        points = [(float(k), one["estimate"]) for k, (_, one) in enumerate(coefficients)]
        intervals = [normal(one["estimate"], one["standard_error"]) for _, one in coefficients]
        bars = [(interval.low, interval.high) for interval in intervals]
        names = {float(k): variable.removeprefix("InContext") for k, (variable, _) in enumerate(coefficients)}
        series = {
            "log p under TG - log p under TXL (CC)": Series(points, y_bars=bars, joined=False),
            "no difference": Series([(0.0, 0.0), (len(coefficients) - 1.0, 0.0)]),
        }
        panels.append(Panel(name, "nats a terminal", series, names))
    return draw_panels(panels, "Where Transformer Grammars predict terminals better or worse")


if __name__ == "__main__":
    run_program(main)
