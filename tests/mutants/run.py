"""Mutation testing: draw wrong versions of our own code, run the tests that concern each, and record which pass.

make mutants [MUTANTS='--count 500 --seed 0 --state runs/mutants']
make mutants MUTANTS='--seed 1 --files accel/cpu/pair_layers.py accel/cpu/support/rows.py'

The state folder has a copy of the checkout, in which mutants are made, the record of which test runs which line, the
drawn mutants, and their outcomes, one per line; an interrupted run resumes from it. The checkout itself is not changed.
A mutant is caught if a test fails, if the process ends by a signal, or if it takes much longer than the right code.
First the doctests of the mutated file run, then the tests that run the mutated lines, the fastest first, then property
tests again with more examples.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.mutants import report, selection
from tests.mutants.draw import all_drawn, drawn_by
from tests.mutants.mutant import Mutant, applied
from tests.mutants.workplace import ROOT, Outcome, Workplace, copy_checkout

SECONDS = 60.0
"""The most seconds of tests for a mutant, as measured; property tests with the usual examples get as many again."""
COMPILING_SECONDS, WIDER_SECONDS = 300.0, 900.0
ONE_FAILURE = ("-p", "tests.mutants.limit", "-x", "--hypothesis-profile")


def cache_without(place: Workplace, path: str) -> Path:
    """Return a Numba cache without the functions that contain this file's code, which are compiled anew."""
    if not path.startswith("accel/cpu/"):
        return place.cache
    cache = place.state / "numba-mutant"
    shutil.rmtree(cache, ignore_errors=True)
    stems = {Path(user).stem for user in selection.users(path, place.tree)}
    for file in place.cache.rglob("*.nb[ic]"):
        if file.name.split(".")[0] not in stems:
            target = cache / file.relative_to(place.cache)
            target.parent.mkdir(parents=True, exist_ok=True)
            os.link(file, target)
    cache.mkdir(exist_ok=True)
    return cache


def stages(tests: list[str], contexts: selection.Contexts, most: float) -> Iterator[tuple[str, list[str], float]]:
    """Yield Hypothesis profiles, each with tests of at most `most` seconds in all, or one test, and their seconds."""
    properties = [test for test in tests if test.startswith("accel/verify/") and "test_vectors" not in test]
    for profile, candidates in (("quick", tests), ("dev", properties)):
        stage_tests, seconds = [], 0.0
        for test in candidates:
            seconds += contexts.seconds[test]
            if stage_tests and seconds > most:
                break
            stage_tests.append(test)
        if stage_tests:
            yield profile, stage_tests, seconds


def run(
    place: Workplace, mutant: Mutant, contexts: selection.Contexts, limit: float, wider: Sequence[str] = ()
) -> Outcome:
    """Write the mutant into the copy, run its tests, or the test files `wider`, and restore the source."""
    begin = time.monotonic()
    path = place.tree / mutant.path
    source = path.read_text() if path.exists() else ""
    mutated = applied(mutant, source)
    tests = selection.concerned(mutant, contexts, place.tree)
    if mutated is None:
        return Outcome(mutant.name, "gone", "", 0.0, limit)
    times = path.stat()
    cache = cache_without(place, mutant.path)
    try:
        write(path, mutated, None)
        if wider:
            status, output = place.pytest([*ONE_FAILURE, "quick", *wider], cache, WIDER_SECONDS)
            result = "caught" if status else "survived"
            by = failed(status, output) if status else ""
            return Outcome(mutant.name, result, by, since(begin), WIDER_SECONDS)
        if mutant.path.endswith(".py") and ">>> " in source:
            status, output = place.pytest(["--doctest-modules", mutant.path], cache, 120)
            if status not in (0, 5):  # 5: there is no test
                return Outcome(mutant.name, "caught", failed(status, output), since(begin), limit)
        for profile, stage_tests, seconds in stages(tests, contexts, limit):
            (place.state / "tests.txt").write_text("\n".join(stage_tests))
            factor = 3.0 if profile == "quick" else 9.0
            status, output = place.pytest(
                [*ONE_FAILURE, profile, f"@{place.state / 'tests.txt'}"], cache, COMPILING_SECONDS + factor * seconds
            )
            if status:
                by = failed(status, output)
                result = "not compiled" if "g++ refuses" in output else "caught"
                return Outcome(mutant.name, result, by, since(begin), limit)
    finally:
        write(path, source, (times.st_atime_ns, times.st_mtime_ns))
    return Outcome(mutant.name, "survived", f"{len(tests)} tests", since(begin), limit)


def since(begin: float) -> float:
    return round(time.monotonic() - begin, 1)


def write(path: Path, text: str, times: tuple[int, int] | None) -> None:
    path.write_text(text)
    if times is not None:
        os.utime(path, ns=times)
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


def failed(status: int, output: str) -> str:
    """Return the name of the failed test, or else how the process ended."""
    for line in output.splitlines():
        if line.startswith(("FAILED ", "ERROR ")):
            return line.split(" ", 1)[1].split(" - ")[0]
    if status < 0:
        return "time" if -status in (signal.SIGPROF, signal.SIGXCPU, signal.SIGKILL) else signal.Signals(-status).name
    return f"pytest's status {status}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--state", type=Path, default=Path("runs/mutants"), help="the state folder (%(default)s)")
    parser.add_argument("--count", type=int, default=500, help="how many mutants are drawn (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the drawing (%(default)s)")
    parser.add_argument("--files", nargs="+", default=[], metavar="FILE", help="draw only of these, such as new ones")
    parser.add_argument("--only", default="", metavar="PREFIX", help="run those of paths that begin so: accel/search")
    parser.add_argument("--minutes", type=float, help="stop after so many, 0: only write the report")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of tests for each mutant, twice (%(default)s)")
    parser.add_argument("--again", action="store_true", help="run those that passed once more, with the tests of now")
    parser.add_argument("--wider", nargs="+", default=[], metavar="FILE", help="with --again: these tests instead")
    parser.add_argument("--report", type=Path, default=report.REPORT, help="the file to write (%(default)s)")
    options = parser.parse_args()
    place = Workplace(options.state.resolve())
    drawing = drawn_by(place.state, ROOT, options.count, options.seed, options.files)
    if options.minutes != 0:
        run_all(place, drawing.mutants, options)
    report.write(options.report, all_drawn(place.state), place.outcomes(), place.outcomes(first=True))


def run_all(place: Workplace, mutants: list[Mutant], options: argparse.Namespace) -> None:
    begin = time.monotonic()
    copy_checkout(place.tree)
    if not options.wider:
        place.measure()
    contexts = selection.read(sorted(place.contexts.glob("*.json")))
    outcomes = place.outcomes()
    again = {name for name, outcome in outcomes.items() if outcome.result == "survived"}
    for mutant in mutants:
        if options.minutes is not None and time.monotonic() - begin > 60 * options.minutes:
            break
        is_due = mutant.name in again if options.again else mutant.name not in outcomes
        if not (is_due and mutant.path.startswith(options.only)):
            continue
        outcome = run(place, mutant, contexts, options.seconds, options.wider)
        place.record(outcome)
        print(f"{outcome.result:<9}{outcome.seconds:7.1f} s  {outcome.name}  {outcome.by}", flush=True)


if __name__ == "__main__":
    main()
