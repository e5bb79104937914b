"""How programs of the examples end: with one line where their user got something wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.program import run_program

PROGRAMS = [
    path
    for path in sorted((Path(__file__).parents[2] / "examples").rglob("*.py"))
    if '__name__ == "__main__"' in path.read_text(encoding="utf-8")
]


def test_mistakes_end_with_one_line() -> None:
    def of_user() -> None:
        raise ValueError("--steps: 0,\nbut one is needed")

    with pytest.raises(SystemExit, match="^error: --steps: 0, but one is needed$"):
        run_program(of_user)
    with pytest.raises(SystemExit, match="^error: nowhere: No such file or directory: check the name$"):
        run_program(Path("nowhere").read_text)
    with pytest.raises(KeyError):  # an error of ours stays as it is
        run_program({}.popitem)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_every_program_ends_so(path: Path) -> None:
    assert path.read_text(encoding="utf-8").rstrip().endswith("run_program(main)")
