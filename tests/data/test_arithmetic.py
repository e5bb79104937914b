"""Arithmetic problems: their answers, a stream that never changes, and a test set apart from the training set."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.data.batches.sequence_pairs import pair_batches
from accel.data.batches.sized import SizedBatches
from accel.data.files.lines import LineError
from accel.data.generated.arithmetic import VOCABULARY, Problems, _is_held_out, answer, encode, problem, read_problems


@given(st.integers(-1000, 999), st.integers(-1000, 999), st.sampled_from("+-*"), st.booleans(), st.booleans())
def test_answers(x: int, y: int, operator: str, y_first: bool, turned: bool) -> None:
    assigned = [f"x={x}", f"y={y}"][:: -1 if y_first else 1]
    left, right, (a, b) = ("y", "x", (y, x)) if turned else ("x", "y", (x, y))
    expected = {"+": a + b, "-": a - b, "*": a * b}[operator]
    assert answer(",".join([*assigned, left + operator + right])) == expected


PATTERN = re.compile(r"(x=(-?\d+),y=(-?\d+)|y=(-?\d+),x=(-?\d+)),(x.y|y.x)")


def test_problems_are_spread_over_everything() -> None:
    texts = [problem(7, i) for i in range(4000)]
    assert all(PATTERN.fullmatch(text) for text in texts) and len(set(texts)) == 4000
    counts = Counter(text[-2] for text in texts)
    assert all(abs(counts[c] - 4000 / 3) < 4 * np.sqrt(4000 * 2 / 9) for c in "+-*")
    forms = Counter((text[0], text[-3]) for text in texts)
    assert len(forms) == 4 and all(abs(n - 1000) < 4 * np.sqrt(750) for n in forms.values())
    numbers = np.array([[int(n) for n in re.findall(r"-?\d+", text[: text.rindex(",")])] for text in texts])
    assert numbers.min() >= -1000 and numbers.max() <= 999 and np.all(abs(numbers.mean(0) + 0.5) < 4 * 577 / 63)


def test_the_test_set_is_apart() -> None:
    """A test problem is not in training either with exchanged operands or with other names of the variables."""

    def operands(text: str) -> tuple[str, ...]:
        return text[-2], *sorted(re.findall(r"-?\d+", text[: text.rindex(",")]))

    train, test = (
        {operands(problem(seed, i, split)) for i in range(3000)} for seed, split in ((1, "train"), (2, "test"))
    )
    assert not train & test
    small = [f"x={x},y={y},x{o}y" for x in range(30) for y in range(x) for o in "+-*"]
    flags = [_is_held_out(*map(int, re.findall(r"\d+", text)), text[-2]) for text in small]
    assert abs(sum(flags) - 0.1 * len(flags)) < 4 * np.sqrt(0.09 * len(flags))
    operands_of = {o: [(x, y) for x in range(9) for y in range(x, 9) if _is_held_out(x, y, o)] for o in "+-*"}
    assert operands_of == {
        "+": [(0, 0), (0, 4), (2, 7), (3, 4), (4, 6), (5, 6), (5, 7), (8, 8)], "-": [(1, 3), (5, 7)], "*": [(0, 7)],
    }  # fmt: skip


def test_problem_number_i_is_always_the_same() -> None:
    """The texts are those of another process, so that a stored model is tested on what it was not trained on."""
    assert [problem(3, i) for i in range(3)] == ["x=483,y=732,y-x", "x=888,y=243,y-x", "y=-612,x=-637,y*x"]
    tests = [problem(3, i, "test") for i in range(3)]
    assert tests == ["x=831,y=-459,y-x", "x=962,y=222,y-x", "y=554,x=-758,x*y"]
    problems = Problems(20, seed=3)
    for i, (source, target) in enumerate(problems[i] for i in range(20)):
        text = "".join(VOCABULARY.decode(source.tolist()))
        assert text == problem(3, i) and "".join(VOCABULARY.decode(target.tolist())) == str(answer(text))
    with pytest.raises(IndexError, match="problem 20 of 20"):
        problems[20]
    assert len(VOCABULARY) == 19


def test_a_stream_of_problems_resumes_where_it_stopped() -> None:
    def stream() -> SizedBatches:
        return pair_batches(Problems(300, seed=1), 200, ops=SimpleNamespace(xp=np), epochs=None, pool=64)

    first, second = stream(), stream()
    for _ in range(9):
        next(first)
    second.restore(first.state())
    for _ in range(60):
        a, b = next(first), next(second)
        assert np.array_equal(a.ids, b.ids) and np.array_equal(a.source_ids, b.source_ids)


def test_a_file_of_problems(tmp_path: Path) -> None:
    path = tmp_path / "problems.txt"
    path.write_bytes(b"x=85,y=-523,x*y:-44455\r\ny=1,x=2,y-x:-1\n")
    assert list(read_problems(path)) == [("x=85,y=-523,x*y", -44455), ("y=1,x=2,y-x", -1)]
    assert [len(ids) for ids in encode("x=85,y=-523,x*y", -44455)] == [15, 6]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("x=1,y=2,x+y", "no colon between a problem and its answer"),
        ("", "no colon between a problem and its answer"),
        ("x=1,x=2,x+y:3", "'x=1,x=2,x+y' is not a problem such as 'x=85,y=-523,x*y'"),
        ("x=1,y=2,x+x:2", "'x=1,y=2,x+x' is not a problem"),
        ("x=1,y=2,x/y:0", "'x=1,y=2,x/y' is not a problem"),
        ("x=1,y=2,x+y:4", "the answer to x=1,y=2,x+y is 3, not '4'"),
        ("x=1,y=2,x+y:", "the answer to x=1,y=2,x+y is 3, not ''"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "problems.txt"
    path.write_text(f"x=1,y=2,x+y:3\n{line}\n")
    with pytest.raises(LineError) as error:
        list(read_problems(path))
    assert str(error.value).startswith(f"{path}:2: {message}")


def test_unknown_splits_are_named() -> None:
    for call in (lambda: problem(1, 1, "dev"), lambda: Problems(1, 1, "dev")):
        with pytest.raises(ValueError, match="unknown split 'dev': choose one of train, test"):
            call()
