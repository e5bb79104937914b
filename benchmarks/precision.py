"""Loss curves in bf16 and TF32 beside float32, on the CPU: the figures of precision.md.

    python -m benchmarks.precision --data train.trees --validation valid.trees --out runs/precision
    python -m benchmarks.precision --recurrence --data train.txt --validation valid.txt --out runs/precision-text

Trains a Transformer Grammar of the demo's size with several seeds in every precision, and compares the validation
losses. The backend is the CPU's. The factors of its matrix products are rounded as on a GPU, to nearest, ties to even,
and products and sums are float32; a test compares these losses with those of the GPU's backend on its stand-in. With
--recurrence, a language model of FastTrees is trained by `grove train --precision bf16`, which the CPU backend has.
Complete runs in the folder are kept.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from accel import PRECISIONS, cli
from accel.cuda.support.factors import DROPPED
from accel.tasks.numbers import at_least
from accel.training.run import METRICS
from accel.verify.cuda_host.cublaslt import rounded

Curve = dict[int, float]  # step -> validation loss


@contextmanager
def rounded_products(precision: str) -> Iterator[None]:
    """Make NumPy round the factors of its products of float32 matrices inside."""
    matmul = np.matmul

    def product(a: Any, b: Any, **options: Any) -> Any:
        factors = [rounded(x, DROPPED[precision]) if x.dtype == np.float32 else x for x in (a, b)]
        return matmul(*factors, **options)

    with patch.object(np, "matmul", product) if precision in DROPPED else nullcontext():
        yield


def curve(options: argparse.Namespace, precision: str, seed: int) -> Curve:
    """Return the validation losses of a run by their steps; a complete run with these options is not made again."""
    directory = options.out / f"{precision}-{seed}"
    metrics = directory / METRICS
    arguments = [
        *(("train", "--task", "language_model", "--precision", precision) if options.recurrence else ("train",)),
        *("--data", options.data, "--validation", options.validation, "--out", directory, "--seed", seed),
        *("--steps", options.steps, "--set", f"validate_every={max(1, options.steps // 6)}", "--resume"),
        *(part for setting in options.set for part in ("--set", setting)),
    ]
    rounding = nullcontext() if options.recurrence else rounded_products(precision)
    with rounding, redirect_stdout(sys.stderr):
        if cli.main([str(x) for x in arguments]):
            raise SystemExit(1)
    lines = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    return {line["step"]: line["validation_loss"] for line in lines if "validation_loss" in line}


def table(curves: dict[str, list[Curve]]) -> Iterator[str]:
    """Yield the lines of the table, and whether each precision stays within the spread of float32."""
    others = [name for name in curves if name != "float32"]
    columns = ["step", "float32: least, mean, greatest", "spread"]
    columns += [text for name in others for text in (f"{name}: mean", "most, of one seed")]
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    outside = dict.fromkeys(others, 0)
    exact = curves["float32"]
    for step in exact[0]:
        values = np.array([one[step] for one in exact])
        spread = np.ptp(values)
        cells = [str(step), ", ".join(f"{x:.4f}" for x in (values.min(), values.mean(), values.max())), f"{spread:.4f}"]
        for name in others:
            near = np.array([one[step] for one in curves[name]])
            most = abs(near - values).max()
            outside[name] += not (values.min() <= near.mean() <= values.max() and most <= spread)
            cells += [f"{near.mean():.4f}", f"{most:.4f}"]
        yield f"| {' | '.join(cells)} |"
    for name, count in outside.items():
        words = "within the spread of float32 at every validation" if not count else f"OUTSIDE at {count} validations"
        yield f"{name}: {words}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.precision", description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, metavar="FILE")
    parser.add_argument("--validation", type=Path, required=True, metavar="FILE")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="the runs")
    parser.add_argument("--steps", type=at_least(1), default=300)
    parser.add_argument("--seeds", type=at_least(1), default=3)
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS[1:], default=PRECISIONS[1:])
    parser.add_argument(
        "--recurrence",
        action="store_true",
        help="train FastTrees on texts, in float32 and with grove train's own bf16 of hidden states",
    )
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="as of grove train")
    options = parser.parse_args(arguments)
    names = PRECISIONS[0], *(PRECISIONS[2:] if options.recurrence else options.precisions)
    curves = {name: [curve(options, name, seed) for seed in range(options.seeds)] for name in names}
    print(*table(curves), sep="\n")


if __name__ == "__main__":
    main()
