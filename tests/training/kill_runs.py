"""Trainings that are killed at random moments and resumed: each must end as the uninterrupted one, bit for bit.

python -m tests.training.kill_runs [--kills 1000] [--interrupts 100] [--seed 0] [--folder DIRECTORY]

Five kinds of runs are made with `grove train`. A run is killed with SIGKILL, anywhere between its start and its end,
and resumed; three resumed runs in ten are killed again. Other runs are stopped with SIGINT or SIGTERM: their checkpoint
must hold every step that their metrics name. At the end every file but the times in the metrics is compared with that
of an uninterrupted run.

Every run is a fork of a process that has imported and compiled everything, so that an attempt needs no time to start.
Threads do not survive a fork, so that there is one thread only. Numba still refuses to run in a child of the process
that has compiled; the runs are its grandchildren.
"""

from __future__ import annotations

import os

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
os.environ["NUMBA_THREADING_LAYER"] = "omp"

import argparse  # noqa: E402
import json  # noqa: E402
import shutil  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from collections import Counter  # noqa: E402
from collections.abc import Iterable, Iterator  # noqa: E402
from contextlib import redirect_stderr, redirect_stdout  # noqa: E402
from dataclasses import dataclass  # noqa: E402
from itertools import count, takewhile  # noqa: E402
from pathlib import Path  # noqa: E402
from random import Random  # noqa: E402

from accel import cli  # noqa: E402
from accel.data.files.progress import progress  # noqa: E402
from accel.data.generated.grammar import ENGLISH  # noqa: E402
from accel.training.checkpoint import read_state  # noqa: E402
from accel.training.run import METRICS, NEWEST  # noqa: E402
from refimpl.trees import words  # noqa: E402
from tests.fixtures import gpst_runs, span_parser_runs  # noqa: E402
from tests.fixtures.command_line import settings  # noqa: E402
from tests.fixtures.toy_house import TINY  # noqa: E402
from tests.fixtures.toy_run import metrics  # noqa: E402

OFTEN = ("checkpoint_every=3", "validate_every=4", "warmup_steps=2")  # settings of every kind of run
LANGUAGE_MODEL = ("embedding_size=6", "hidden_size=8", "n_layers=1", "chunk_size=2", "nonmonotone=0")
TREEFORMER = ("d_model=8", "d_ff=8", "n_layers=1", "n_heads=2", "max_height=3", "keep_checkpoints=2")
KILLED_AGAIN = 0.3
STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143}


@dataclass(frozen=True)
class Kind:
    """A kind of run: its command, the folder of an uninterrupted run, and the seconds that it took."""

    name: str
    command: list[str]
    whole: Path
    seconds: float


def commands(data: Path) -> dict[str, list[str]]:
    """Write the data, and return the options of every kind of run."""
    sample = list(ENGLISH.sample(40, 1))
    trees = {"train": sample, "valid": sample[:6]}
    for name, sample in trees.items():
        (data / f"{name}.trees").write_text("".join(f"{tree}\n" for tree in sample))
        (data / f"{name}.text").write_text("".join(f"{' '.join(words(tree)[:-1])}\n" for tree in sample))
        labelled = (f"({len(words(tree)) % 2 * 4} {' '.join(words(tree)[:6])})\n" for tree in sample)
        (data / f"{name}.labelled").write_text("".join(labelled))
        span_parser_runs.write(data / f"{name}.tagged", *sample)

    def files(ending: str) -> list[str]:
        return ["--data", str(data / f"train.{ending}"), "--validation", str(data / f"valid.{ending}")]

    return {
        "tg": [*files("trees"), "--keep-tags", "--vocabulary", "words", *settings(TINY)],
        "gpst": ["--task", "gpst", *files("text"), "--sentence-a-line", "--max-tokens", "60", "--vocabulary", "words",
                 "--batch-size", "3", *settings(gpst_runs.TINY)],
        "language_model": ["--task", "language_model", *files("text"), "--batch-size", "4", "--length", "8",
                           *settings(LANGUAGE_MODEL)],
        "treeformer": ["--task", "sentiment", "--model", "treeformer", *files("labelled"), "--no-phrases",
                       "--batch-size", "9", *settings(TREEFORMER)],
        "span_parser": ["--task", "span_parser", *files("tagged"), "--batch-size", "60",
                        *settings(span_parser_runs.TINY)],
    }  # fmt: skip


def start(command: Iterable[str], out: Path, log: Path) -> int:
    """Start or resume a training in a child of this process, and return the number of the child."""
    sys.stdout.flush()
    sys.stderr.flush()
    signal.pthread_sigmask(signal.SIG_BLOCK, STATUS)  # until the child can handle them
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STATUS)
        return pid
    status = 130  # an interrupt outside of the command
    try:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background ignores it
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STATUS)
        status = cli.main(["train", "--out", str(out), "--resume", *command])
        sys.stdout.flush()
    finally:
        os._exit(status)


