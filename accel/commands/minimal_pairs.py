"""`grove minimal_pairs`: how often a model takes the good sentence of a minimal pair for the more probable one.

A tie counts as wrong. The words are those of the file, with its capitals; a word that the vocabulary lacks is its
unknown word, if there is one; if not, the pair is skipped and counted, and --out has the reason. Means over paradigms
have bootstrap intervals for which pairs are drawn anew in every paradigm.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

import accel
from accel.commands.search_options import add_proposals, add_search, surprisals_of
from accel.commands.tables import print_table, shown
from accel.data.generated.agreement import SPLITS
from accel.data.published.agreement_pairs import read_agreement
from accel.data.published.minimal_pairs import read_blimp, read_marvin_linzen, read_published
from accel.evaluation.minimal_pairs import (
    MEASURES,
    Accuracy,
    Judged,
    accuracy,
    chosen,
    judge,
    mean_accuracy,
    published_mean,
    unknown_words,
)
from accel.evaluation.significance import scipy_stats
from accel.scoring.surprisals import check_surprisals
from accel.trained.opening import open_model
from accel.training.directory import write_text

READERS = {"blimp": read_blimp, "marvin_linzen": read_marvin_linzen, "sva": read_agreement}
Published = Mapping[str, Mapping[tuple[str, str], float]]
Paradigms = Mapping[str, list[Judged]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--checkpoint", type=Path, required=True, metavar="RUN", help="a run's directory, or a file")
    what = "blimp: .jsonl, or a folder or an archive of them; others: .tsv; sva also: .gold, or a folder or an archive"
    parser.add_argument("--data", type=Path, required=True, metavar="PATH", help=what)
    parser.add_argument("--format", choices=READERS, required=True, help="what the data are; sva: agreement of verbs")
    parser.add_argument("--measure", choices=MEASURES, default="sentence", help="what is to be the more probable")
    parser.add_argument("--split", choices=SPLITS, help="of a table of sentences with their verbs (default: test)")
    parser.add_argument("--per", type=int, metavar="N", help="so many pairs of a paradigm, drawn (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="with which they are drawn")
    case = parser.add_mutually_exclusive_group()
    case.add_argument("--lower", action="store_true", help="read the words in lower case")
    case.add_argument("--capital", action="store_true", help="begin every sentence with a capital letter")
    parser.add_argument("--period", action="store_true", help="end a sentence with a period, if no mark ends it")
    parser.add_argument("--published", type=Path, metavar="JSONL", help="published accuracies, to stand beside")
    add_search(parser)
    add_proposals(parser)
    parser.add_argument("--batch-size", type=int, default=8, help="sentences read side by side")
    parser.add_argument("--backend", default="cpu", choices=accel.BACKENDS)
    parser.add_argument("--out", type=Path, metavar="JSON", help="write means, paradigms and every pair to a file")


def run(options: argparse.Namespace) -> int:
    _check_options(options)
    scipy_stats()  # if it is missing, that is to be known before hours of reading
    split = {} if options.split is None else {"split": options.split}
    pairs = chosen(READERS[options.format](options.data, **split), options.per, options.seed)
    published = {} if options.published is None else read_published(options.published)
    ops = accel.load(options.backend)
    model = open_model(ops, options.checkpoint)
    change = partial(_changed, options=options)
    check_surprisals(model)
    search = surprisals_of(ops, model, options)
    read = {"measure": options.measure, "change": change, "batch_size": options.batch_size, "progress": _progress}
    judged = judge(ops, model, pairs, **read, **search)
    paradigms: dict[str, list[Judged]] = {}
    for one in judged:
        paradigms.setdefault(one.pair.paradigm, []).append(one)
    paradigms = dict(sorted(paradigms.items()))
    accuracies = {name: accuracy(members) for name, members in paradigms.items()}
    means = _means(paradigms, published)
    _print(paradigms, accuracies, means, published)
    unknown, count = unknown_words(model, judged)
    print(f"unknown words: {unknown} of {count}")
    skipped = [one for one in judged if one.skipped]
    for one in skipped[:1]:
        print(f"skipped: {len(skipped)} of {len(judged)} pairs, the first {one.pair.place}: {one.skipped}")
    if options.out is not None:
        content = _asked(options, search) | _content(paradigms, accuracies, means)
        write_text(options.out, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    return 0


def _check_options(options: argparse.Namespace) -> None:
    for name in ("per", "batch_size"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            raise ValueError(f"--{name.replace('_', '-')} {getattr(options, name)}: at least 1 is needed")
    if options.split is not None and options.format != "sva":
        raise ValueError("--split: is for --format sva")
    if options.out is not None and (options.out.is_dir() or not options.out.parent.is_dir()):
        raise ValueError(f"--out {options.out}: not a file that can be written")


def _changed(words: list[str], options: argparse.Namespace) -> list[str]:
    """Return the words as the options want them."""
    if options.lower:
        words = [word.lower() for word in words]
    if options.capital:
        words = [words[0][0].upper() + words[0][1:], *words[1:]]
    return [*words, "."] if options.period and words[-1] not in (".", "?", "!") else words


def _means(paradigms: Paradigms, published: Published) -> dict[str, dict[str, Any]]:
    """Return the means over the paradigms of every field, and of every phenomenon, and over all."""
    one_of = {name: members[0].pair for name, members in paradigms.items()}
    groups = {f"field {pair.field}": pair.field for pair in one_of.values()}
    names_of = {
        title: [name for name, pair in one_of.items() if pair.field == field] for title, field in groups.items()
    }
    if any(pair.phenomenon != pair.field for pair in one_of.values()):
        for phenomenon in sorted({pair.phenomenon for pair in one_of.values()}):
            names_of[phenomenon] = [name for name, pair in one_of.items() if pair.phenomenon == phenomenon]
    names_of["mean over paradigms"] = list(paradigms)
    means = {}
    for title, names in names_of.items():
        judged = [name for name in names if not all(one.skipped for one in paradigms[name])]
        keys = [(name, one_of[name].phenomenon) for name in judged]
        means[title] = {
            "paradigms": len(judged),
            "accuracy": mean_accuracy(paradigms[name] for name in judged),
            "published": {model: published_mean(of_model, keys) for model, of_model in published.items()},
        }
    every = [one for members in paradigms.values() for one in members]
    means["all pairs alike"] = {"paradigms": None, "accuracy": accuracy(every), "published": dict.fromkeys(published)}
    return means


def _print(
    paradigms: Paradigms,
    accuracies: Mapping[str, Accuracy | None],
    means: Mapping[str, Mapping[str, Any]],
    published: Published,
) -> None:
    """Print a line for every paradigm, and one for every mean."""
    rows = [["paradigm", "right", "pairs", "ties", "skipped", "accuracy", "95 % interval", *published]]
    for name, judged in paradigms.items():
        skipped = sum(bool(one.skipped) for one in judged)
        counts = sum(one.right for one in judged), len(judged) - skipped, sum(one.tie for one in judged), skipped
        key = name, judged[0].pair.phenomenon
        beside = [shown(of_model.get(key)) for of_model in published.values()]
        rows.append([name, *map(str, counts), *_shown(accuracies[name]), *beside])
    print_table(rows, n_names=1)
    rows = [["", "paradigms", "accuracy", "95 % interval", *published]]
    for title, mean in means.items():
        count = "-" if mean["paradigms"] is None else str(mean["paradigms"])
        rows.append([title, count, *_shown(mean["accuracy"]), *map(shown, mean["published"].values())])
    print()
    print_table(rows, n_names=1)
    print()


def _shown(part: Accuracy | None) -> list[str]:
    if part is None or part.low is None or part.high is None:
        return [shown(part and part.value), "-"]
    return [shown(part.value), f"{part.low:.4f}-{part.high:.4f}"]


def _asked(options: argparse.Namespace, search: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options, as --out has them."""
    names = ("checkpoint", "data", "format", "measure", "split", "per", "seed", "lower", "capital", "period")
    asked = {name: getattr(options, name) for name in names}
    asked |= {name: str(asked[name]) for name in ("checkpoint", "data")}
    return asked | {name: str(value.path) if name == "parser" else value for name, value in search.items()}


def _content(
    paradigms: Paradigms, accuracies: Mapping[str, Accuracy | None], means: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return what --out has: the means, and of every paradigm its accuracy and its pairs."""
    return {
        "means": {title: dict(mean) | {"accuracy": _named(mean["accuracy"])} for title, mean in means.items()},
        "paradigms": {
            name: {
                "phenomenon": judged[0].pair.phenomenon,
                "field": judged[0].pair.field,
                "accuracy": _named(accuracies[name]),
                "pairs": [_item(one) for one in judged],
            }
            for name, judged in paradigms.items()
        },
    }


def _named(part: Accuracy | None) -> dict[str, float | None] | None:
    return None if part is None else part._asdict()


def _item(one: Judged) -> dict[str, Any]:
    if one.bits is None:
        return {"place": one.pair.place, "skipped": one.skipped}
    return {"place": one.pair.place, "right": one.right, "bits": one.bits}


def _progress(bits: Iterable[list[float]], count: int) -> Iterable[list[float]]:
    """Show on a terminal how many sentences have been read."""
    shown: Iterable[list[float]] = tqdm(bits, total=count, unit="sentence", disable=None, leave=False)
    return shown
