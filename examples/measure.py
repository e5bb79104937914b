"""Train the models of Transformer Grammars and a parser on a treebank, and measure the paper's Tables 1 and 2.

    python -m examples.measure --data treebanks/craft --out runs/craft --suites SUITES --seeds 3
    python -m examples.measure --data treebanks/craft_documents --out runs/craft_documents --documents --sentences 40
    python -m examples.measure --data treebanks/craft --out runs/craft --variants distinct,shift,linear --split valid

The folder of data holds train.trees, valid.trees and test.trees, as `examples.transformer_grammars.free_treebanks`
writes them. A parser proposes trees for every sentence. The models of trees of a seed add the trees that their own
searches find, and all models of the seed score the same trees. These trees give the bound on the perplexity, and the
most probable one is compared with the gold tree. Trees that the parser draws give an estimate of the perplexity. With
--documents a model reads each sentence after its most probable trees of the sentences before, and only the parser
proposes. Interrupted runs resume at their last checkpoint; complete runs and results are kept, and --suites are added
to them. All models of a seed are measured before the next seed is trained. `examples.results` writes the tables.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from math import prod
from pathlib import Path
from time import perf_counter
from types import ModuleType

import accel
from accel.models.transformer_grammars import model as transformer_grammar
from accel.tasks.numbers import at_least
from accel.trained.ensembles import of_words
from accel.trained.opening import Model, checkpoint_of, open_model
from accel.training.checkpoint import read_state
from accel.training.directory import write_text
from accel.training.metrics import read_metrics
from accel.training.run import METRICS
from examples.candidates import Candidates, draw, propose, search, unite, writing_hours
from examples.commands import grove, set_options
from examples.findings import hours
from examples.program import run_program
from examples.provenance import TRAINED_AT, commit, digests, machine
from examples.refusals import options_of_runs, require_same_options, require_same_settings, suites_of
from examples.result_files import MODELS, Result, result_name
from examples.sample import Sample, read_sample
from examples.scores import judged, search_scores, syntaxgym

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
VARIANTS = {
    "distinct": ("--distinct-attention",),
    "shift": ("--memory", "shift"),
    "linear": ("--memory", "shift", "--positions", "linear"),
}
SPLITS = ("train", "valid", "test")
STEPS = 3000


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    models = [*options.models, *(f"tg_{name}" for name in options.variants)]
    reading = {"documents": options.documents, "count": options.sentences, "max_words": options.max_words}
    sample = read_sample(options.data / f"{options.split}.trees", **reading)
    options.out.mkdir(parents=True, exist_ok=True)
    _write_sentences(options, sample, models)
    ops = accel.load(options.backend)
    for seed in range(options.seed, options.seed + options.seeds):
        for model in models:
            _train_grammar(options, model, seed)
        candidates = _candidates(ops, options, sample, [f"{model}-{seed}" for model in models])
        for model in models:
            _measure(ops, options, sample, candidates, f"{model}-{seed}")


def _write_sentences(options: argparse.Namespace, sample: Sample, models: Sequence[str]) -> None:
    """Write the sentences and the options of their trees; raise ValueError unless they are those of stored trees."""
    parsed, settings = _of_split(options, "proposals.trees"), _of_split(options, "trees.json")
    text = "".join(f"{tree}\n" for tree in sample.gold)
    if parsed.exists() and _sentences(options).read_text(encoding="utf-8") != text:
        raise ValueError(f"{parsed}: has trees of other sentences than this run's: give another --out")
    request: Result = {name: getattr(options, name) for name in ("number", "draws", "beam")}
    if options.beam and sample.documents is None:
        request["models"] = models  # their searches add trees
    if options.parser is not None:
        [digest] = digests([checkpoint_of(options.parser)]).values()
        request["parser"] = f"one of SHA-256 {digest}"
    stored_options: Result = json.loads(settings.read_text(encoding="utf-8")) if settings.exists() else {}
    of_runs: Result = {"suites": suites_of(options.suites)} if options.suites else {}
    if options.parser is None:
        of_runs["epochs"] = options.epochs
    before = stored_options | options_of_runs(options.out, result_name(options.split))
    require_same_options(options.out, before, request | of_runs)
    write_text(_sentences(options), text)
    write_text(settings, json.dumps(stored_options | request) + "\n")


def _train_grammar(options: argparse.Namespace, model: str, seed: int) -> None:
    """Train a model of trees or of words, or one of the paper's variants of a Transformer Grammar."""
    network, _, variant = (model, "", "") if model in MODELS else model.partition("_")
    steps = options.steps or STEPS
    request = dict(options.settings) | ({"steps": str(steps)} if options.steps else {})
    require_same_settings(options.out / f"{model}-{seed}", request)
    defaults = dict(setting.split("=") for setting in (*SETTINGS, f"warmup_steps={min(300, steps // 2)}"))
    settings = defaults | dict(options.settings)
    kind = ("--model", network, *VARIANTS.get(variant, ()), *(("--documents",) if options.documents else ()))
    sizes = ("--batch-size", 16, "--steps", steps, "--seed", seed)
    set_words = set_options(f"{name}={value}" for name, value in settings.items())
    cache = ("--cache", options.out / "cache")
    _train(options, f"{model}-{seed}", *kind, *cache, *VOCABULARY, *sizes, *set_words)


