"""Train the three models of Transformer Grammars and a parser on a treebank, and measure the paper's Table 1.

    python -m examples.measure --data treebanks/craft --out runs/craft --suites SUITES

The folder of data holds train.trees, valid.trees and test.trees, as `examples.transformer_grammars.free_treebanks`
writes them. The parser proposes trees for every test sentence, the same for all models. They give the bound on the
perplexity, and the most probable one is compared with the gold tree. Interrupted runs resume at their last checkpoint;
complete runs are kept. `examples.results` writes the tables.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from random import Random
from time import perf_counter
from types import ModuleType

import accel
from accel.commands.opened import progress
from accel.data.corpora.constituents import constituents
from accel.data.corpora.proposals import Proposals, read_proposals
from accel.data.corpora.treebank import read_treebank
from accel.data.files.brackets import without_preterminals
from accel.evaluation.bound_and_rerank import bracket_score, proposal_logps
from accel.evaluation.evalb import COLLINS
from accel.evaluation.significance import interval_of_means
from accel.evaluation.syntaxgym import LEFT_OUT, circuit_of
from accel.models.transformer_grammars import model as transformer_grammar
from accel.parsing.propose import closest
from accel.scoring.trees import of_words
from accel.trained.opening import Model, open_model
from accel.training.checkpoint import read_state
from accel.training.directory import write_text
from accel.training.run import METRICS
from examples.fasttrees.commands import grove
from examples.provenance import commit, digests, machine
from examples.results import MODELS, RESULT, Result
from refimpl.transformer_grammars.marginal import perplexity, sentence_logp
from refimpl.trees import Tree, words

SETTINGS = (
    *("d_model=128", "d_ff=512", "n_layers=6", "n_heads=4", "segment_length=128", "memory_length=128"),
    *("embedding_dropout=0.1", "core_dropout=0.1", "output_dropout=0.1"),
    *("maximum_rate=0.0015", "final_rate=0.000015"),
    *("validate_every=500", "checkpoint_every=500", "keep_checkpoints=20"),
)
VOCABULARY = ("--vocabulary", "sentencepiece", "--vocabulary-size", 4000)
PARSER = (
    *("--batch-size", 250, "--vocabulary-size", 8000, "--set", "maximum_rate=0.0015", "--set", "warmup_steps=200"),
    *("--set", "dropout=0.1", "--set", "validate_every=1000", "--set", "checkpoint_every=1000"),
)
SPLITS = ("train", "valid", "test")
TEST, PROPOSALS, ITEMS = "test.trees", "proposals.trees", "items.json"
TRAINED_AT, HOURS = "commit.txt", "hours.json"


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    names = [f"{model}-{options.seed}" for model in options.models]
    settings = (*SETTINGS, f"warmup_steps={min(300, options.steps // 2)}")
    set_options = [word for setting in settings for word in ("--set", setting)]
    for model, name in zip(options.models, names, strict=True):
        sizes = ("--batch-size", 16, "--steps", options.steps, "--seed", options.seed)
        _train(options, name, "--model", model, "--cache", options.out / "cache", *VOCABULARY, *sizes, *set_options)
    if options.parser is None:
        options.parser = options.out / "parser"
        _train(options, "parser", "--task", "span_parser", "--epochs", options.epochs, *PARSER)
    gold, skipped = _test_trees(options)
    _propose(options)
    ops = accel.load(options.backend)
    for name in names:
        directory = options.out / name
        if not (directory / RESULT).exists():
            model = open_model(ops, directory)
            result = _described(options, model, directory)
            scores, result["hours"]["scores"] = _judged(ops, model, options, gold, skipped)
            result |= scores
            if options.suites:
                result["syntaxgym"], result["hours"]["syntaxgym"] = _syntaxgym(options, model, directory)
            write_text(directory / RESULT, json.dumps(result) + "\n")


def _train(options: argparse.Namespace, name: str, *extra: object) -> None:
    """Train a model, or resume its training."""
    directory = options.out / name
    if not (directory / TRAINED_AT).exists():
        files = ("--data", options.data / "train.trees", "--validation", options.data / "valid.trees")
        grove("train", *files, "--out", directory, "--resume", *extra)
        write_text(directory / TRAINED_AT, commit() + "\n")


def _test_trees(options: argparse.Namespace) -> tuple[list[Tree], int]:
    """Write the trees to evaluate on, and return them and the number of drawn trees that are too long."""
    trees = list(read_treebank(options.data / "test.trees"))
    if options.sentences is not None and options.sentences < len(trees):
        trees = [trees[i] for i in sorted(Random(0).sample(range(len(trees)), options.sentences))]
    short = [tree for tree in trees if len(words(tree)) <= options.max_words]
    write_text(options.out / TEST, "".join(f"{tree}\n" for tree in short))
    return short, len(trees) - len(short)


def _propose(options: argparse.Namespace) -> None:
    """Write the proposals for the test sentences, and the hours it takes."""
    path = options.out / PROPOSALS
    if not path.exists():
        start = perf_counter()
        arguments = ("--trees", options.out / TEST, "--number", options.number, "--out", path)
        grove("propose", "--checkpoint", options.parser, *arguments)
        write_text(options.out / HOURS, json.dumps({"proposals": (perf_counter() - start) / 3600}))


def _described(options: argparse.Namespace, model: Model, directory: Path) -> Result:
    """Return the provenance of a model's results."""
    training = read_state(model.path)["training"]
    shapes = transformer_grammar.parameter_shapes(model.config).values()
    hours = {"training": _training_hours(directory), "parser": _training_hours(options.parser)}
    return {
        "experiment": options.data.name,
        "model": model.config.model,
        "seed": training["seed"],
        "commit": {"trained": (directory / TRAINED_AT).read_text(encoding="utf-8").strip(), "measured": commit()},
        "data": digests(options.data / f"{split}.trees" for split in SPLITS),
        "machine": machine(),
        "hours": hours | json.loads((options.out / HOURS).read_text(encoding="utf-8")),
        "settings": {
            "steps": training["steps"],
            "parameters": sum(map(prod, shapes)),
            "layers": model.config.n_layers,
            "d_model": model.config.d_model,
        },
    }


