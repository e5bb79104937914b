"""Functions that the analyses share: their options, models that are trained once, and what is measured of a model.

By default the sentences are generated English, whose lowest perplexity is known; with --data they are real trees.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from types import ModuleType
from typing import Any

import accel
from accel.data.published.syntax_suites import read_suite, suite_files
from accel.evaluation.syntaxgym import LEFT_OUT, accuracy, means, suite_outcomes
from accel.scoring.trees import tree_logps
from accel.tasks.numbers import at_least
from accel.trained.ensembles import of_words
from accel.trained.opening import Model, open_model
from accel.training.settings import TrainingConfig
from examples.findings import Findings, kept
from examples.provenance import digests
from examples.transformer_grammars.sentences import Data, judge
from examples.transformer_grammars.train import config_of, train_grammar


def parser_of(
    program: str, description: str | None, *, suites: bool = False, **defaults: Any
) -> argparse.ArgumentParser:
    """Return a parser with the options of all analyses, those of suites if asked for, and the defaults of a program."""
    parser = argparse.ArgumentParser(
        prog=f"python -m examples.transformer_grammars.{program}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=Path("runs") / program, help="a folder for runs and results")
    parser.add_argument("--data", type=Path, nargs="+", help="real trees: a directory with train.*, valid.*, test.*")
    parser.add_argument("--keep-tags", action="store_true", help="keep the tags of real trees")
    parser.add_argument("--vocabulary-size", type=at_least(1), default=4000, help="words known in real trees")
    help_text = "proposals for the real test sentences: one tree per line, a blank line after each sentence"
    parser.add_argument("--proposals", type=Path, help=help_text)
    if suites:
        help_text = "SyntaxGym's suites: files, folders, archives"
        parser.add_argument("--suites", type=Path, nargs="+", default=[], help=help_text)
        parser.add_argument(
            "--beam", type=at_least(1), help="parses kept for a sentence of the suites (default: the model's)"
        )
        help_text = "a span parser; for the suites its proposals replace the search"
        parser.add_argument("--parser", type=Path, help=help_text)
    numbers = {
        "sentences": (20_000, "generated sentences to train on"),
        "test": (200, "test sentences; 0: all real ones"),
        "changed": (10, "proposals for a generated sentence"),
        "pairs": (100, "minimal pairs of each held-out construction; 0: none"),
        "steps": (300, "training steps of every model"),
        "batch-size": (32, "trees read side by side in training"),
        "d-model": (64, None), "layers": (3, None), "heads": (4, None),
        "length": (64, "positions of a segment and of the memory"),
        "seeds": (3, "models of every kind"),
    }  # fmt: skip
    for name, (value, help_text) in numbers.items():
        least = 0 if name in ("test", "changed", "pairs") else 1
        parser.add_argument(f"--{name}", type=at_least(least), default=value, help=help_text)
    for name, value in {"rate": 3e-3, "dropout": 0.0}.items():
        parser.add_argument(f"--{name}", type=float, default=value)
    parser.add_argument("--backend", choices=accel.BACKENDS, default="cpu")
    parser.set_defaults(**defaults)
    return parser


def measure(ops: ModuleType, model: Model, data: Data, options: argparse.Namespace) -> dict[str, float]:
    """Return perplexity, agreement and, with --suites, the mean of the suites' accuracies."""
    judge_of_model = judge(data, of_words(model))
    figures = judge_of_model.found(list(tree_logps(ops, [model], judge_of_model.corpus, groups=judge_of_model.sizes)))
    return figures | (suite_score(ops, model, options) if options.suites else {})


def suite_score(ops: ModuleType, model: Model, options: argparse.Namespace, **ensemble: Any) -> dict[str, float]:
    """Return the mean over the paper's suites, and the number of skipped items; `ensemble` adds other models."""
    suites = [read_suite(path) for source in options.suites for path in suite_files(source)]
    search: dict[str, Any] = dict(ensemble)
    if options.parser is not None and not of_words(model):
        search["parser"] = open_model(ops, options.parser)
    elif options.beam is not None and not of_words(model):
        search["beam"] = options.beam
    outcomes = suite_outcomes(ops, model, suites, **search)
    score = means({suite: accuracy(items) for suite, items in outcomes.items()}, LEFT_OUT).over_suites
    if score is None:
        raise ValueError(f"{model.path}: no item of the suites can be read")
    return {"SG": score, "skipped": sum(bool(outcome.skipped) for items in outcomes.values() for outcome in items)}


def trained(
    ops: ModuleType, options: argparse.Namespace, data: Data, name: str, seed: int, keep: int = 0, **config: Any
) -> Path:
    """Train a model, or resume its training, and return its directory; `config` has its special settings."""
    directory: Path = options.out / f"{name}-{seed}"
    period = max(1, options.steps // 10)
    settings = config_of(options, len(data.vocabulary), **config)
    training = TrainingConfig(
        batch_size=options.batch_size, steps=options.steps, warmup_steps=options.steps // 10, seed=seed,
        maximum_rate=options.rate, final_rate=options.rate / 100, validate_every=period, checkpoint_every=period,
        keep_checkpoints=keep,
    )  # fmt: skip
    print(directory, flush=True)
    corpora = (data.train, data.valid)
    train_grammar(ops, settings, training, data.vocabulary, data.reading, corpora, directory, progress=False)
    return directory


def measured(ops: ModuleType, options: argparse.Namespace, data: Data, path: Path, result: Path) -> Findings:
    """Return the figures of `measure` for a run or a checkpoint; they are measured once and stored in `result`."""
    model = open_model(ops, path)
    question = {"checkpoint": digests([model.path]), "of": data.sources, "pairs": options.pairs, "beam": options.beam}
    question |= {"suites": [str(path) for path in options.suites], "parser": str(options.parser)}
    question |= {"test": options.test, "changed": options.changed}
    return kept(result, question, lambda: measure(ops, model, data, options))
