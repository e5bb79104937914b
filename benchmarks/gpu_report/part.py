"""The rows of one part of the report, in a process of their own: `python -m benchmarks.gpu_report.part PART --out DIR`.

Rows that stand in the part's file are not made again. After a row that failed the process ends, with status 3, for an
error may have spoilt the GPU's context: the report starts it again for the rows that are left.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

from benchmarks.gpu_report.records import (
    BEGUN,
    DONE,
    FAILED,
    MISSING,
    Missing,
    Row,
    Setting,
    append_line,
    one_line,
    path_of,
    read_rows,
)  # fmt: skip

AGAIN = 3
PARTS = {
    "environment": 10, "rates": 15, "operations": 85, "steps": 130, "kernels": 40, "peers": 90, "trainings": 60,
    "sanitizer": 65, "suite": 600,
}  # fmt: skip
"""The parts, the most useful one first, and the seconds after which the next one begins. Each part is a module."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="the report's folder; it may hold one begun"
    )
    parser.add_argument(
        "--stand-in", action="store_true", help="without a GPU: kernels run on the CPU, thread by thread"
    )
    parser.add_argument("--small", action="store_true", help="small steps, few tests and short trainings")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    add_options(parser)
    options = parser.parse_args(arguments)
    setting = Setting(options.out, options.stand_in, options.small)
    path = path_of(options.out, options.part)
    for name, call in rows(options.part, setting):
        if name in read_rows(options.out, options.part):
            continue
        append_line(path, {"row": name, "status": BEGUN})
        begin, content = time.perf_counter(), {}
        try:
            content = {"status": DONE, **call()}
        except Missing as reason:
            content = {"status": MISSING, "reason": str(reason)}
        except Exception as error:  # noqa: BLE001 the report shows it
            content = {"status": FAILED, "reason": one_line(error)}
        append_line(path, {"row": name, **content, "took": round(time.perf_counter() - begin, 2)})
        if content["status"] == FAILED:
            return AGAIN
    return 0


def rows(part: str, setting: Setting) -> Iterator[Row]:
    """Yield the rows of a part; if it lacks a tool altogether, one row that says so."""
    try:
        yield from import_module(f"benchmarks.gpu_report.{part}").rows(setting)
    except (Missing, ImportError) as error:
        reason = str(error)

        def missing() -> dict[str, str]:
            raise Missing(reason)

        yield part, missing


if __name__ == "__main__":
    raise SystemExit(main())
