"""Report what a GPU does with Grove: tests, sanitizers, times beside PyTorch, short trainings.

    python3 -m benchmarks.gpu_report --out DIR                      # on a machine with a GPU: under nine minutes
    python3 -m benchmarks.gpu_report --out DIR --stand-in --small   # on any machine, in a minute: what a report is like

DIR/report.md and DIR/report.json are written anew after every row. Whatever ends the command, the same command
continues, and repeats no finished row. A tool that the machine lacks is named in the report. Nothing is installed or
downloaded; the report lacks the parts whose Python packages are missing. DIR/notes.md, if there is one, stands at the
top of the page: write there what else ran on the machine.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from benchmarks.gpu_report.page import write_page
from benchmarks.gpu_report.part import AGAIN, PARTS, add_options
from benchmarks.gpu_report.records import (
    BEGUN,
    FAILED,
    ROOT,
    Setting,
    append_line,
    dies_with_parent,
    keep_done,
    path_of,
    read_rows,
)  # fmt: skip

MINUTES = 8.5
POLL = 0.5  # seconds between two checks of a part


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument(
        "--minutes", type=float, default=MINUTES, help="end after so many minutes (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    if options.minutes <= 0:
        parser.error("--minutes: more than 0 are needed")
    setting = Setting(options.out.resolve(), options.stand_in, options.small)
    setting.out.mkdir(parents=True, exist_ok=True)
    check_same(setting)
    end = time.monotonic() + 60 * options.minutes
    with open(setting.out / "lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(
                f"--out {setting.out}: another process writes this report: wait until it has ended"
            ) from None
        for part in options.only:
            keep_done(setting.out, part)
        for part in options.only:
            make(part, setting, end if setting.stand_in else min(end, time.monotonic() + PARTS[part]))
    print(f"{setting.out / 'report.md'}")
    return 0


def check_same(setting: Setting) -> None:
    """Refuse to continue the report of another setting."""
    path, words = setting.out / "setting", " ".join(setting.options()[2:]) or "on a GPU"
    if path.exists() and path.read_text(encoding="utf-8") != words:
        text = path.read_text(encoding="utf-8")
        raise SystemExit(f"--out {setting.out}: holds a report begun as {text!r}, not {words!r}: name another folder")
    path.write_text(words, encoding="utf-8")


def make(part: str, setting: Setting, end: float) -> None:
    """Make the rows of a part that are not made, until its time is over; start again after a row that failed."""
    print(f"{part} ...", flush=True)
    while time.monotonic() < end:
        code = watch(part, setting, end)
        if code not in (0, AGAIN, None):  # a signal, or an error outside of the rows
            name = note_end(part, setting, code)
            if name is None:
                break
        if code in (0, None):
            break
    write_page(setting)
    statuses = [row["status"] for row in read_rows(setting.out, part).values()]
    print("  " + ", ".join(f"{statuses.count(status)} {status}" for status in sorted(set(statuses))), flush=True)


def watch(part: str, setting: Setting, end: float) -> int | None:
    """Run a part in a process, and write the page whenever it has a new row; None if its time is over."""
    command = [sys.executable, "-m", "benchmarks.gpu_report.part", part, *setting.options()]
    with open(setting.out / f"{part}.log", "ab") as log:
        child = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            preexec_fn=dies_with_parent if sys.platform == "linux" else None,
        )  # fmt: skip
        size = 0
        try:
            while child.poll() is None:
                if time.monotonic() >= end:
                    return None
                time.sleep(POLL)
                path = path_of(setting.out, part)
                if path.exists() and path.stat().st_size != size:
                    size = path.stat().st_size
                    write_page(setting)
            return child.returncode
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()


def note_end(part: str, setting: Setting, code: int) -> str | None:
    """Record as failed the row that ended its process; return its name, None if none had begun."""
    names = [name for name, row in read_rows(setting.out, part).items() if row["status"] == BEGUN]
    reason = f"its process ended with {f'signal {-code}' if code < 0 else f'status {code}'}: see {part}.log"
    append_line(path_of(setting.out, part), {"row": names[-1] if names else part, "status": FAILED, "reason": reason})
    return names[-1] if names else None


if __name__ == "__main__":
    raise SystemExit(main())
