"""How programs of the examples end: with one line where they are interrupted or their user got something wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from signal import SIGTERM

import pytest

from accel.training.signals import Stopped
from examples.fasttrees import logic
from examples.gpst import measure
from examples.program import run_program
from examples.transformer_grammars import demo, ensembles, exactness, hybrids, regressions, speed

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
    with pytest.raises(KeyError):  # an error of the program itself is not caught
        run_program({}.popitem)


@pytest.mark.parametrize(
    ("stop", "line", "status"),
    [
        (Stopped("stopped: step 3 of 9 is saved in r", SIGTERM, is_saved=True),
         "stopped: step 3 of 9 is saved in r; run the same command again to continue\n", 143),
        (Stopped("interrupted"), "interrupted\n", 130),
        (KeyboardInterrupt(), "interrupted\n", 130),
    ],
)  # fmt: skip
def test_an_interruption_ends_with_one_line(
    stop: KeyboardInterrupt, line: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> None:
        raise stop

    with pytest.raises(SystemExit) as end:
        run_program(interrupted)
    assert end.value.code == status and capsys.readouterr().err == line


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_every_program_ends_so(path: Path) -> None:
    assert path.read_text(encoding="utf-8").rstrip().endswith("run_program(main)")


@pytest.mark.parametrize(
    ("main", "option"),
    [(hybrids.main, "--seeds 0"), (hybrids.main, "--pairs -1"), (ensembles.main, "--subsets 0"),
     (speed.main, "--repeats 0"), (speed.main, "--steps-each 0"), (exactness.main, "--short 0"),
     (demo.main, "--pairs 0"), (logic.main, "--epochs 0"), (measure.read_options, "--most 0")],
)  # fmt: skip
def test_numbers_out_of_range_are_refused_at_once(
    main: Callable[[list[str]], object], option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="^2$"):
        main(option.split())
    assert f"argument {option.replace(' ', ': ')}: at least" in capsys.readouterr().err


@pytest.mark.parametrize("main", [hybrids.main, regressions.main, exactness.main])
def test_generated_test_sentences_have_a_number(main: Callable[[list[str]], object], tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="--test 0: means all real sentences, and these are generated: give"):
        main(["--test", "0", "--out", str(tmp_path)])