def _training_hours(directory: Path) -> float:
    with open(directory / METRICS, encoding="utf-8") as lines:
        return sum(json.loads(line)["seconds"] for line in lines) / 3600


def _judged(
    ops: ModuleType, model: Model, options: argparse.Namespace, gold: list[Tree], skipped: int
) -> tuple[Result, float]:
    """Return the perplexity and, for a model of trees, F1 on the test sentences, and the hours it takes.

    Every sentence has a row: its words, log p, and its brackets that match, of the gold tree and of the chosen tree.
    """
    path, start = options.out / PROPOSALS, perf_counter()
    proposals = read_proposals(path, replace(model.reading, drop_preterminals=False))
    exact = of_words(model)
    groups = [group[:1] for group in proposals] if exact else proposals
    ranked = proposal_logps(ops, [model], path, groups, progress=progress)
    logps = [sentence_logp(group_logps) for group_logps in ranked]
    counts = [len(words(tree)) for tree in gold]
    result: Result = {
        "perplexity": {
            "value": perplexity(logps, sum(counts)),
            "is_bound": not exact,
            "sentences": len(gold),
            "words": sum(counts),
            "skipped": skipped,
            "proposals": sum(map(len, groups)) / len(groups),
        },
        "rows": [[n, round(logp, 4)] for n, logp in zip(counts, logps, strict=True)],
    }
    if not exact:
        chosen = [
            group[group_logps.index(max(group_logps))].tree
            for group, group_logps in zip(proposals, ranked, strict=True)
        ]
        score = bracket_score(chosen, gold, COLLINS)
        for row, line in zip(result["rows"], score.per_sentence, strict=True):
            row += [line.matched, line.gold, line.predicted]
        result["rerank"] = {"f1": score.f1} | _limits(proposals, gold)
    return result, (perf_counter() - start) / 3600


