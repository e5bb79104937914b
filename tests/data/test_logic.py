"""Logical inference: formulas, relations over 64 worlds, the files, and the generator that writes more of them."""

from __future__ import annotations

import lzma
import subprocess
import sys
from collections import Counter
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.data.files.lines import LineError, read_lines
from accel.data.generated import logic
from accel.data.generated.logic import ATOMS, OPERATORS, RELATIONS, WORDS, WORLDS, parse, relation, worlds

Tree = Any
TREES: st.SearchStrategy[Tree] = st.recursive(
    st.sampled_from(ATOMS),
    lambda below: st.tuples(st.just("not"), below) | st.tuples(st.sampled_from(["and", "or"]), below, below),
    max_leaves=12,
)


def written(tree: Tree) -> str:
    match tree:
        case ("not", below):
            return f"( not {written(below)} )"
        case (operator, left, right):
            return f"( {written(left)} ( {operator} {written(right)} ) )"
    return str(tree)


def true(tree: Tree, world: dict[str, bool]) -> bool:
    match tree:
        case ("not", below):
            return not true(below, world)
        case (operator, left, right):
            sides = true(left, world), true(right, world)
            return all(sides) if operator == "and" else any(sides)
    return world[tree]


EVERY_WORLD = [dict(zip(reversed(ATOMS), w, strict=True)) for w in product([False, True], repeat=6)]


@given(TREES)
def test_a_formula_is_true_where_its_meaning_is(tree: Tree) -> None:
    true_worlds = worlds(parse(written(tree).split()))
    assert [bool(true_worlds >> w & 1) for w in range(64)] == [true(tree, world) for world in EVERY_WORLD]


@given(st.integers(1, WORLDS - 1), st.integers(1, WORLDS - 1), st.integers(1, WORLDS - 1))
def test_relations_turn_round_and_follow_negation(a: int, b: int, c: int) -> None:
    converse = dict(zip("=<>^|v#", "=><^|v#", strict=True))
    for x, y in ((a, b), (a & c or a, a), (a, WORLDS ^ a), (a | b, a)):
        if {x, y} & {0, WORLDS}:
            continue
        assert relation(y, x) == converse[relation(x, y)]
        negated = dict(zip("=<>^|v#", "=><^v|#", strict=True))
        assert relation(WORLDS ^ x, WORLDS ^ y) == negated[relation(x, y)]


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("a", "a", "="),
        ("( a ( and b ) )", "a", "<"),
        ("a", "( a ( and b ) )", ">"),
        ("a", "( not a )", "^"),
        ("( a ( and b ) )", "( not a )", "|"),
        ("( a ( or b ) )", "( not a )", "v"),
        ("a", "b", "#"),
        ("( a ( or ( not a ) ) )", "b", "#"),
    ],
)
def test_the_seven_relations(left: str, right: str, expected: str) -> None:
    assert relation(*(worlds(parse(side.split())) for side in (left, right))) == expected