def _train(options: argparse.Namespace, name: str, *extra: object) -> None:
    """Train a model, or resume its training."""
    directory = options.out / name
    if not (directory / TRAINED_AT).exists():
        files = ("--data", options.data / "train.trees", "--validation", options.data / "valid.trees")
        grove("train", *files, "--out", directory, "--resume", "--backend", options.backend, *extra)
        write_text(directory / TRAINED_AT, commit() + "\n")


def _candidates(ops: ModuleType, options: argparse.Namespace, sample: Sample, names: Sequence[str]) -> Candidates:
    """Return the trees of the sentences for the models of a seed; train the parser if none is given."""
    if options.parser is None:
        options.parser = options.out / "parser"
        _train(options, "parser", "--task", "span_parser", "--epochs", options.epochs, *PARSER)
    parsed, sentences = _of_split(options, "proposals.trees"), _sentences(options)
    models = [(name, open_model(ops, options.out / name)) for name in names]
    of_trees = [(name, model) for name, model in models if not of_words(model)]
    drawing = (options.parser, sentences, options.backend)
    propose(*drawing, options.number, parsed, of_trees[0][1].vocabulary if of_trees else None)
    if sample.documents is not None:
        return Candidates(parsed, parsed)
    if options.draws:
        draw(*drawing, options.draws, draws := _of_split(options, "draws.txt"))
    searched = [(_of_split(options, f"{name}/searched.trees"), model) for name, model in of_trees if options.beam]
    for path, model in searched:
        search(ops, model, sample, options.beam, path)
    if searched:
        united = _of_split(options, f"united-{names[0].rpartition('-')[2]}.trees")
        unite(parsed, [path for path, _ in searched], united)
    return Candidates(parsed, united if searched else parsed, draws if options.draws else None)


def _sentences(options: argparse.Namespace) -> Path:
    """Return the path of the gold trees of the sentences."""
    path: Path = options.out / f"{options.split}.trees"
    return path


def _of_split(options: argparse.Namespace, name: str) -> Path:
    """Return the path of a file that belongs to the split."""
    path: Path = options.out / name
    return path if options.split == "test" else path.with_name(f"{path.stem}-{options.split}{path.suffix}")


def _measure(ops: ModuleType, options: argparse.Namespace, sample: Sample, candidates: Candidates, name: str) -> None:
    """Write the result of a model unless it exists; add the scores of the suites if they are missing."""
    directory = options.out / name
    path = directory / result_name(options.split)
    result = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    if result is not None and (options.suites is None or "syntaxgym" in result):
        return
    model = open_model(ops, directory)
    if result is None:
        result = _of_sample(ops, options, sample, candidates, model, directory)
        write_text(path, json.dumps(result) + "\n")  # the result stays if a suite cannot be read
    if options.suites:
        start = perf_counter()
        request = {"suites": suites_of(options.suites)}
        scores = syntaxgym(model, directory, options.suites, options.parser, options.backend)
        result["syntaxgym"] = scores | request
        result["hours"]["syntaxgym"] = (perf_counter() - start) / 3600
        write_text(path, json.dumps(result) + "\n")


def _of_sample(
    ops: ModuleType,
    options: argparse.Namespace,
    sample: Sample,
    candidates: Candidates,
    model: Model,
    directory: Path,
) -> Result:
    """Return the result of a model on the sentences of the sample."""
    result = _described(options, model, candidates, directory)
    start = perf_counter()
    result |= judged(ops, model, candidates, sample)
    searched = _of_split(options, f"{directory.name}/searched.trees")
    if searched.exists():
        result["search"] = {"beam": options.beam} | search_scores(searched, sample)
        result["hours"]["search"] = writing_hours(searched)
    result["hours"]["scores"] = (perf_counter() - start) / 3600
    return result