def _limits(proposals: Proposals, gold: list[Tree]) -> Result:
    """Return F1 of the parser's best trees and of the proposals nearest to gold, and the share of sentences whose
    gold tree is among the proposals."""
    bare = [constituents(without_preterminals(tree)) for tree in gold]
    parsed = [[(constituents(sentence.tree), 0.0) for sentence in group] for group in proposals]
    nearest = [group[closest(found, tree)].tree for group, found, tree in zip(proposals, parsed, bare, strict=True)]
    best = [group[0].tree for group in proposals]
    found = {"parser_f1": best, "oracle_f1": nearest}
    scores = {name: bracket_score(trees, gold, COLLINS).f1 for name, trees in found.items()}
    n_with_gold = sum(
        constituents(tree) == gold_constituents for tree, gold_constituents in zip(nearest, bare, strict=True)
    )
    return scores | {"gold_among": n_with_gold / len(gold)}


def _syntaxgym(options: argparse.Namespace, model: Model, directory: Path) -> tuple[Result, float]:
    """Return the mean accuracy over the paper's suites with its interval, the circuits, and the hours it takes."""
    start = perf_counter()
    parser = () if of_words(model) else ("--parser", options.parser)
    grove("syntaxgym", "--checkpoint", directory, *options.suites, *parser, "--out", directory / ITEMS)
    content = json.loads((directory / ITEMS).read_text(encoding="utf-8"))
    suites = {name: suite["items"] for name, suite in content["suites"].items() if name not in LEFT_OUT}
    judged = {name: [float(x["correct"]) for x in items if "skipped" not in x] for name, items in suites.items()}
    mean, low, high = interval_of_means([items for items in judged.values() if items])
    result = {
        "mean": mean,
        "interval": [low, high],
        "circuits": content["means"]["as in the paper"]["circuits"],
        "circuit_intervals": circuit_intervals(judged),
        "items": sum(map(len, judged.values())),
        "skipped": sum(map(len, suites.values())) - sum(map(len, judged.values())),
    }
    return result, (perf_counter() - start) / 3600


def circuit_intervals(judged: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """Return the bootstrapped 95 % interval over items of every circuit's mean; `judged` has 0 or 1 for each item."""
    of_circuit: dict[str, list[Sequence[float]]] = {}
    for suite, items in judged.items():
        circuit = circuit_of(suite)
        if circuit is not None and len(items) > 1:
            of_circuit.setdefault(circuit, []).append(items)
    return {circuit: list(interval_of_means(groups)[1:]) for circuit, groups in of_circuit.items()}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with train.trees, valid.trees, test.trees")
    parser.add_argument("--out", type=Path, required=True, help="a directory for the runs and their results")
    parser.add_argument(
        "--suites", type=Path, nargs="+", help="SyntaxGym's suites: .json files, or a folder or archive"
    )
    parser.add_argument("--models", nargs="+", choices=tuple(MODELS), default=tuple(MODELS), help="which (all)")
    parser.add_argument("--steps", type=int, default=3000, help="of every model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--number", type=int, default=300, metavar="J", help="proposals of a sentence")
    parser.add_argument("--sentences", type=int, metavar="N", help="draw N test sentences at random (default: all)")
    parser.add_argument("--max-words", type=int, default=100, help="longer test sentences are left out, and counted")
    parser.add_argument("--parser", type=Path, metavar="RUN", help="a trained parser (default: train one)")
    parser.add_argument("--epochs", type=int, default=3, help="of the parser that is trained")
    parser.add_argument("--backend", choices=accel.BACKENDS, default="cpu")
    return parser


if __name__ == "__main__":
    main()
