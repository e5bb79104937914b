"""How long a newcomer waits: from the start of `grove train` to the end of its first step.

    python -m benchmarks.first_step [--only tg fasttrees treeformer gpst] [--threads 2]

Each model is trained twice, on small generated data: with an empty cache of compiled kernels, and with a full one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from accel.data.generated.english import write_files
from accel.tasks.numbers import at_least

MODELS = {
    "tg": "--data @/train.trees --model tg",
    "fasttrees": "--task language_model --data @/train.txt --model fasttrees --set hidden_size=64",
    "treeformer": "--task scan --data @ --model treeformer",
    "gpst": "--task gpst --data @/train.txt --sentence-a-line --max-tokens 128",
}


def seconds(name: str, folder: Path, variables: dict[str, str]) -> float:
    """Return the seconds to the first line of metrics, which the first step writes."""
    with tempfile.TemporaryDirectory() as run:
        command = [sys.executable, "-m", "accel.cli", "train", *MODELS[name].replace("@", str(folder)).split()]
        command += ["--steps", "1", "--out", run]
        begin = time.time()
        subprocess.run(command, env=os.environ | variables, check=True, capture_output=True)
        return (Path(run) / "metrics.jsonl").stat().st_mtime - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--threads", type=at_least(1), default=os.cpu_count())
    options = parser.parse_args()
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    variables = dict.fromkeys(names, str(options.threads))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_files(folder, {"train": 2000}, seed=0)
        for part in ("train", "test"):
            lines = [f"IN: {verb} OUT: {verb.upper()}\n" for verb in ("jump", "look", "run", "walk")] * 16
            (folder / f"tasks_{part}_simple.txt").write_text("".join(lines))
        for name in options.only:
            cache = {"NUMBA_CACHE_DIR": str(folder / name)}
            fresh, again = (seconds(name, folder, variables | cache) for _ in range(2))
            print(f"{name:12} {fresh:5.1f} s, cached {again:.1f} s", flush=True)


if __name__ == "__main__":
    main()
