"""Train Transformer Grammars and both Transformer-XL models on bracketed trees: same size and steps, several seeds.

    python -m examples.transformer_grammars.train --data DIR --out runs/trees
    python -m examples.transformer_grammars.train --out runs/trees --table

Interrupted runs resume at their last checkpoint; complete runs are kept.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from math import fsum, prod
from pathlib import Path
from types import ModuleType
from typing import Any

import accel
from accel.data.batches.trees import Batches
from accel.data.corpora.sequences import read_whole
from accel.data.corpora.treebank import Corpus, Reading, load_corpus
from accel.data.vocabularies.building import build
from accel.data.vocabularies.vocabulary import Vocabulary
from accel.models.transformer_grammars import model as transformer_grammar
from accel.scoring.trees import event_logps
from accel.tasks.numbers import at_least
from accel.trained.opening import Model, open_model
from accel.training.checkpoint import read_state
from accel.training.directory import VOCABULARY, digest, save_settings, write_text
from accel.training.loop import train
from accel.training.metrics import read_metrics
from accel.training.run import METRICS
from accel.training.settings import TrainingConfig
from examples import markdown
from examples.program import run_program
from examples.provenance import digests
from examples.result_files import MODELS
from refimpl.transformer_grammars.marginal import perplexity

SPLITS = ("train", "valid", "test")
RESULT = "result.json"
_OF_PROGRAM = ("data", "out", "table", "models", "seeds", "backend")  # the other options are those of a run


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    out: Path = options.out
    if not options.table:
        if not options.data:
            raise SystemExit("--data: name a directory with train, valid and test, or the three files")
        _train_all(options, split_files(options.data))
    print(write_table(out))


def write_table(out: Path) -> str:
    """Write the results of the complete runs in `out` to results.json and table.md, and return the table."""
    results = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(out.glob(f"*/{RESULT}"))]
    if not results:
        raise SystemExit(f"{out}: holds no complete run")
    text = table(results)
    (out / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    (out / "table.md").write_text(text, encoding="utf-8")
    return text


def table(results: Sequence[dict[str, Any]]) -> str:
    """Return a Markdown table: mean and sample deviation over the seeds of each model."""
    head = ("model", "seeds", "parameters", "steps", "valid: nats an event", "test: nats an event",
            "valid: word perplexity", "test: word perplexity", "seconds")  # fmt: skip
    rows = []
    for model, name in MODELS.items():
        runs = [result for result in results if result["model"] == model]
        if not runs:
            continue
        bound = "" if model == "txl_terminals" else "≤ "
        cells = [name, str(len(runs)), f"{runs[0]['parameters']:,}", f"{runs[0]['steps']:,}"]
        cells += [markdown.spread([run[split]["loss"] for run in runs], 3) for split in SPLITS[1:]]
        cells += [bound + markdown.spread([run[split]["perplexity"] for run in runs], 1) for split in SPLITS[1:]]
        cells.append(markdown.spread([run["seconds"] for run in runs], 0))
        rows.append(cells)
    return markdown.table(head, rows) + "\n"


def _train_all(options: argparse.Namespace, files: dict[str, Path]) -> None:
    reading = reading_of(options)
    trees = (sentence.tree for sentence in read_whole(files["train"], reading))
    vocabulary = build(trees, "unknown_classes", options.vocabulary_size)
    corpora = {split: load_corpus(path, vocabulary, options.out / "cache", reading) for split, path in files.items()}
    for split, corpus in corpora.items():
        print(f"{split}: {len(corpus):,} trees, {int(corpus.words.sum()):,} words, {len(corpus.actions):,} actions")
    print(f"vocabulary: {len(vocabulary):,} actions, {len(vocabulary.labels)} labels")
    ops = accel.load(options.backend)
    request = {name: value for name, value in vars(options).items() if name not in _OF_PROGRAM}
    request |= digests(files.values())
    for seed in range(options.seeds):
        for model in options.models:
            directory = options.out / f"{model}-{seed}"
            if (directory / RESULT).exists():
                result = json.loads((directory / RESULT).read_text(encoding="utf-8"))
                stored_options = result.get("options", request)
                if different := sorted(name for name in request if stored_options.get(name) != request[name]):
                    raise SystemExit(f"{directory}: was trained with other {', '.join(different)}: give another --out")
                print(f"{directory.name}: complete")
                continue
            print(f"{directory.name}: {MODELS[model]}, seed {seed}", flush=True)
            config, both = config_of(options, len(vocabulary), model=model), (corpora["train"], corpora["valid"])
            train_grammar(ops, config, _training(options, seed), vocabulary, reading, both, directory)
            result = _judge(ops, directory, corpora) | {"options": request}
            write_text(directory / RESULT, json.dumps(result, indent=1) + "\n")
            print(json.dumps(result), flush=True)


def train_grammar(
    ops: ModuleType, config: transformer_grammar.Config, training: TrainingConfig, vocabulary: Vocabulary,
    reading: Reading, corpora: tuple[Corpus, Corpus], directory: Path, **more: Any,
) -> None:  # fmt: skip
    """Train a model on the first corpus, or resume it at its last checkpoint; the second is for validation."""
    corpus, held_out = corpora
    rows, seed = training.batch_size, training.seed
    directory.mkdir(parents=True, exist_ok=True)

    def begin() -> None:  # not called if the training is refused, so that nothing is written
        write_text(directory / VOCABULARY, vocabulary.to_json())
        save_settings(directory, reading, asdict(training))

    with Batches(corpus, vocabulary, config, rows, ops=ops, seed=seed, epochs=None) as batches:
        train(
            ops, transformer_grammar, config, training, batches, directory,
            validation=lambda: Batches(held_out, vocabulary, config, rows, ops=ops, prefetch=0),
            vocabulary=digest(vocabulary), resume=True, begin=begin, **more,
        )  # fmt: skip


def _judge(ops: ModuleType, directory: Path, corpora: dict[str, Corpus]) -> dict[str, Any]:
    """Return the result of one run, for the parameters with the lowest validation loss."""
    model = open_model(ops, directory)
    state = read_state(model.path)
    result = {
        "model": model.config.model,
        "seed": state["training"]["seed"],
        "steps": state["training"]["steps"],
        "best_step": state["step"],
        "parameters": sum(prod(shape) for shape in transformer_grammar.parameter_shapes(model.config).values()),
        "seconds": round(sum(line["seconds"] for line in read_metrics(directory / METRICS)), 1),
    }
    return result | {split: evaluate(ops, model, corpora[split]) for split in SPLITS[1:]}


def evaluate(ops: ModuleType, model: Model, corpus: Corpus) -> dict[str, float]:
    """Return the loss per event, and the word perplexity of sentences together with their gold trees.

    Since log p(x, y) <= log p(x) for the gold tree y, the perplexity is an upper bound; for the model of terminals,
    which has no trees, it is exact.
    """
    logps = list(event_logps(ops, [model], corpus))
    trees = [float(events.sum()) for events in logps]
    return {
        "loss": -fsum(trees) / sum(len(events) for events in logps),
        "perplexity": perplexity(trees, int(corpus.words.sum())),
    }


def reading_of(options: argparse.Namespace) -> Reading:
    """Return how real trees are read."""
    return Reading(drop_traces=True, drop_function_tags=True, drop_preterminals=not options.keep_tags)


def config_of(options: argparse.Namespace, vocabulary_size: int, **special: Any) -> transformer_grammar.Config:
    """Return the model that the options of a program ask for; `special` are other settings, such as its kind."""
    return transformer_grammar.Config(
        vocabulary_size=vocabulary_size, d_model=options.d_model, d_ff=4 * options.d_model, n_layers=options.layers,
        n_heads=options.heads, segment_length=options.length, memory_length=options.length,
        embedding_dropout=options.dropout, core_dropout=options.dropout, output_dropout=options.dropout, **special,
    )  # fmt: skip


def _training(options: argparse.Namespace, seed: int) -> TrainingConfig:
    return TrainingConfig(
        batch_size=options.batch_size,
        steps=options.steps,
        warmup_steps=options.steps // 10,
        maximum_rate=options.rate,
        final_rate=options.rate / 100,
        validate_every=max(1, options.steps // 10),
        checkpoint_every=max(1, options.steps // 20),
        seed=seed,
    )


def split_files(paths: Sequence[Path]) -> dict[str, Path]:
    """Return the file of each split: three files in this order, or those of a directory by the split's name."""
    if len(paths) == len(SPLITS):
        return dict(zip(SPLITS, paths, strict=True))
    if len(paths) != 1 or not paths[0].is_dir():
        raise SystemExit("--data: name a directory with train, valid and test, or the three files in this order")
    files = {}
    for split in SPLITS:
        paths_of_split = [path for path in sorted(paths[0].iterdir()) if path.name.partition(".")[0] == split]
        paths_of_split = [path for path in paths_of_split if ".trees" in path.suffixes] or paths_of_split
        if len(paths_of_split) != 1:
            raise SystemExit(f"{paths[0]}: {len(paths_of_split)} files are named {split}.*: leave one")
        files[split] = paths_of_split[0]
    return files


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m examples.transformer_grammars.train", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--data", type=Path, nargs="+", help="a directory with train.*, valid.*, test.*, or the files")
    parser.add_argument("--out", type=Path, default=Path("runs/trees"), help="a directory for each run, and the table")
    parser.add_argument("--table", action="store_true", help="only print the table of the runs that are complete")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--seeds", type=at_least(1), default=3)
    parser.add_argument("--steps", type=at_least(1), default=1200)
    parser.add_argument("--batch-size", type=at_least(1), default=16)
    parser.add_argument("--rate", type=float, default=1.5e-3)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--d-model", type=at_least(1), default=128)
    parser.add_argument("--layers", type=at_least(1), default=4)
    parser.add_argument("--heads", type=at_least(1), default=4)
    parser.add_argument("--length", type=at_least(1), default=64, help="of a segment and of the memory")
    parser.add_argument("--vocabulary-size", type=at_least(1), default=4000)
    parser.add_argument("--keep-tags", action="store_true", help="keep the tags of the trees")
    parser.add_argument("--backend", choices=accel.BACKENDS, default="cpu")
    return parser


if __name__ == "__main__":
    run_program(main)