def ended(pid: int) -> int:
    """Wait for a child; return its exit status, or minus the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def compile_all(folder: Path) -> dict[str, list[str]]:
    """Make a run of every kind in this process, and return their commands."""
    all_commands = commands(folder)
    for name, options in all_commands.items():
        options += ["--steps", "12", *settings(OFTEN)]
        with open(folder / f"{name}.log", "w") as log, redirect_stdout(log), redirect_stderr(log):
            status = cli.main(["train", "--out", str(folder / f"{name}.first"), *options])
        if status:
            raise SystemExit((folder / f"{name}.log").read_text())
    return all_commands


def whole_run(name: str, command: list[str], folder: Path) -> Kind:
    """Make an uninterrupted run in a process like those that will be killed, and compare it with the first run."""
    whole, log = folder / f"{name}.whole", folder / f"{name}.log"
    begin = time.perf_counter()
    if ended(start(command, whole, log)):
        raise SystemExit(log.read_text())
    kind = Kind(name, command, whole, time.perf_counter() - begin)
    check_same(kind, folder / f"{name}.first")
    return kind


def kill(kind: Kind, out: Path, log: Path, random: Random) -> int:
    """Kill a run at random moments, resume it and compare it; return how often it was killed."""
    killed = 0
    while not killed or random.random() < KILLED_AGAIN:
        pid = start(kind.command, out, log)
        time.sleep(random.uniform(0, 1.05 * kind.seconds))
        os.kill(pid, signal.SIGKILL)
        if ended(pid) == 0:  # the run had ended before
            break
        killed += 1
    finish(kind, out, log)
    return killed


def interrupt(kind: Kind, out: Path, log: Path, random: Random) -> int:
    """Stop a run at a random moment, and check that it has lost nothing; return 1 if it was stopped before its end."""
    number = random.choice(list(STATUS))
    pid = start(kind.command, out, log)
    time.sleep(random.uniform(0, 1.05 * kind.seconds))
    os.kill(pid, number)
    status = ended(pid)
    if status not in (0, STATUS[number], -number):  # minus: before the command could handle it
        raise AssertionError(f"{kind.name}: status {status} after signal {number}: {log.read_text()}")
    n_steps = len(metrics(out)) if (out / METRICS).exists() else 0
    n_saved = read_state(out / NEWEST)["step"] if (out / NEWEST).exists() else 0
    if n_steps != n_saved:
        raise AssertionError(f"{kind.name}: {n_steps} steps made, {n_saved} saved: {out}: {log.read_text()}")
    finish(kind, out, log)
    return int(status != 0)


def finish(kind: Kind, out: Path, log: Path) -> None:
    """Resume a run to its end, and compare it with the uninterrupted run."""
    if ended(start(kind.command, out, log)):
        raise AssertionError(f"{kind.name}: not resumed: {log.read_text()}")
    check_same(kind, out)


def check_same(kind: Kind, out: Path) -> None:
    """Raise AssertionError if a run differs from the uninterrupted one in a file, or has other files."""
    files, expected = (
        {p.relative_to(folder): p for p in folder.rglob("*") if p.is_file()} for folder in (out, kind.whole)
    )
    if files.keys() != expected.keys():
        raise AssertionError(f"{kind.name}: other files: {sorted(map(str, files.keys() ^ expected.keys()))}: {out}")
    for name, path in files.items():
        is_same = path.read_bytes() == expected[name].read_bytes()
        if str(name) == METRICS:
            is_same = metrics(out) == metrics(kind.whole)
        if not is_same:
            raise AssertionError(f"{kind.name}: {path} differs from {expected[name]}")


def until(counts: Counter[str], total: int) -> Iterator[int]:
    """Yield 0, 1, ... until the counts add up to `total`."""
    yield from takewhile(lambda _: counts.total() < total, count())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--interrupts", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where the runs are (default: a temporary folder, removed)")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="kill-runs-"))
    folder.mkdir(parents=True, exist_ok=True)
    all_commands = compile_all(folder)
    pid = os.fork()
    if pid:
        status = ended(pid)
        if options.folder is None and status == 0:
            shutil.rmtree(folder)
        sys.exit(status)
    make_attempts(folder, all_commands, options)


def make_attempts(folder: Path, all_commands: dict[str, list[str]], options: argparse.Namespace) -> None:
    """Kill, interrupt and resume runs, and print how often."""
    random, begin = Random(options.seed), time.perf_counter()
    kinds = [whole_run(name, command, folder) for name, command in all_commands.items()]
    out, log = folder / "run", folder / "run.log"
    for action, total in ((kill, options.kills), (interrupt, options.interrupts)):
        counts: Counter[str] = Counter()
        for attempt in progress(until(counts, total), None, "attempt", label=action.__name__):
            shutil.rmtree(out, ignore_errors=True)
            log.write_text("")
            kind = kinds[attempt % len(kinds)]
            counts[kind.name] += action(kind, out, log, random)
        print(f"{action.__name__}: {counts.total()} times, all resumed bit for bit: {json.dumps(counts)}")
    print(f"{time.perf_counter() - begin:.0f} seconds")


if __name__ == "__main__":
    main()
