"""Train the three models on generated English, and compare them with its known entropy: two minutes of one core.

    python -m examples.transformer_grammars.demo

The grammar gives every sentence its exact probability, so that perplexities can be compared with the best possible one.
Complete runs in the directory are kept, interrupted runs resume.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import accel
from accel.data.corpora.treebank import Reading, Sentence, encode_trees
from accel.data.generated.grammar import CONSTRUCTIONS, ENGLISH, minimal_pairs, proposals
from accel.data.vocabularies.building import build
from accel.evaluation.bound_and_rerank import word_perplexity
from accel.models.transformer_grammars import model as transformer_grammar
from accel.scoring.trees import tree_logps
from accel.tasks.numbers import at_least
from accel.tasks.trees import CONFIGURATIONS
from accel.trained.opening import Model, open_model
from accel.training.directory import write_text
from accel.training.settings import TrainingConfig
from examples.commands import print_differences
from examples.program import run_program
from examples.result_files import MODELS
from examples.transformer_grammars.report import write_report
from examples.transformer_grammars.train import train_grammar
from refimpl.transformer_grammars.marginal import perplexity
from refimpl.trees import Tree, words

TRAIN_SEED, VALID_SEED, TEST_SEED = 1, 2, 3


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Train, measure, write the report, and return the figures."""
    options = _parser().parse_args(arguments)
    begin = time.perf_counter()
    ops = accel.load(options.backend)
    train_trees, valid_trees, test_trees = (
        list(ENGLISH.sample(count, seed))
        for count, seed in ((options.sentences, TRAIN_SEED), (300, VALID_SEED), (options.test, TEST_SEED))
    )
    vocabulary = build(train_trees)
    corpus, valid = encode_trees(train_trees, vocabulary), encode_trees(valid_trees, vocabulary)
    figures: dict[str, Any] = {
        "floor": ENGLISH.perplexity,
        "true_validation_loss": -sum(map(ENGLISH.tree_logp, valid_trees)) / _n_words(valid_trees),
        "true_perplexity": perplexity([ENGLISH.tree_logp(tree) for tree in test_trees], _n_words(test_trees)),
        "models": {},
    }
    print(f"{len(corpus):,} generated sentences such as: {' '.join(words(train_trees[0]))}")
    print(f"no model can have a word perplexity below {figures['floor']:.3f}: the entropy of the grammar\n")
    for name, title in MODELS.items():
        print(f"{title}: {options.steps} steps", flush=True)
        directory = options.out / name
        config, training = _configuration(name, options, len(vocabulary))
        train_grammar(ops, config, training, vocabulary, Reading(), (corpus, valid), directory)
        figures["models"][name] = measure(ops, open_model(ops, directory), test_trees, options.proposals, options.pairs)
    figures["seconds"] = round(time.perf_counter() - begin, 1)
    write_text(options.out / "figures.json", json.dumps(figures, indent=1) + "\n")
    report = write_report(ops, options.out, figures, MODELS, valid)
    print(f"\n{report}")
    print_differences(__file__, {name: flat(of_model) for name, of_model in figures["models"].items()})
    print(f"{figures['seconds']:.0f} seconds; open {options.out / 'report.html'}")
    return figures


def _configuration(
    name: str, options: argparse.Namespace, vocabulary_size: int
) -> tuple[transformer_grammar.Config, TrainingConfig]:
    config, training = CONFIGURATIONS["demo"][name]
    steps, interval = options.steps, max(1, options.steps // 20)
    training = replace(training, steps=steps, warmup_steps=steps // 10, seed=options.seed)
    training = replace(training, validate_every=interval, checkpoint_every=interval)
    return replace(config, vocabulary_size=vocabulary_size), training


def measure(ops: ModuleType, model: Model, test: Sequence[Tree], n_proposals: int, n_pairs: int) -> dict[str, Any]:
    """Return the word perplexity, and for each construction how often the right verb is the more probable one."""
    groups = [
        [Sentence(proposal, 0, number) for proposal in proposals(tree, n_proposals, seed=number)]
        for number, tree in enumerate(test)
    ]
    result = word_perplexity(ops, [model], "generated sentences", groups)
    return {
        "perplexity": result.perplexity,
        "is_bound": result.is_bound,
        "parameters": sum(value.size for value in model.parameters.values()),
        "agreement": {name: agreement(ops, model, name, n_pairs) for name in CONSTRUCTIONS},
    }


def agreement(ops: ModuleType, model: Model, construction: str, n_pairs: int) -> float:
    """Return the share of pairs whose right sentence, with its tree for a model of trees, is the more probable one.

    Chance is 0.5.
    """
    pairs = minimal_pairs(construction, n_pairs, seed=TEST_SEED)
    trees = [tree for pair in pairs for tree in (pair.tree, pair.wrong_tree)]
    logps = list(tree_logps(ops, [model], encode_trees(trees, model.vocabulary)))
    return sum(right > wrong for right, wrong in zip(logps[::2], logps[1::2], strict=True)) / n_pairs


def flat(figures: Mapping[str, Any]) -> dict[str, float]:
    """Return the perplexity of a model, and its agreement for each construction, by names as in `expected.json`."""
    agreements = {f"agreement, {case}": value for case, value in figures["agreement"].items()}
    return {"perplexity": figures["perplexity"]} | agreements


def _n_words(trees: Sequence[Tree]) -> int:
    return sum(len(words(tree)) for tree in trees)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m examples.transformer_grammars.demo",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=Path("runs/demo"))
    parser.add_argument("--seed", type=at_least(0), default=0, help="of the models; the sentences are always the same")
    parser.add_argument("--steps", type=at_least(1), default=1000)
    parser.add_argument("--sentences", type=at_least(1), default=30_000, help="to train on")
    parser.add_argument("--test", type=at_least(1), default=400, help="sentences to measure the perplexity on")
    parser.add_argument(
        "--proposals", type=at_least(1), default=10, help="trees a sentence for the bound on the perplexity"
    )
    parser.add_argument("--pairs", type=at_least(1), default=200, help="minimal pairs a construction")
    parser.add_argument("--backend", choices=accel.BACKENDS, default="cpu")
    return parser


if __name__ == "__main__":
    run_program(main)