def _described(options: argparse.Namespace, model: Model, candidates: Candidates, directory: Path) -> Result:
    """Return the provenance of a model's results."""
    training = read_state(model.path)["training"]
    shapes = transformer_grammar.parameter_shapes(model.config).values()
    lines = read_metrics(directory / METRICS)
    files = {"proposals": candidates.parsed, "draws": candidates.draws}
    of_files = {kind: writing_hours(path) for kind, path in files.items() if path is not None}
    return {
        "experiment": options.name or options.data.name,
        "split": options.split,
        "model": directory.name.rpartition("-")[0],
        "seed": training["seed"],
        "commit": {"trained": (directory / TRAINED_AT).read_text(encoding="utf-8").strip(), "measured": commit()},
        "data": digests(options.data / f"{split}.trees" for split in SPLITS),
        "machine": machine(),
        "hours": {"training": hours([directory]), "parser": hours([options.parser])} | of_files,
        "settings": {
            "steps": training["steps"],
            "parameters": sum(map(prod, shapes)),
            "layers": model.config.n_layers,
            "d_model": model.config.d_model,
        },
        "validation": [[line["step"], line["validation_loss"]] for line in lines if "validation_loss" in line],
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with train.trees, valid.trees, test.trees")
    parser.add_argument("--out", type=Path, required=True, help="a directory for the runs and their results")
    parser.add_argument("--name", help="the treebank's name in the tables (default: its folder's name)")
    parser.add_argument(
        "--suites", type=Path, nargs="+", help="SyntaxGym's suites: .json files, or a folder or archive"
    )
    parser.add_argument("--models", nargs="+", choices=tuple(MODELS), default=tuple(MODELS), help="what to train (all)")
    help_text = "also train variants of TG, as in Table 2: distinct,shift,linear"
    parser.add_argument("--variants", type=_variants, default=(), metavar="NAMES", help=help_text)
    parser.add_argument(
        "--documents", action="store_true", help="train and measure on the documents between blank lines"
    )
    parser.add_argument("--split", choices=("valid", "test"), default="test", help="the split to measure on (test)")
    parser.add_argument("--steps", type=at_least(1), help=f"training steps of every model ({STEPS:,})")
    parser.add_argument(
        "--set", dest="settings", type=_setting, action="append", default=[], metavar="NAME=VALUE",
        help="any other setting of the models, such as d_model=64",
    )  # fmt: skip
    parser.add_argument("--seed", type=at_least(0), default=0, help="the first seed (0)")
    parser.add_argument("--seeds", type=at_least(1), default=1, metavar="N", help="how many models of each kind (1)")
    help_text = "proposals of the parser for a sentence (300)"
    parser.add_argument("--number", type=at_least(1), default=300, metavar="J", help=help_text)
    help_text = "trees that the parser draws for a sentence, to estimate the perplexity; 0: none (300)"
    parser.add_argument("--draws", type=at_least(0), default=300, metavar="J", help=help_text)
    help_text = "beam of the models' searches, whose trees are added to the proposals; 0: no search (100)"
    parser.add_argument("--beam", type=at_least(0), default=100, help=help_text)
    help_text = "draw N sentences at random; with --documents take the first N of each document (default: all)"
    parser.add_argument("--sentences", type=at_least(1), metavar="N", help=help_text)
    help_text = "leave out longer sentences, and count them; a document ends before its first one (100)"
    parser.add_argument("--max-words", type=at_least(1), default=100, help=help_text)
    parser.add_argument("--parser", type=Path, metavar="RUN", help="a trained parser (default: train one)")
    parser.add_argument("--epochs", type=at_least(1), default=3, help="epochs of the parser, if it is trained here (3)")
    parser.add_argument("--backend", choices=accel.BACKENDS, default="cpu")
    return parser


def _variants(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := [name for name in names if name not in VARIANTS]:
        raise argparse.ArgumentTypeError(f"unknown variant {unknown[0]!r}: choose from {','.join(VARIANTS)}")
    return names


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is no setting: give NAME=VALUE")
    return name, value


if __name__ == "__main__":
    run_program(main)
