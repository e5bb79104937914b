"""`grove induction`: one table of scores of induced trees against gold trees, for checkpoints of any kind.

Trees come from the distances of language models (any layers), from Treeformer's charts, and from GPST in all its modes.
Checkpoints with the same name are seeds of one model: their scores are averaged. A sentence that one of the models
cannot read is left out of all rows, and counted.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import accel
from accel.commands.opened import add_max_height, check_outs, figures, named, progress, write_out
from accel.commands.tables import print_table
from accel.commands.threads import processes
from accel.data.files.lines import LineError, place
from accel.data.published.wsj import CONVENTIONS, GoldSentence, read_gold
from accel.evaluation.induced_f1 import BASELINES, ORACLE, PRESETS, Spans, frequent_labels, label_counts
from accel.evaluation.induction import (
    Row,
    baselines,
    difference,
    interval,
    row,
    unread,
    ways_of,
    welch_of_members,
)
from accel.evaluation.significance import Interval, scipy_stats
from accel.parsing.distances import SPLITS
from accel.parsing.gpst import MODES
from accel.parsing.spans import find_spans
from accel.tasks.numbers import at_least
from accel.trained.kinds import DISTANCES, FULL_CHARTS, GPST_TREES, can, network_of
from accel.trained.opening import Model, open_model
from accel.trained.options import OptionError

LABELS = 8  # whose recall is shown
DEFAULTS = {"split": "biased", "modes": MODES, "beam": 20}


class Member(NamedTuple):
    """One of the models of a row, and the way in which it finds trees: options of `find_spans`."""

    title: str
    model: Model
    way: dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--checkpoint",
        action="append",
        required=True,
        metavar="[NAME=]RUN",
        help="a run's directory or checkpoint; several of one name (default: its kind) are seeds",
    )
    parser.add_argument(
        "--gold", type=Path, required=True, metavar="TREEBANK", help="the trees whose sentences are parsed"
    )
    parser.add_argument(
        "--convention", choices=CONVENTIONS, default="wsj", help="words of the gold trees: as of grove parse"
    )
    parser.add_argument("--preset", choices=tuple(PRESETS), default="fasttrees", help="the spans that count for F1")
    help_text = "whose distances, from 1 (default: 2, or 1 if there is no second one)"
    parser.add_argument("--layers", type=at_least(1), nargs="+", metavar="N", help=help_text)
    parser.add_argument("--split", choices=SPLITS, help="where distances split a constituent (biased)")
    add_max_height(parser)
    parser.add_argument("--modes", nargs="+", choices=MODES, help="where GPST's trees come from (all)")
    help_text = f"parses kept of a sentence from left to right ({DEFAULTS['beam']})"
    parser.add_argument("--beam", type=at_least(1), help=help_text)
    parser.add_argument("--seeds", type=at_least(1), default=5, help="how many random trees a sentence gets (5)")
    parser.add_argument("--against", metavar="ROW", help="the row to compare the others with (default: the first)")
    parser.add_argument("--backend", default="cpu", choices=accel.BACKENDS)
    parser.add_argument(
        "--batch-size", type=at_least(1), help="sentences read side by side (64; from left to right 32)"
    )
    parser.add_argument("--out", type=Path, metavar="JSON", help="write the table, member by member, to a file")


def run(options: argparse.Namespace) -> int:
    _check_options(options)
    scipy_stats()  # fails before the parsing if scipy is missing
    ops = accel.load(options.backend)
    members = _members(ops, options)
    titles = list(dict.fromkeys(member.title for member in members))
    against = options.against or titles[0]
    if against not in (*titles, *BASELINES, ORACLE):
        raise ValueError(f"--against {against}: choose a row of {'; '.join((*titles, *BASELINES, ORACLE))}")
    all_gold = list(read_gold(options.gold, options.convention))
    skip_reasons = [unread(member.model, member.way, all_gold) for member in members]
    left_out = set().union(*skip_reasons)
    gold = [sentence for number, sentence in enumerate(all_gold) if number not in left_out]
    if not gold:
        first = next(reasons[0] for reasons in skip_reasons if 0 in reasons)
        raise LineError(options.gold, all_gold[0].line, f"{first}; no sentence of this file can be read by all models")
    spans: dict[str, list[list[Spans]]] = {}
    for member in members:
        spans.setdefault(member.title, []).append(_parse(ops, member, gold, options.batch_size))
    rows = {title: row(gold, member_spans, options.preset) for title, member_spans in spans.items()}
    rows |= baselines(gold, options.preset, options.seeds)
    comparisons = {title: _compare(scores, rows[against]) for title, scores in rows.items()}
    if options.out is not None:
        content = _content(options, members, rows, comparisons) | {
            "against": against,
            "sentences": len(gold),
            "left_out": {str(number + 1): _reasons(members, skip_reasons, number) for number in sorted(left_out)},
        }
        write_out(options.out, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    with figures(options.out):
        _print_scores(rows, comparisons, against)
        _print_recall(rows, gold)
        print(f"\nover {len(gold)} of {len(all_gold)} sentences")
        for member, reasons in zip(members, skip_reasons, strict=True):
            for number in sorted(reasons)[:1]:
                reason = f"the first {place(options.gold, all_gold[number].line)}: {reasons[number]}"
                print(f"{member.title}, {member.model.path}: sentences it cannot read: {len(reasons)}, {reason}")
    return 0


def _check_options(options: argparse.Namespace) -> None:
    for name in ("layers", "modes"):
        values = getattr(options, name) or []
        if len(set(values)) < len(values):
            raise ValueError(f"--{name} {' '.join(map(str, values))}: give every one once")
    check_outs(options, "out")


def _members(ops: ModuleType, options: argparse.Namespace) -> list[Member]:
    """Return a member for each checkpoint and each way in which it finds trees; members of one row are neighbours."""
    request = {name: getattr(options, name) for name in ("layers", "split", "modes", "beam", "max_height")}
    parsing = request | {name: request[name] or value for name, value in DEFAULTS.items()}
    members, of_name = list[Member](), dict[str, list[Model]]()
    for text in options.checkpoint:
        name, path = named(text)
        model = open_model(ops, path)
        if any(model.path == other.model.path for other in members):
            raise ValueError(f"{model.path}: given twice; seeds of a model are different runs")
        name = name or network_of(model)
        _check_seeds(name, model, of_name.setdefault(name, []))
        of_name[name].append(model)
        for way_name, way in ways_of(model, **parsing).items():
            members.append(Member(f"{name}, {way_name}", model, way))
    for name, ability, kinds in (
        ("layers", DISTANCES, "a language model"), ("split", DISTANCES, "a language model"),
        ("max_height", FULL_CHARTS, "a Treeformer"),
        ("modes", GPST_TREES, "a GPST"), ("beam", GPST_TREES, "a GPST"),
    ):  # fmt: skip
        if request[name] is not None and not any(can(member.model, ability) for member in members):
            raise OptionError(name, f"is for {kinds}, and none is given: leave it out")
    if request["beam"] is not None and MODES[-1] not in parsing["modes"]:
        raise OptionError("beam", f"is for the mode {MODES[-1]}: add it to --modes, or leave --beam out")
    order = list(dict.fromkeys(member.title for member in members))
    return sorted(members, key=lambda member: order.index(member.title))


def _check_seeds(name: str, model: Model, others: Sequence[Model]) -> None:
    """Raise ValueError if a model cannot be another seed of the models with its name."""
    use = f"use NAME={model.path} with another name"
    for other in others:
        if model.path.parent == other.path.parent:
            raise ValueError(f"{model.path}: {name}: a checkpoint of the same run as {other.path}; {use}")
        sizes, other_sizes = asdict(model.config), asdict(other.config)
        if differing := [key for key in sizes if sizes[key] != other_sizes.get(key)]:
            key = differing[0]
            differ = f"{key} is {sizes[key]}, and {other_sizes.get(key)} in {other.path}"
            raise ValueError(f"{model.path}: {name}: {differ}; {use}")


def _parse(ops: ModuleType, member: Member, gold: Sequence[GoldSentence], batch_size: int | None) -> list[Spans]:
    """Return the spans that a model finds in every sentence."""
    parsing = member.way | {"processes": processes(ops, member.model)}
    if batch_size is not None:
        parsing["batch_size"] = batch_size
    sentences = [sentence.words for sentence in gold]
    try:
        return list(progress(find_spans(ops, member.model, sentences, **parsing), len(sentences)))
    except OptionError as error:
        if error.option != "layer":
            raise
        raise ValueError(f"--layers{error.rest}") from error


def _compare(scores: Row, other: Row) -> dict[str, Any]:
    """Return the intervals of a row, and its difference from the row `other` with a test, as --out has them."""
    test = welch_of_members(scores, other) if scores is not other else None
    return {
        "interval": _ends(interval(scores)),
        "difference": scores.sentence_f1 - other.sentence_f1,
        "interval_of_difference": _ends(difference(scores, other)),
        "welch": None if test is None else test._asdict(),
    }


def _ends(interval: Interval | None) -> tuple[float, float] | None:
    return None if interval is None else (interval.low, interval.high)


def _print_scores(rows: Mapping[str, Row], comparisons: Mapping[str, Mapping[str, Any]], against: str) -> None:
    """Print the F1 of every row, and its difference from the row `against`."""
    head = [
        "seeds",
        "sentence F1",
        "95 % interval",
        "spread",
        "corpus F1",
        f"less {against}",
        "95 % interval",
        "Welch p",
    ]
    lines = [["", *head]]
    for title, scores in rows.items():
        beside = comparisons[title]
        line = [title, str(len(scores.scores)), f"{scores.sentence_f1:.1f}", _shown(beside["interval"])]
        line += ["-" if scores.spread is None else f"{scores.spread:.2f}", f"{scores.corpus_f1:.1f}"]
        if title == against:
            line += ["", "", ""]
        else:
            line += [f"{beside['difference']:+.1f}", _shown(beside["interval_of_difference"])]
            line.append("-" if beside["welch"] is None else f"{beside['welch']['p']:.2g}")
        lines.append(line)
    print_table(lines, n_names=1)
    print()


def _print_recall(rows: Mapping[str, Row], gold: Sequence[GoldSentence]) -> None:
    """Print the recall of the most frequent labels of constituents of two words or more, and their counts."""
    count = label_counts(gold)
    labels = frequent_labels(count, LABELS)
    lines = [["recall", *labels]]
    lines += [[title, *(f"{scores.recall(label):.1f}" for label in labels)] for title, scores in rows.items()]
    print_table([*lines, ["gold", *(f"{count[label]:,}" for label in labels)]], n_names=1)


def _shown(ends: tuple[float, float] | None) -> str:
    return "-" if ends is None else f"{ends[0]:.1f} to {ends[1]:.1f}"


def _reasons(members: Sequence[Member], skip_reasons: Sequence[Mapping[int, str]], number: int) -> dict[str, str]:
    """Return the reasons why a sentence cannot be read, by the title of the row."""
    of_members = zip(members, skip_reasons, strict=True)
    return {member.title: reasons[number] for member, reasons in of_members if number in reasons}


def _content(
    options: argparse.Namespace,
    members: Sequence[Member],
    rows: Mapping[str, Row],
    comparisons: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the content of --out: the options, and for every row its members and their mean."""
    paths = {title: [str(member.model.path) for member in members if member.title == title] for title in rows}
    settings = {name: getattr(options, name) for name in ("convention", "preset", "max_height")}
    settings |= {name: getattr(options, name) or DEFAULTS[name] for name in ("split", "beam")}
    table = {
        title: {
            "sentence_f1": scores.sentence_f1,
            "corpus_f1": scores.corpus_f1,
            "spread": scores.spread,
            **comparisons[title],
            "checkpoints": paths[title],
            "members": [asdict(member) for member in scores.scores],
        }
        for title, scores in rows.items()
    }
    return {"gold": str(options.gold), **settings, "rows": table}
