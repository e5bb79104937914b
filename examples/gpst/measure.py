"""Measure what the paper's Tables 3 and 4 report, for a trained GPST or a GPT-2 beside it, and write one file.

    python -m examples.gpst.measure --checkpoint RUN --induction RUN/induction --gold wsj=wsj.mrg --suites SUITES \
        --blimp BLIMP --out measured.json

Trees are those of the model of --induction: of the composition model (inside), of the parser, and of the search from
left to right, with and without sync. The F1 of every sentence is stored, for paired intervals. Syntactic generalisation
and minimal pairs are those of the model of --checkpoint. Parts that the file has are not measured again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from types import ModuleType
from typing import Any

import accel
from accel.commands.opened import progress
from accel.data.files.archive import archive_of
from accel.data.published.wsj import CONVENTIONS, GoldSentence, read_gold
from accel.evaluation.induction import Row, baselines, interval, row, unread
from accel.evaluation.significance import interval_of_means
from accel.parsing.gpst import MODES
from accel.parsing.spans import find_spans
from accel.tasks.numbers import at_least
from accel.trained.opening import Model, checkpoint_of, open_model
from accel.training.directory import write_text
from examples.commands import grove
from examples.program import run_program
from examples.provenance import digests
from examples.scores import circuit_intervals, right_items

WAYS: dict[str, dict[str, Any]] = {mode: {"mode": mode} for mode in MODES}
NO_SYNC = f"{MODES[-1]}, no sync"
WAYS[NO_SYNC] = WAYS[MODES[-1]] | {"sync": False}
STORED = (*WAYS, "right")
"""The rows for which the F1 of every sentence is stored."""
PRESET = "gpst"
RANDOM_SEEDS = 5
TIES = {"wrong": 0.0, "half": 0.5, "right": 1.0}
"""The credit for a pair whose two sentences are equally probable."""
Part = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> dict[str, Part]:
    """Measure the parts that are asked for; return all that the file has."""
    options = read_options(arguments)
    parts: dict[str, Callable[[], Part]] = {}
    for name, path in (gold.split("=", 1) for gold in options.gold):
        parts[f"trees {name}"] = partial(trees, options, Path(path))
    if options.suites is not None:
        parts["syntaxgym"] = partial(syntaxgym, options)
    if options.blimp is not None:
        parts["blimp"] = partial(blimp, options)
    content: dict[str, Part] = {}
    if options.out.exists():
        content = json.loads(options.out.read_text(encoding="utf-8"))
    request = {name: getattr(options, name) for name in ("convention", "most", "per", "beam")}
    request |= {name: list(digests(files).values()) for name, files in _files(options).items()}
    stored_options = content.get("options", {})
    if different := sorted(name for name in request if stored_options.get(name, request[name]) != request[name]):
        raise SystemExit(f"{options.out}: measured with other {', '.join(different)}: give another --out")
    content["options"] = stored_options | request
    for name, measure in parts.items():
        if name not in content:
            start = time.process_time()
            content[name] = measure()
            content[name]["minutes"] = round((time.process_time() - start) / 60, 2)
            write_text(options.out, json.dumps(content, indent=1) + "\n")
    return content


def _files(options: argparse.Namespace) -> dict[str, list[Path]]:
    """Return the files of the models and of the data that are asked for, by the options that name them."""
    models = {"checkpoint": options.checkpoint, "induction": options.induction}
    files = {name: [checkpoint_of(path)] for name, path in models.items() if path is not None}
    data = {"suites": options.suites, "blimp": options.blimp}
    data |= {f"gold {name}": Path(path) for name, path in (gold.split("=", 1) for gold in options.gold)}
    of_data = {name: sorted(path.glob("*.json*")) if path.is_dir() else [archive_of(path) or path]
               for name, path in data.items() if path is not None}  # fmt: skip
    return files | of_data


def read_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, required=True, metavar="RUN", help="the pre-trained model")
    parser.add_argument("--induction", type=Path, metavar="RUN", help="the model whose trees are measured")
    parser.add_argument("--gold", action="append", default=[], metavar="NAME=TREEBANK", help="gold trees")
    help_text = "words of the gold trees, as in grove parse"
    parser.add_argument("--convention", choices=CONVENTIONS, default="wsj", help=help_text)
    help_text = "measure at most this many sentences; of a larger treebank every k-th one (%(default)s)"
    parser.add_argument("--most", type=at_least(1), default=800, help=help_text)
    parser.add_argument("--suites", type=Path, help="SyntaxGym's suites: a file, a folder or an archive")
    parser.add_argument("--blimp", type=Path, help="BLiMP: a file, a folder or an archive")
    parser.add_argument(
        "--per", type=at_least(1), default=20, help="pairs drawn from every paradigm of BLiMP (%(default)s)"
    )
    parser.add_argument("--beam", type=at_least(1), default=20, help="parses kept for a sentence (%(default)s)")
    parser.add_argument("--backend", choices=accel.BACKENDS, default="cpu")
    parser.add_argument("--out", type=Path, required=True, metavar="JSON")
    options = parser.parse_args(arguments)
    if options.gold and options.induction is None:
        parser.error("--gold: measures the trees of the model of --induction: give --induction with it")
    if not all("=" in gold for gold in options.gold):
        parser.error("--gold: give NAME=TREEBANK")
    return options


def trees(options: argparse.Namespace, path: Path) -> Part:
    """Return the F1 of all kinds of trees of a treebank, and of trivial trees, over the same sentences."""
    ops = accel.load(options.backend)
    model = open_model(ops, options.induction)
    every = list(read_gold(path, options.convention))
    step = -(-len(every) // options.most)
    sample = every[::step]
    left_out = unread(model, WAYS[NO_SYNC], sample)
    gold = [sentence for number, sentence in enumerate(sample) if number not in left_out]
    rows = {name: row(gold, [_parse(ops, model, gold, name, options.beam)], PRESET) for name in WAYS}
    rows |= baselines(gold, PRESET, RANDOM_SEEDS)
    return {
        "sentences": len(gold), "of": len(every), "every": step, "unread": len(left_out),
        "words": sum(len(sentence.words) for sentence in gold), "convention": options.convention,
        "beam": options.beam, "preset": PRESET,
        "scores": {name: _scores(of_kind) for name, of_kind in rows.items()},
        "of_sentences": {name: [round(f1, 2) for f1 in rows[name].of_sentences[0]] for name in STORED},
    }  # fmt: skip


def _parse(ops: ModuleType, model: Model, gold: Sequence[GoldSentence], name: str, beam: int) -> list[Any]:
    way = WAYS[name] | ({"beam": beam} if WAYS[name]["mode"] == MODES[-1] else {})
    print(f"{name}: {len(gold)} sentences", flush=True)
    return list(progress(find_spans(ops, model, [sentence.words for sentence in gold], **way), len(gold)))


def _scores(of_kind: Row) -> Part:
    ends = interval(of_kind)
    return {
        "sentence_f1": of_kind.sentence_f1,
        "corpus_f1": of_kind.corpus_f1,
        "interval": None if ends is None else [ends.low, ends.high],
        "recall": {label: of_kind.recall(label) for label in sorted(of_kind.scores[0].label_recall)},
    }


def syntaxgym(options: argparse.Namespace) -> Part:
    """Return the accuracy of every circuit over the suites of Sartran et al., with intervals over items."""
    content = _asked(options, "syntaxgym", options.suites)
    right, counts = right_items(content)
    return content["means"]["as in the paper"] | {"circuit_intervals": circuit_intervals(right)} | counts


def blimp(options: argparse.Namespace) -> Part:
    """Return the mean accuracy over paradigms with its interval, a tie counted as wrong, half and right."""
    content = _asked(options, "minimal_pairs", "--data", options.blimp, "--format", "blimp", "--per", options.per)
    paradigms = {
        name: [pair["bits"] for pair in paradigm["pairs"] if "skipped" not in pair]
        for name, paradigm in content["paradigms"].items()
    }
    counts = {"pairs": sum(map(len, paradigms.values()))}
    counts["ties"] = sum(good == bad for bits in paradigms.values() for good, bad in bits)
    counts["skipped"] = sum("skipped" in pair for p in content["paradigms"].values() for pair in p["pairs"])
    phenomena: dict[str, list[str]] = {}
    for name, paradigm in content["paradigms"].items():
        phenomena.setdefault(paradigm["phenomenon"], []).append(name)
    return counts | {
        "per": options.per,
        "accuracy": {name: _accuracy(paradigms.values(), worth) for name, worth in TIES.items()},
        "phenomena": {
            name: fmean(fmean(_right(paradigms[one], TIES["wrong"])) for one in of_phenomenon)
            for name, of_phenomenon in sorted(phenomena.items())
        },
    }


def _accuracy(paradigms: Iterable[Sequence[Sequence[float]]], worth: float) -> dict[str, Any]:
    mean, low, high = interval_of_means([_right(bits, worth) for bits in paradigms])
    return {"mean": mean, "interval": [low, high]}


def _right(bits: Iterable[Sequence[float]], worth: float) -> list[float]:
    """Return for every pair 1 if the good sentence has fewer bits, 0 if it has more, `worth` if it has as many."""
    return [worth if good == bad else float(good < bad) for good, bad in bits]


def _asked(options: argparse.Namespace, command: str, *arguments: object) -> Mapping[str, Any]:
    """Return what a command of grove writes about the model of --checkpoint."""
    file = options.out.with_name(f"{command}.json")
    beam = ("--beam", options.beam) if _kind(options) == "gpst" else ()
    grove(command, "--checkpoint", options.checkpoint, *arguments, *beam, "--backend", options.backend, "--out", file)
    content: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return content


def _kind(options: argparse.Namespace) -> str:
    return str(open_model(accel.load(options.backend), options.checkpoint).config.model)


if __name__ == "__main__":
    run_program(main)
