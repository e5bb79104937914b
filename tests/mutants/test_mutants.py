"""Which places are mutated, which tests are chosen for a mutant, and what the report says."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.mutants import cuda_code, report, selection
from tests.mutants.mutant import Drawn, Mutant, applied, mutant_of

ROOT = Path(__file__).parents[2]
CUDA = """// a + b
__global__ void sum(const REAL* x, Long N)
{
    if (row < N) y[row] = f(a, b) + x[2 * row];
}
"""
PYTHON = '''"""a + b"""
from __future__ import annotations

def total(x: int | None, *, seed: int = 3) -> int | None:
    x[0] = x[0] + f(seed, x)
    path.unlink()
    return x
'''


def test_a_mutant_is_applied_where_its_lines_have_moved() -> None:
    source = "x = 1\ny = 2\nx = 1\nz = 3\n"
    mutant = mutant_of("a.py", "number", source, "x = 1\ny = 2\nx = 4\nz = 3\n")
    assert (mutant.line, mutant.before, mutant.after) == (3, "x = 1", "x = 4")
    assert applied(mutant, f"# new\n{source}") == "# new\nx = 1\ny = 2\nx = 4\nz = 3\n"
    assert applied(mutant, "y = 2\n") is None
    assert mutant.diff() == "- x = 1\n+ x = 4\n"


def test_a_dropped_line_is_a_mutant() -> None:
    mutant = mutant_of("a.py", "", "f(x,\n  y)\nz\n", "pass\nz\n")
    assert (mutant.before, mutant.after) == ("f(x,\n  y)", "pass") and list(mutant.lines) == [1, 2]


def test_mutants_of_cuda_sources() -> None:
    """Comments and declarations are not mutated; every mutant changes its line."""
    texts = {m.after.strip() for place in cuda_code.places("a.cu", CUDA) for m in place}
    assert texts == {
        "if (row <= N) y[row] = f(a, b) + x[2 * row];", "if (row >= N) y[row] = f(a, b) + x[2 * row];",
        "if (row < N) y[row] = f(a, b) - x[2 * row];", "if (row < N) y[row] = f(a, b) + x[2 / row];",
        "if (row < N) y[row] = f(a, b) + x[3 * row];", "if (row < N) y[row] = f(a, b) + x[1 * row];",
        "if (row < N) y[row + 1] = f(a, b) + x[2 * row];", "if (row < N) y[row - 1] = f(a, b) + x[2 * row];",
        "if (row < N) y[row] = f(a, b) + x[2 * row + 1];", "if (row < N) y[row] = f(a, b) + x[2 * row - 1];",
        "if (row < N) y[row] = f(a, b);", "if (row < N) y[row] = f(b, a) + x[2 * row];",
    }  # fmt: skip


def test_mutants_of_python() -> None:
    """Annotations, strings, and lines that remove a file are not mutated."""
    pytest.importorskip("cosmic_ray", reason="pip install 'grove-lm[mutants]'")
    from tests.mutants import python_code

    places = python_code.places(PYTHON)
    mutants = [m for place in places for x in place if (m := python_code.mutant("a.py", PYTHON, *x)) is not None]
    assert {m.after.strip() for m in mutants} == {
        "def total(x: int | None, *, seed: int = 4) -> int | None:",
        "def total(x: int | None, *, seed: int = 2) -> int | None:",
        "pass", "x[0] = x[0]", "x[0] = x[0] - f(seed, x)", "x[0] = x[0] + f(x, seed)",
        "x[ 1] = x[0] + f(seed, x)", "x[ -1] = x[0] + f(seed, x)",
        "x[0] = x[ 1] + f(seed, x)", "x[0] = x[ -1] + f(seed, x)",
    }  # fmt: skip


def test_users_of_a_file_are_those_that_import_or_include_it() -> None:
    assert {"accel/cuda/layers.cu", "accel/cuda/layers.py"} <= selection.users("accel/cuda/support/warp.cu", ROOT)
    assert selection.users("accel/cuda/gelu.cu", ROOT) >= {"accel/cuda/gelu.py"}
    users = selection.users("accel/cpu/support/tiles.py", ROOT)
    assert "accel/cpu/dot_product_attention.py" in users and "accel/cpu/cumax.py" not in users


def test_tests_are_chosen_by_line_the_fastest_first() -> None:
    """For a line that is compiled, or that no test runs, all tests of its files are chosen."""
    path = "accel/search/beam.py"
    contexts = selection.Contexts({"slow": 2.0, "fast": 1.0, "other": 0.5}, {path: {3: ["slow", "fast"], 9: ["other"]}})
    mutants = [Mutant(path, line, "", "x", "y") for line in (3, 5)]
    assert [selection.concerned(m, contexts, ROOT) for m in mutants] == [["fast", "slow"], ["other", "fast", "slow"]]


def test_outcomes_survive_a_line_that_was_cut_off(tmp_path: Path) -> None:
    """The last outcome of a mutant counts; tests run up to a number of seconds."""
    for tool in ("cosmic_ray", "coverage"):
        pytest.importorskip(tool, reason="pip install 'grove-lm[mutants]'")
    from tests.mutants import run
    from tests.mutants.workplace import Outcome, Workplace

    place = Workplace(tmp_path)
    first, other = Outcome("a", "survived", "", 1.0), Outcome("b", "caught", "a test", 2.0)
    place.record(first)
    with open(place.results, "a") as file:
        file.write('{"name": "c", "resu')
    assert place.outcomes() == {"a": first}
    place.record(other)
    place.record(Outcome("a", "caught", "another", 3.0))
    assert {name: outcome.by for name, outcome in place.outcomes().items()} == {"a": "another", "b": "a test"}
    seconds = {"tests/a": 1.0, "accel/verify/test_values.py::b": 50.0, "tests/c": 20.0, "tests/d": 90.0}
    stages = list(run.stages(list(seconds), selection.Contexts(seconds, {}), 60.0))
    assert [(profile, len(tests)) for profile, tests, _ in stages] == [("quick", 2), ("dev", 1)]


def test_the_report() -> None:
    """Equivalent mutants count neither as caught nor as passed; mutants that did not run do not count."""
    mutants = [Mutant("accel/cpu/a.py", i, "", f"x = {i}", f"x = {i + 1}") for i in range(5)]
    results = dict(zip(mutants, ("caught", "survived", "survived", "not compiled"), strict=False))
    outcomes = {m.name: SimpleNamespace(result=result, by="time", limit=15.0) for m, result in results.items()}
    drawing = Drawn(7, ["accel/cpu/a.py"], mutants)
    text = report.part(drawing, outcomes, outcomes, {report.key(mutants[2]): "nobody reads it."})
    assert "3 of the 5 drawn were run: 1 are caught, 1 are equivalent, 1 passed: 50.0 %." in text
    assert "1 are counted as caught because a test took too long." in " ".join(text.split())
    assert "with more examples as many again: 15 (3 mutants)." in " ".join(text.split())
    assert text.startswith("## Drawn by seed 7 of new files\n") and "\nThe files: accel/cpu/a.py.\n" in text
    assert "| accel/cpu | 3 | 1 | 1 | 1 | 50.0 % |" in text
    survivors, equivalent = text.split("### Passed")[1].split("### Equivalent")
    assert "accel/cpu/a.py:1\n\n```diff\n- x = 1\n+ x = 2\n```" in survivors and "nobody" not in survivors
    assert "accel/cpu/a.py:2: nobody reads it.\n" in equivalent


def test_the_page_names_the_folders_of_its_tables() -> None:
    text = (ROOT / report.REPORT).read_text()
    folders = set(re.findall(r"^\| (accel/\w+)", text, re.MULTILINE))
    assert len(folders) == 8 and text.startswith(report.introduction(folders) + "\n## Drawn")


def test_the_page_is_of_the_folders_that_were_drawn(tmp_path: Path) -> None:
    page, mutants = tmp_path / "page.md", [Mutant(f"accel/{name}/a.py", 1, "", "x", "y") for name in ("data", "cpu")]
    report.write(page, [Drawn(0, [], mutants)], {}, {})
    assert "wrong versions of our own code in `accel/cpu`, `accel/data`." in page.read_text()


def test_equivalent_mutants_are_those_of_lines_that_are_there() -> None:
    for path, before, _ in report.equivalents():
        assert before in (ROOT / path).read_text(), f"{path}: {before}: gone, remove it from {report.EQUIVALENT}"
