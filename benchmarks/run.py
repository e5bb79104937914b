"""Time the CPU backend beside plain PyTorch, in one process with equal threads, and write results/.

    python -m benchmarks.run [--threads 2] [--repeats 7] [--data TREES] [--clock wall|cpu] [--only PART ... [--write]]

Every figure is a median; the two sides take turns, so that other load slows both. The spread is the least and the
greatest time. Without --data the trees are drawn from the embedded grammar. On a shared machine take
--threads 1 --clock cpu: processor time instead of elapsed time.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numba
import numpy as np

from accel.data.corpora.sequences import read_treebank
from accel.data.corpora.treebank import Reading, encode_trees
from accel.data.generated.grammar import ENGLISH
from accel.data.vocabularies.building import build
from accel.tasks.numbers import at_least
from benchmarks.fasttrees import INFERENCE, LANGUAGE_MODEL, LOGIC, SENTIMENT, stacks
from benchmarks.gpst import beside_gpt2, composition_length, generator_beside_gpt2, pruned_chart, steps
from benchmarks.searches import left_to_right, minimal_pairs
from benchmarks.timing import CLOCKS, Clock, Row, report
from benchmarks.transformer_grammars import attention, length, structure
from benchmarks.transformer_grammars import steps as transformer_grammar_steps
from benchmarks.treeformer import charts, encoder, growth

RESULTS = Path(__file__).parent / "results"
PARTS = (
    "structure", "length", "attention", "step", "language_model", "logic", "sentiment", "inference", "charts", "growth",
    "encoder", "pruned_chart", "composition", "gpst", "composition_length", "gpst_beside_gpt2", "gpst_generator",
    "left_to_right", "minimal_pairs",
)  # fmt: skip
ASLEEP = {"OMP_WAIT_POLICY": "passive", "OPENBLAS_THREAD_TIMEOUT": "4"}
"""Waiting threads sleep: BLAS, Numba and PyTorch take turns, and a pool that spins would slow down the next one."""
MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**34), "MALLOC_TOP_PAD_": str(2**26)}
"""Freed memory stays with the process: a virtual machine may take longer to give it back than a step takes."""
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def machine() -> dict[str, Any]:
    """Return the processor, its cores and the versions of the libraries: figures depend on them."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    name = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    versions = {"python": platform.python_version(), "numpy": np.__version__, "numba": numba.__version__}
    return {"cpu": name or platform.machine(), "cores": os.cpu_count(), "blas": blas_kernels(), **versions}


def slug(cpu: str) -> str:
    """Return the name of a processor as part of the name of a file.

    >>> slug("Intel(R) Xeon(R) Processor")
    'intel-r--xeon-r--processor'
    """
    return "".join(letter if letter.isalnum() else "-" for letter in cpu.lower()).strip("-")


def blas_kernels() -> str:
    """Return for which processor NumPy's OpenBLAS has chosen its kernels: OPENBLAS_CORETYPE may name a lesser one."""
    for path in Path(np.__file__).parents[1].glob("numpy.libs/libscipy_openblas*"):
        name = ctypes.CDLL(str(path)).scipy_openblas_get_corename64_
        name.restype = ctypes.c_char_p
        return name().decode()
    return "unknown"


def restart(program: str, threads: int) -> None:
    """Start the program again unless these variables, which its libraries read when they are loaded, are set."""
    variables = dict.fromkeys(THREAD_VARIABLES, str(threads)) | ASLEEP | MEMORY
    if any(os.environ.get(name) != value for name, value in variables.items()):
        os.execve(sys.executable, [sys.executable, "-m", program, *sys.argv[1:]], os.environ | variables)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=at_least(1), default=os.cpu_count(), help="of both sides")
    parser.add_argument("--repeats", type=at_least(1), default=7)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--data", type=Path, help="bracketed trees, plain, .gz or .xz")
    parser.add_argument("--only", nargs="+", choices=PARTS)
    parser.add_argument(
        "--write", action="store_true", help="also with --only: replace the rows of these parts, and leave the others"
    )
    options = parser.parse_args()
    if options.clock == "cpu" and options.threads > 1:  # the time of all threads together, without other processes
        raise SystemExit("--clock cpu: is for one thread: add --threads 1")
    restart("benchmarks.run", options.threads)
    import torch

    torch.set_num_threads(options.threads)
    reading = Reading(drop_traces=True, drop_function_tags=True, drop_preterminals=True)
    clock = Clock(CLOCKS[options.clock], options.repeats)
    trees = list(read_treebank(options.data, reading) if options.data else ENGLISH.sample(4000, seed=0))
    vocabulary = build(trees)
    corpus = encode_trees(trees, vocabulary)
    parts: dict[str, Callable[[], Iterator[Row]]] = {
        "structure": lambda: structure(corpus, vocabulary, clock),
        "length": lambda: length(clock),
        "attention": lambda: (attention(n, goal, clock) for n, goal in ((512, 8), (4096, 25))),
        "step": lambda: transformer_grammar_steps(corpus, vocabulary, clock),
        "language_model": lambda: stacks(LANGUAGE_MODEL, clock),
        "logic": lambda: stacks(LOGIC, clock),
        "sentiment": lambda: stacks(SENTIMENT, clock),
        "inference": lambda: stacks(INFERENCE, clock),
        "charts": lambda: charts(clock),
        "growth": lambda: growth(clock),
        "encoder": lambda: encoder(clock),
        "pruned_chart": lambda: pruned_chart(clock),
        "composition": lambda: steps(False, clock),
        "gpst": lambda: steps(True, clock),
        "composition_length": lambda: composition_length(clock),
        "gpst_beside_gpt2": lambda: beside_gpt2(clock),
        "gpst_generator": lambda: generator_beside_gpt2(clock),
        "left_to_right": lambda: left_to_right(clock),
        "minimal_pairs": lambda: minimal_pairs(clock),
    }
    setting = machine() | {
        "torch": torch.__version__,
        "threads": options.threads,
        "repeats": options.repeats,
        "clock": options.clock,
    }
    setting |= {"trees": options.data.name if options.data else "embedded grammar", "load": os.getloadavg()[0]}
    print(", ".join(f"{key} {value}" for key, value in setting.items()), flush=True)
    rows = [asdict(row) for name in options.only or parts for row in report(parts[name]())]
    if options.only and not options.write:
        return
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{slug(setting['cpu'])}-{options.threads}-threads.json"
    earlier = others(path, setting, rows) if options.only else []
    path.write_text(json.dumps({"setting": setting, "rows": earlier + rows}, indent=1) + "\n")
    print(f"written to {path}")


def others(path: Path, setting: dict[str, Any], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the other rows that an earlier run wrote under the same setting; the load may differ."""
    content = json.loads(path.read_text()) if path.exists() else {"setting": setting, "rows": []}
    for name, value in setting.items():
        if name != "load" and content["setting"].get(name) != value:
            raise SystemExit(f"{path}: {name} was {content['setting'].get(name)}, is {value}: measure all parts")
    measured = {row["name"] for row in rows}
    return [row for row in content["rows"] if row["name"] not in measured]


if __name__ == "__main__":
    main()
