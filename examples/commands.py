"""Functions that programs of all papers share: they run `grove`, print tables, and compare with expected figures."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from accel import cli
from accel.data.generated.grammar import ENGLISH
from examples import markdown
from refimpl.trees import Tree, words

EXPECTED = "expected.json"  # beside each program, for runs without options: [figure, tolerance]
FIGURES = "figures.json"

Figures = Mapping[str, Mapping[str, float]]
"""The figures of each model, by name."""


def grove(*arguments: object) -> None:
    """Print a command of grove and run it; an error ends the program."""
    line = [str(argument) for argument in arguments]
    print(f"$ grove {' '.join(line)}", flush=True)
    status = cli.main(line)
    if status:
        raise SystemExit(status)


def set_options(settings: Iterable[str]) -> list[str]:
    """Return the settings NAME=VALUE as options of `grove train`.

    >>> set_options(["d_model=64", "dropout=0"])
    ['--set', 'd_model=64', '--set', 'dropout=0']
    """
    return [word for setting in settings for word in ("--set", setting)]


def write_sentences(out: Path, n_train: int, n_test: int) -> list[str | Path]:
    """Write texts of generated English without full stops, and the trees of the test text; return `grove`'s options."""
    out.mkdir(parents=True, exist_ok=True)
    options: list[str | Path] = []
    for seed, (option, size) in enumerate({"data": n_train, "validation": 300, "test": n_test}.items(), 1):
        trees = [Tree(tree.label, tree.children[:-1]) for tree in ENGLISH.sample(size, seed)]
        path = out / f"{option}.txt"
        path.write_text("".join(f"{' '.join(words(tree))}\n" for tree in trees), encoding="utf-8")
        options += [f"--{option}", path]
    (out / "test.trees").write_text("".join(f"{tree}\n" for tree in trees), encoding="utf-8")
    return options


def table(figures: Figures, columns: Sequence[str], scale: float = 100.0) -> str:
    """Return the figures times `scale` in Markdown, a row for each model; a missing figure leaves its cell empty."""
    rows = [
        (model, *(f"{scale * row[column]:.1f}" if column in row else "" for column in columns))
        for model, row in figures.items()
    ]
    return markdown.table(("model", *columns), rows)


def compare(program: str, figures: Figures) -> list[str]:
    """Return a line for every figure that is further from the expected one than its tolerance; `program` is a file."""
    expected = json.loads(Path(program).with_name(EXPECTED).read_text(encoding="utf-8"))[Path(program).stem]
    return [
        f"  {model}, {name}: {figures[model][name]:.3f}, expected {value} ± {tolerance}"
        for model, values in expected.items()
        for name, (value, tolerance) in values.items()
        if not abs(figures[model][name] - value) <= tolerance
    ]


def finish(program: str, figures: Figures, out: Path) -> None:
    """Write the figures of a program, a file, and print those that are not as expected."""
    (out / FIGURES).write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    print_differences(program, figures)


def print_differences(program: str, figures: Figures) -> None:
    """Print the figures of a program that are not as expected."""
    differences = compare(program, figures)
    print("\n".join(["", f"{len(differences)} figures are not as expected in {EXPECTED}", *differences]))
