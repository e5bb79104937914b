"""Make the runs for the tables of RESULTS.md, one after another, the most important first.

    make results DATA=FOLDER                                          # start, or resume
    python -m examples.queue --status                                 # print the runs that are done and left
    python -m examples.queue --collect                                # copy the results to examples/results/queue
    python -m examples.queue --data FOLDER --missing                  # only the runs without a result there
    python -m examples.queue --data FOLDER --runs 'logic/*'           # only these, and the runs that they need
    python -m examples.queue --small --data FOLDER --at-once 1        # small runs instead, three hours of one core
    python3 -m examples.queue --backend cuda --data FOLDER            # on a GPU: the long runs, hours; resumes, too

A run uses the code of one commit, in a clone, so that other work on the checkout does not change it; its result file
names that commit. SIGTERM and Ctrl-C stop the queue. When the queue is started again, here or on a machine with a copy
of the folder, every run resumes at its last checkpoint. The results of the small runs are collected in the form of
`examples.task_results`. A checkout without git is used as it is.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from accel.training.directory import write_text
from examples.gpu_runs import GPU_RUNS
from examples.one_thread import THREADS
from examples.program import run_program
from examples.provenance import TRAINED_AT, cores
from examples.queue_commands import Run, selected
from examples.queue_results import collect, missing, of_best
from examples.queue_runs import RUNS
from examples.queue_state import best, end_left_over, lock, of, result, state_of, status, write_pid
from examples.small_runs import SMALL_RUNS

CHECKOUT = Path(__file__).resolve().parent.parent
COLLECTED = CHECKOUT / "examples" / "results" / "queue"
WITHOUT_GIT = "none"  # the commit of a checkout without history
TRIES = 3  # how often a command that a signal ends is started
SIGNALLED = (128 + signal.SIGINT, 128 + signal.SIGTERM)  # exit codes of a training that was saved after a signal
SECONDS = 0.5  # between two checks of the running commands


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder of published data; needed to start")
    parser.add_argument("--small", action="store_true", help="make the small runs of FastTrees and Treeformer")
    parser.add_argument("--backend", choices=("cpu", "cuda"), default="cpu", help="cuda: the long runs, on a GPU")
    parser.add_argument("--folder", type=Path, help="of state and runs (runs/results, runs/small or runs/gpu)")
    parser.add_argument("--at-once", type=int, help="runs (default: one for each core, and one on a GPU)")
    parser.add_argument("--commit", default="HEAD", help="of new runs; a resumed run keeps its commit (%(default)s)")
    parser.add_argument("--status", action="store_true", help="print the runs that are done and left")
    parser.add_argument("--collect", action="store_true", help="copy the result files to examples/results")
    parser.add_argument("--runs", nargs="+", metavar="NAME", help="make these in this order (* matches any letters)")
    parser.add_argument("--missing", action="store_true", help="leave out runs with a result in examples/results")
    parser.add_argument("--nice", type=int, default=19, metavar="N", help="the priority of the runs, 19 is the lowest")
    options = parser.parse_args(arguments)
    if options.small and options.backend == "cuda":
        parser.error("--small: these runs are made on the CPU: leave out --backend cuda")
    if options.collect and (options.runs or options.missing):
        parser.error("--collect: copies all results: leave out --runs and --missing")
    name = "small" if options.small else "gpu" if options.backend == "cuda" else "results"
    queued = {"small": SMALL_RUNS, "gpu": GPU_RUNS, "results": RUNS}[name]
    collection = COLLECTED.with_name("gpu") if name == "gpu" else COLLECTED
    queued = selected(of_best(queued, collection) if options.missing else queued, options.runs or ["*"])
    folder = (options.folder or Path("runs") / name).resolve()
    queued = missing(folder, queued, collection) if options.missing else queued
    at_once = options.at_once if options.at_once is not None else 1 if name == "gpu" else cores()
    if options.collect:
        collect(folder, queued, collection, copy=name != "small", of_tasks=name != "gpu")
    elif options.status:
        print(status(folder, queued))
    elif options.data is None or at_once < 1:
        parser.error("--data FOLDER is needed to start, and --at-once of 1 or more")
    else:
        for name in ("state", "logs", "results", "runs", "clones"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        with open(folder / "queue.pid", "a+", encoding="utf-8") as pid:
            if not lock(pid):
                raise SystemExit(f"{folder}: a queue works here already; stop the process in queue.pid")
            write_pid(pid, os.getpid())
            has_git = (CHECKOUT / ".git").exists()
            commit = git("rev-parse", f"{options.commit}^{{commit}}") if has_git else WITHOUT_GIT
            work(folder, queued, options.data.resolve(), at_once, commit, options.nice)


def work(folder: Path, queued: Sequence[Run], data: Path, at_once: int, commit: str, nice: int) -> None:
    """Make runs until none is left that can be made, or a signal comes."""
    stop, running, killed = list[int](), dict[Run, subprocess.Popen[bytes]](), Counter[Run]()
    failed: set[str] = set()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(number, lambda number, _: stop.append(number))  # an Event could be locked by `wait`
    try:
        while not stop:
            results = {run.name for run in queued if of(folder, "results", run).exists()}
            waiting = [run for run in queued if run.name not in results | failed and run not in running]
            unfinished = {run.name for run in (*waiting, *running)}
            ready = [run for run in waiting if results.issuperset(run.needs) and unfinished.isdisjoint(run.after)]
            for run in ready[: at_once - len(running)]:
                running[run] = start(folder, run, data, commit, nice)
            if not running:
                break
            time.sleep(SECONDS)
            for run in list(running):
                code = ended(folder, run, data, running[run])
                if code is not None:
                    del running[run]
                    was_killed = code < 0 or code in SIGNALLED
                    killed[run] += was_killed
                    if (code > 0 and not was_killed) or killed[run] == TRIES:
                        failed.add(run.name)
                        print(f"{run.name}: failed with {code}: see {of(folder, 'logs', run, 'log')}", flush=True)
    finally:
        left = {run: child for run, child in running.items() if child.returncode is None}  # `ended` may have raised
        for child in left.values():
            child.terminate()
        for run, child in left.items():
            ended(folder, run, data, child, wait=True)
    print(status(folder, queued), flush=True)
    if failed:
        raise SystemExit(1)


def start(folder: Path, run: Run, data: Path, commit: str, nice: int) -> subprocess.Popen[bytes]:
    """Start the next command of a run; a command that a killed queue left running is ended first."""
    state = state_of(folder, run) or {"commit": commit, "commands": 0, "hours": 0.0}
    clone = clone_at(folder, state["commit"])
    paths = {"data": data, "runs": folder / "runs", "run": folder / "runs" / run.name}
    state["commands"] = min(state["commands"], len(run.commands) - 1)  # without its result the last command runs again
    command = run.commands[state["commands"]]
    if "{best}" in command:
        paths["best"] = folder / "runs" / best(folder / "results", run.needs)
    words = [word.format(**paths) for word in command.split()]
    settings = os.environ | dict.fromkeys(THREADS, "1") | {"PYTHONPATH": str(clone), "TQDM_MININTERVAL": "60"}
    log_path, lock_path = of(folder, "logs", run, "log"), of(folder, "state", run, "lock")
    with open(lock_path, "a+", encoding="utf-8") as lock_file, open(log_path, "ab") as log:
        end_left_over(lock_file)
        write_text(of(folder, "state", run), json.dumps(state) + "\n")
        child = subprocess.Popen(
            ["nice", "-n", str(nice), sys.executable, "-m", *words],
            cwd=clone, env=settings, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            start_new_session=True, pass_fds=[lock_file.fileno()],
        )  # fmt: skip
        write_pid(lock_file, child.pid)
    with suppress(OSError):  # with autogroups, `nice` alone ranks only the processes of one session
        Path(f"/proc/{child.pid}/autogroup").write_text(str(nice), encoding="utf-8")
    print(f"{run.name}: {' '.join(words)}", flush=True)
    return child


def ended(folder: Path, run: Run, data: Path, child: subprocess.Popen[bytes], *, wait: bool = False) -> int | None:
    """Return the exit code of a command and store it; None if it still runs. The last command writes the result."""
    pid, wait_status, usage = os.wait4(child.pid, 0 if wait else os.WNOHANG)
    if pid == 0:
        return None
    child.returncode = os.waitstatus_to_exitcode(wait_status)
    state, directory = state_of(folder, run), folder / "runs" / run.name
    state["hours"] += (usage.ru_utime + usage.ru_stime) / 3600
    state["commands"] += child.returncode == 0
    if state["commands"] == len(run.commands):
        if directory.exists():
            write_text(directory / TRAINED_AT, state["commit"][:12] + "\n")
        write_text(of(folder, "results", run), json.dumps(result(folder, run, data, state), indent=1) + "\n")
        print(f"{run.name}: done in {state['hours']:.2f} core hours", flush=True)
    write_text(of(folder, "state", run), json.dumps(state) + "\n")
    of(folder, "state", run, "lock").write_text("", encoding="utf-8")
    return child.returncode


def git(*words: str) -> str:
    command = ("git", "-C", str(CHECKOUT), *words)
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def clone_at(folder: Path, commit: str) -> Path:
    """Return a clone of the checkout at a commit; it gets its name when it is complete. Without git, the checkout."""
    if commit == WITHOUT_GIT:
        return CHECKOUT
    path, partial = folder / "clones" / commit[:12], folder / "clones" / "partial"
    if not path.exists():
        shutil.rmtree(partial, ignore_errors=True)
        git("clone", "--quiet", "--no-hardlinks", "--no-checkout", str(CHECKOUT), str(partial))
        git("-C", str(partial), "checkout", "--quiet", "--detach", commit)
        partial.rename(path)
    return path


if __name__ == "__main__":
    run_program(main)
