"""`grove minimal_pairs`: how often the good sentence of a minimal pair is more probable to a model than the bad one.

A tie counts as wrong. Words are read with the capitals of the file. A word outside the vocabulary becomes the unknown
word; if there is none, the pair is skipped and counted, and --out has the reason. Means over paradigms have bootstrap
intervals that resample the pairs of every paradigm.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import accel
from accel.commands.opened import add_ensemble, check_outs, figures, progress, write_out
from accel.commands.search_options import (
    add_models,
    add_proposals,
    add_search,
    open_ensemble,
    search_settings,
    surprisals_of,
)
from accel.commands.tables import print_table, shown
from accel.commands.threads import processes
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
from accel.tasks.numbers import at_least
from accel.training.memory import keep_freed_memory

READERS = {"blimp": read_blimp, "marvin_linzen": read_marvin_linzen, "sva": read_agreement}
Published = Mapping[str, Mapping[tuple[str, str], float]]
Paradigms = Mapping[str, list[Judged]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_models(parser)
    add_ensemble(parser)
    files = "blimp: .jsonl, or a folder or an archive of them; others: .tsv; sva also: .gold, or a folder or an archive"
    parser.add_argument("--data", type=Path, required=True, metavar="PATH", help=files)
    parser.add_argument("--format", choices=READERS, required=True, help="format of the data; sva: agreement of verbs")
    parser.add_argument("--measure", choices=MEASURES, default="sentence", help="the words whose probability counts")
    parser.add_argument("--split", choices=SPLITS, help="of a table of sentences with their verbs (default: test)")
    parser.add_argument(
        "--per", type=at_least(1), metavar="N", help="so many pairs of a paradigm, drawn (default: all)"
    )
    parser.add_argument("--seed", type=at_least(0), help="of the draw of --per (0)")
    case = parser.add_mutually_exclusive_group()
    case.add_argument("--lower", action="store_true", help="read the words in lower case")
    case.add_argument("--capital", action="store_true", help="begin every sentence with a capital letter")
    parser.add_argument("--period", action="store_true", help="end a sentence with a period, if no mark ends it")
    parser.add_argument("--published", type=Path, metavar="JSONL", help="published accuracies to print beside")
    add_search(parser)
    add_proposals(parser)
    parser.add_argument("--batch-size", type=at_least(1), default=32, help="sentences read side by side")
    parser.add_argument("--backend", default="cpu", choices=accel.BACKENDS)
    parser.add_argument("--out", type=Path, metavar="JSON", help="write means, paradigms and every pair to a file")


def run(options: argparse.Namespace) -> int:
    _check_options(options)
    keep_freed_memory()
    scipy_stats()  # fails before the reading if scipy is missing
    split = {} if options.split is None else {"split": options.split}
    pairs = chosen(READERS[options.format](options.data, **split), options.per, options.seed or 0)
    published = {} if options.published is None else read_published(options.published)
    ops = accel.load(options.backend)
    model, others = open_ensemble(ops, options)
    change = partial(_changed, options=options)
    search = surprisals_of(ops, model, options, others)
    reading: dict[str, Any] = {"measure": options.measure, "change": change, "batch_size": options.batch_size}
    reading["processes"] = processes(ops, model)
    judgements = judge(ops, model, pairs, progress=partial(progress, unit="sentence"), **reading, **search)
    paradigms: dict[str, list[Judged]] = {}
    for one in judgements:
        paradigms.setdefault(one.pair.paradigm, []).append(one)
    paradigms = dict(sorted(paradigms.items()))
    accuracies = {name: accuracy(members) for name, members in paradigms.items()}
    means = _means(paradigms, published)
    skips = [one for one in judgements if one.skipped]
    if options.out is not None:
        content = _settings(options, search) | _content(paradigms, accuracies, means)
        write_out(options.out, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    with figures(options.out):
        _print(paradigms, accuracies, means, published)
        unknown, count = unknown_words(model, judgements)
        print(f"unknown words: {unknown} of {count}")
        for one in skips[:1]:
            print(f"skipped: {len(skips)} of {len(judgements)} pairs, the first {one.pair.place}: {one.skipped}")
    return 0


def _check_options(options: argparse.Namespace) -> None:
    if options.split is not None and options.format != "sva":
        raise ValueError("--split: is for --format sva: leave it out")
    if options.seed is not None and options.per is None:
        raise ValueError("--seed: is for --per: give both, or neither")
    check_outs(options, "out", reads=_files(options.data))


def _files(data: Path) -> Iterator[Path]:
    """Yield the files of a folder of pairs, and the .text file that belongs to a .gold file."""
    if data.suffix == ".gold":
        yield data.with_suffix(".text")
    for ending in (".jsonl", ".text", ".gold"):
        yield from data.glob(f"*{ending}")


def _changed(words: list[str], options: argparse.Namespace) -> list[str]:
    """Return the words with the changes that the options ask for."""
    if options.lower:
        words = [word.lower() for word in words]
    if options.capital:
        words = [words[0][0].upper() + words[0][1:], *words[1:]]
    return [*words, "."] if options.period and words[-1] not in (".", "?", "!") else words


def _means(paradigms: Paradigms, published: Published) -> dict[str, dict[str, Any]]:
    """Return the means over the paradigms of every field, of every phenomenon, and over all paradigms."""
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
        judged_names = [name for name in names if not all(one.skipped for one in paradigms[name])]
        keys = [(name, one_of[name].phenomenon) for name in judged_names]
        means[title] = {
            "paradigms": len(judged_names),
            "accuracy": mean_accuracy(paradigms[name] for name in judged_names),
            "published": {model: published_mean(accuracies, keys) for model, accuracies in published.items()},
        }
    pairs = [one for members in paradigms.values() for one in members]
    means["all pairs alike"] = {"paradigms": None, "accuracy": accuracy(pairs), "published": dict.fromkeys(published)}
    return means


def _print(
    paradigms: Paradigms,
    accuracies: Mapping[str, Accuracy | None],
    means: Mapping[str, Mapping[str, Any]],
    published: Published,
) -> None:
    """Print a line for every paradigm, and one for every mean."""
    rows = [["paradigm", "right", "pairs", "ties", "skipped", "accuracy", "95 % interval", *published]]
    for name, members in paradigms.items():
        n_skipped = sum(bool(one.skipped) for one in members)
        counts = sum(one.right for one in members), len(members) - n_skipped, sum(one.tie for one in members), n_skipped
        key = name, members[0].pair.phenomenon
        published_cells = [shown(of_model.get(key)) for of_model in published.values()]
        rows.append([name, *map(str, counts), *_cells(accuracies[name]), *published_cells])
    print_table(rows, n_names=1)
    rows = [["", "paradigms", "accuracy", "95 % interval", *published]]
    for title, mean in means.items():
        count = "-" if mean["paradigms"] is None else str(mean["paradigms"])
        rows.append([title, count, *_cells(mean["accuracy"]), *map(shown, mean["published"].values())])
    print()
    print_table(rows, n_names=1)
    print()


def _cells(part: Accuracy | None) -> list[str]:
    if part is None or part.low is None or part.high is None:
        return [shown(part and part.value), "-"]
    return [shown(part.value), f"{part.low:.4f}-{part.high:.4f}"]


def _settings(options: argparse.Namespace, search: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options for --out."""
    names = ("checkpoint", "data", "format", "measure", "split", "per", "seed", "lower", "capital", "period")
    settings = {name: getattr(options, name) for name in names}
    settings |= {"checkpoint": str(options.checkpoint[0]), "data": str(options.data), "seed": options.seed or 0}
    return settings | search_settings(search)


def _content(
    paradigms: Paradigms, accuracies: Mapping[str, Accuracy | None], means: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the content of --out: the means, and for every paradigm its accuracy and its pairs."""
    return {
        "means": {title: dict(mean) | {"accuracy": _as_json(mean["accuracy"])} for title, mean in means.items()},
        "paradigms": {
            name: {
                "phenomenon": members[0].pair.phenomenon,
                "field": members[0].pair.field,
                "accuracy": _as_json(accuracies[name]),
                "pairs": [_item(one) for one in members],
            }
            for name, members in paradigms.items()
        },
    }


def _as_json(part: Accuracy | None) -> dict[str, float | None] | None:
    return None if part is None else part._asdict()


def _item(one: Judged) -> dict[str, Any]:
    if one.bits is None:
        return {"place": one.pair.place, "skipped": one.skipped}
    return {"place": one.pair.place, "right": one.right, "bits": one.bits}
