"""`grove compare`: a blind sheet of two models' translations, for people to judge, and the table of what they found."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import accel
from accel.commands.compare_page import page
from accel.commands.opened import check_out, named
from accel.commands.tables import print_table
from accel.commands.translate import add_search, check_sources, open_translator
from accel.data.batches.sequence_pairs import read_parallel
from accel.data.corpora.parallel import PARTS
from accel.data.files.archive import archive_of
from accel.data.files.lines import is_standard
from accel.evaluation.error_analysis import CATEGORIES, count_errors, draw
from accel.evaluation.error_sheet import (
    KEY,
    Item,
    Judged,
    Key,
    item,
    key_of,
    key_text,
    read_key,
    read_sheet,
    sheet_text,
)
from accel.search.translations import SEARCH, translations
from accel.tasks.numbers import at_least
from accel.tasks.pairs import OTHER_DATA, parallel_files
from accel.trained.opening import Model
from accel.trained.options import OptionError
from accel.training.directory import load_settings, write_text

WRITING = ("sentences", "seed", "data", "part", "out", "average", *SEARCH, "backend")
TALLY = ("key", "category", "examples")


class Files(NamedTuple):
    """The files that the command writes."""

    page: Path
    sheet: Path
    key: Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    help_text = "two runs of grove train --task translation, each perhaps with the name that the tally prints"
    parser.add_argument("runs", nargs="*", metavar="[NAME=]RUN", help=help_text)
    parser.add_argument("--sentences", type=at_least(1), default=50, metavar="N", help="drawn at random (50)")
    parser.add_argument("--seed", type=at_least(0), default=0, help="of the draw and of who is A (0)")
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER", help="the sentences (default: the data of the first run)"
    )
    parser.add_argument("--part", choices=PARTS, default="validation", help="of the data (validation)")
    help_text = "the files to write: NAME.html and NAME.tsv to judge, NAME.key.json to keep (comparison)"
    parser.add_argument("--out", type=Path, default=Path("comparison"), metavar="NAME", help=help_text)
    add_search(parser)
    tally = parser.add_argument_group("of a judged sheet")
    help_text = "print the table of a judged sheet, instead of writing one"
    tally.add_argument("--tally", type=Path, metavar="SHEET", help=help_text)
    tally.add_argument("--key", type=Path, metavar="FILE", help=f"the key of the sheet (default: its name with {KEY})")
    help_text = "the category whose examples are printed (pred-arg)"
    tally.add_argument("--category", choices=CATEGORIES, default="pred-arg", help=help_text)
    help_text = "how many sentences to print, for each model, in which it alone has --category (1)"
    tally.add_argument("--examples", type=at_least(0), default=1, metavar="N", help=help_text)


def run(options: argparse.Namespace) -> int:
    if options.tally is not None:
        _check_unused(options, WRITING, "is not for --tally: leave it out")
        if options.runs:
            raise ValueError(f"--tally: takes no runs, but {options.runs[0]} is given; its key names them")
        if not (is_standard(options.tally) or archive_of(options.tally) or options.tally.exists()):
            raise ValueError(f"--tally {options.tally}: no such file: name a judged sheet")
        key = read_key(key_of(options.tally) if options.key is None else options.key)
        _print_tally(read_sheet(options.tally, key), key, options.category, options.examples)
        return 0
    if len(options.runs) != 2:
        raise ValueError(f"RUN: {len(options.runs)} are given; give two runs, or --tally SHEET")
    _check_unused(options, TALLY, "is for --tally SHEET only: leave it out")
    _write_sheet(options)
    return 0


def _check_unused(options: argparse.Namespace, names: Sequence[str], reason: str) -> None:
    """Raise ValueError if one of these options is given, with another value than its default."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    for name in names:
        if getattr(options, name) != parser.get_default(name):
            raise OptionError(name, reason)


def _write_sheet(options: argparse.Namespace) -> None:
    files = _files(options.out)
    names, paths = _named_runs(options.runs)
    ops = accel.load(options.backend)
    models = [open_translator(ops, path, options.average) for path in paths]
    settings = _settings(paths)
    if options.data is None and settings["data"] is None:
        raise ValueError(f"--data is missing: the options of {paths[0]} name no data")
    data = options.data or Path(settings["data"])
    source, target = parallel_files(data, settings, options.part, OTHER_DATA)
    pairs = list(read_parallel(source, target))
    if options.sentences > len(pairs):
        raise ValueError(f"--sentences {options.sentences}: {source} has {len(pairs)}: give at most that many")
    sample = draw(options.sentences, len(pairs), options.seed)
    for model in models:
        check_sources(model, str(source), {i + 1: pairs[i][0] for i, _ in sample}, options.extra_length)
    sources, references = zip(*(pairs[i] for i, _ in sample), strict=True)
    first, second = (_outputs(ops, *system, sources, options) for system in zip(names, models, strict=True))
    items = [
        item(number, " ".join(sources[number]), " ".join(references[number]), (one, two) if is_a else (two, one))
        for number, ((_, is_a), one, two) in enumerate(zip(sample, first, second, strict=True))
    ]
    about: dict[str, Any] = {"checkpoints": [os.path.abspath(model.path) for model in models], "source": str(source)}
    about |= {"reference": str(target), "lines": [i + 1 for i, _ in sample], "seed": options.seed}
    about |= {name: getattr(options, name) for name in (*SEARCH, "average")}
    letters = {each.id: "A" if is_a else "B" for each, (_, is_a) in zip(items, sample, strict=True)}
    write_text(files.key, key_text(Key(names, letters, about)))
    write_text(files.sheet, sheet_text(items))
    write_text(files.page, page(items, files.sheet.name))
    print(f"{files.page}: {len(items)} sentences of {Path(str(source)).name}, to judge in a browser")
    print(f"{files.sheet}: the same for a spreadsheet: fill in errors A and errors B")
    print(f"{files.key}: which output is whose: keep it from the judge, for --tally")