GOOD = "=\ta\ta\n#\t( a ( and b ) )\tc\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("? \ta\tb", "unknown relation '?': it must be one of < > = ^ | # v"),
        ("=\ta", "2 column(s), not relation, left and right between tabs"),
        ("", "1 column(s), not relation, left and right between tabs"),
        ("=\ta\ta\ta", "4 column(s), not relation, left and right between tabs"),
        ("=\t \ta", "left formula: 0 tokens are not one formula"),
        ("=\ta\t( not a", "right formula: 1 open bracket(s) without a closing one"),
        ("=\t( not a ) )\ta", "left formula: token 5: a closing bracket without an opening one"),
        ("=\tg\ta", "left formula: token 1: unknown token 'g'"),
        ("=\tnot a\ta", "left formula: token 1, 'not', is an operator in the wrong place"),
        ("=\t( a and b )\ta", "left formula: token 3, 'and', is an operator in the wrong place"),
        ("=\t( and a )\ta", "left formula: 4 tokens are not one formula"),
        ("=\ta\t( a )", "right formula: the bracket that token 3 closes does not hold one operator"),
        ("=\ta\t( a ( not b ) )", "right formula: the bracket that token 7 closes does not hold one operator"),
        ("=\ta\t( not ( and b ) )", "right formula: the bracket that token 7 closes does not hold one operator"),
        ("=\ta\t( ( and b ) a )", "right formula: the bracket that token 7 closes does not hold one operator"),
        ("=\ta\t( )", "right formula: the bracket that token 2 closes does not hold one operator"),
        ("=\ta\ta b", "right formula: 2 tokens are not one formula"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "train1"
    path.write_text(GOOD + line + "\n" + GOOD)
    with pytest.raises(LineError) as error:
        list(logic.read_pairs(path))
    assert str(error.value).startswith(f"{path}:3: {message}")


def test_deep_brackets_are_no_matter(tmp_path: Path) -> None:
    deep = "( not " * 4000 + "a" + " )" * 4000
    assert worlds(parse(deep.split())) == worlds(("a",))


def test_every_tenth_line_is_validation(tmp_path: Path) -> None:
    lines = [f"{r}\t{a}\t( not {b} )\n" for r, a, b in islice(product(RELATIONS, ATOMS, ATOMS), 47)]
    (tmp_path / "train0.xz").write_bytes(lzma.compress("".join(lines[:13]).encode()))
    (tmp_path / "train1").write_bytes("".join(lines[13:]).replace("\n", "\r\n").encode())
    training, validation = logic.load_training(tmp_path, (0, 1))
    assert (len(training), len(validation)) == (43, 4) and training.width == 2

    def pairs(examples: Any) -> list[str]:
        sides = [examples.ids[a:b] for a, b in zip(examples.offsets, examples.offsets[1:], strict=False)]
        texts = [" ".join(WORDS.decode(side)) for side in sides]
        return [f"{RELATIONS[n]}\t{texts[2 * i]}\t{texts[2 * i + 1]}\n" for i, n in enumerate(examples.labels)]

    assert pairs(validation) == lines[9::10]
    assert pairs(training) == [line for number, line in enumerate(lines, 1) if number % 10]


def test_there_are_thirteen_lengths(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="lengths are 0..12, not 13"):
        logic.load_test(tmp_path, 13)
    with pytest.raises(FileNotFoundError, match="no such file"):
        logic.load_test(tmp_path, 3)


def test_written_files_hold_valid_pairs(tmp_path: Path) -> None:
    counts = logic.write_files(tmp_path, 3000, seed=5)
    atoms = set()
    for n in range(13):
        lines = []
        for kind in ("train", "test"):
            path = tmp_path / f"{kind}{n}"
            if not counts[path.name]:
                continue
            lines += [line for _, line in read_lines(path)]
            for example in logic.read_pairs(path):
                left, right = (worlds(parse(side)) for side in example.sentences)
                assert relation(left, right) == example.label and not {left, right} & {0, WORLDS}
                assert min(12, max(sum(t in OPERATORS for t in side) for side in example.sentences)) == n
                atoms.add(frozenset(t for side in example.sentences for t in side if t in ATOMS))
        assert len(set(lines)) == len(lines) == counts[f"train{n}"] + counts[f"test{n}"]
        assert counts[f"train{n}"] == int(0.85 * len(lines))
    assert max(map(len, atoms)) == 4 and frozenset().union(*atoms) == set(ATOMS)
    logic.write_files(tmp_path / "again", 3000, seed=5)
    logic.write_files(tmp_path / "other", 3000, seed=6)
    texts = [(tmp_path / part / "train4").read_text() for part in (".", "again", "other")]
    assert texts[0] == texts[1] != texts[2]
    (tmp_path / "again" / "train0").unlink()
    with pytest.raises(FileExistsError, match="test0"):
        logic.write_files(tmp_path / "again", 3000, seed=5)
    assert not (tmp_path / "again" / "train0").exists()


def test_the_command_line_writes_files(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "accel.data.generated.logic", "--out", str(tmp_path), "--samples"]
    process = subprocess.run([*command, "200"], capture_output=True, text=True, check=True)
    assert len(process.stdout.splitlines()) == 26 and (tmp_path / "test12").exists()
    process = subprocess.run([*command, "0"], capture_output=True, text=True, check=False)
    assert process.returncode == 2 and "samples must be at least 1, not 0" in process.stderr


def test_labels_of_the_real_files(data_dir: Path) -> None:
    """The labels of every fortieth pair of every file are recomputed; lengths and sizes are those of the papers."""
    folder = data_dir / "logical_inference"
    for n, kind in product(range(13), ("train", "test")):
        for _, line in islice(read_lines(folder / f"{kind}{n}.xz"), 0, None, 40):
            label, *sides = line.split("\t")
            assert relation(*(worlds(parse(side.split())) for side in sides)) == label
            assert min(12, max(sum(t in OPERATORS for t in side.split()) for side in sides)) == n
    training, validation = logic.load_training(folder)
    assert (len(training), len(validation)) == (121_977, 13_552)
    fifth = logic.load_test(folder, 5)
    assert len(fifth) == 6027 and abs(np.diff(fifth.offsets).mean() - 15.2) < 0.2


def test_generated_files_are_like_the_real_ones(data_dir: Path, tmp_path: Path) -> None:
    """Among pairs of five operators, each relation has the same share, within four standard deviations."""
    logic.write_files(tmp_path, 60_000, seed=1)
    n = 5
    here = Counter(pair.label for pair in logic.read_pairs(tmp_path / f"train{n}"))
    there = Counter(pair.label for pair in logic.read_pairs(data_dir / "logical_inference" / f"train{n}.xz"))
    for name in RELATIONS:
        p = there[name] / there.total()
        assert abs(here[name] / here.total() - p) < 4 * np.sqrt(p * (1 - p) / here.total())