def _files(out: Path) -> Files:
    """Return the files to write; ValueError if one cannot be written, or exists, for it may be judged already."""
    if is_standard(out) or not out.name:
        raise ValueError(f"--out {out}: three files are written: give the beginning of their names")
    files = Files(*(out.with_name(out.name + ending) for ending in (".html", ".tsv", KEY)))
    for path in files:
        check_out(path)
        if path.exists():
            raise ValueError(f"--out {out}: {path} exists, and may be judged already: give another name")
    return files


def _named_runs(texts: Sequence[str]) -> tuple[tuple[str, str], list[Path]]:
    """Return the names and the paths of two runs; the default name of a run is that of its directory."""
    runs = [named(text) for text in texts]
    paths = [Path(path) for _, path in runs]
    one, other = (name or path.resolve().name for (name, _), path in zip(runs, paths, strict=True))
    if one == other:
        use = f"give {'another ' * bool(runs[1][0])}NAME={paths[1]}"
        raise ValueError(f"{texts[1]}: is called {other}, as the first run is; {use}")
    return (one, other), paths


def _settings(paths: Sequence[Path]) -> dict[str, Any]:
    """Return the options of the first run; ValueError unless both translate between the same languages."""
    both = [load_settings(path.parent if path.is_file() else path)[1] for path in paths]
    for path, settings in zip(paths, both, strict=True):
        if settings.get("task") != "translation":
            raise ValueError(f"{path}: is a run of the task {settings.get('task')}; compare two of translation")
    ends = [(settings["source"], settings["target"]) for settings in both]
    if ends[0] != ends[1]:
        one, other = (" to ".join(pair) for pair in ends)
        raise ValueError(f"{paths[1]}: translates {other}, but {paths[0]} {one}; compare runs of the same languages")
    return both[0]


def _outputs(
    ops: ModuleType, name: str, model: Model, sources: Sequence[Sequence[str]], options: argparse.Namespace
) -> list[str]:
    """Return the output for every source; a message says how many have no end, and are cut at their limit."""
    outputs = translations(ops, model, sources, **{name: getattr(options, name) for name in SEARCH})
    if n_cut := sum(output.limit is not None for output in outputs):
        limits = f"raise --extra-length ({options.extra_length})"
        print(f"grove: {name}: {n_cut} of {len(outputs)} outputs are cut at their limit: {limits}", file=sys.stderr)
    return [" ".join(str(output).split()) for output in outputs]


def _print_tally(sentences: Sequence[Judged], key: Key, category: str, n_examples: int) -> None:
    """Print the table of errors with its tests, as Treeformer's Table 5, and examples, as its Table 6."""
    one, other = key.names
    rows = [["", one, other, f"only {one}", f"only {other}", "p", "Holm p"]]
    for row in count_errors([sentence.errors for sentence in sentences]):
        counts = [str(n) for n in (row.first, row.second, row.only_first, row.only_second)]
        rows.append([row.name, *counts, f"{row.p:.3g}", f"{row.adjusted:.3g}"])
    print_table(rows, n_names=1)
    print(f"\nover {len(sentences)} sentences; of total errors, only: with more errors than the other")
    print("p: two-sided exact sign test over sentences (McNemar's); Holm p: among the tests of all rows")
    for number, name in enumerate(key.names):
        having = [s for s in sentences if category in s.errors[number] and category not in s.errors[1 - number]]
        for sentence in having[:n_examples]:
            print(f"\n{category} of {name} alone, {len(having)} in all:")
            _print_example(sentence.item, key.names)


def _print_example(example: Item, names: tuple[str, str]) -> None:
    lines = {"input": example.source, **dict(zip(names, example.outputs, strict=True)), "gold": example.reference}
    width = max(map(len, lines))
    for name, text in lines.items():
        print(f"{name.ljust(width)}  {text}".rstrip())
