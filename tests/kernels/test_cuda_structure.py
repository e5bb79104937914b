"""The Numba CUDA kernels agree with the reference under Numba's simulator, which needs a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import accel.ref as ref
from accel.cuda import device
from accel.verify.cuda_host import launcher

ROOT = Path(__file__).parents[2]
OPTIONS = [("stack", "depth", 3, 2), ("stack", "depth", 4, 9), ("shift", "depth", 5, 3), ("shift", "linear", 2, 5)]


def batch() -> tuple[np.ndarray, np.ndarray]:
    """Return types and offsets of some trees of every shape, the last one cut short."""
    from accel.verify.strategies import SHAPES, make_tree
    from refimpl.trees import START, actions, double_closing

    sequences = [double_closing([START, *actions(make_tree(shape, 6, 3))])[1] for shape in SHAPES]
    sequences.append(sequences[-1][:7])
    offsets = np.concatenate([[0], np.cumsum([len(s) for s in sequences])]).astype(np.int64)
    return np.concatenate(sequences).astype(np.int8), offsets


def answers(ops: object) -> list[list]:
    """Return the outputs of all structure operations as lists, and the error message for an ill-formed tree."""
    types, offsets = batch()
    outputs = [ops.attend_sets(types, offsets)]
    distances = np.array([2.0, 1, 3, 3, 0, 1, 1, 1, 5, 4, 3, 2, 1])
    for split in ("biased", "unbiased"):
        outputs.append(ops.distance_trees(distances, np.array([0, 6, 7, 8, 13]), split=split))
    weights = np.random.default_rng(0).integers(0, 4, 91) / 4  # of 8, 1, 2 and 3 tokens, with ties
    outputs.append(ops.chart_trees(weights[:89], np.array([0, 8, 9, 11, 14]), max_height=8))
    scores = np.random.default_rng(1).integers(0, 5, 24) / 2  # of 12, 1, 2, 3 and 11 words, with ties
    for window in (1, 2, 3, 11):
        outputs.append(ops.pruned_chart(scores, np.array([0, 12, 13, 15, 18, 29]), window=window))
    for memory, positions, segment_length, memory_length in OPTIONS:
        outputs.append(ops.segments(types, offsets, segment_length, memory_length, memory, positions))
    try:
        ops.attend_sets(np.array([0, 0, 1, 1, 3], np.int8), np.array([0, 5]))
    except ValueError as error:
        outputs.append((np.array(str(error)),))
    return [[x.tolist() for x in output] for output in outputs]


def test_simulator_agrees_with_the_reference() -> None:
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1", "PYTHONPATH": str(ROOT)}
    process = subprocess.run(
        [sys.executable, "-m", "tests.kernels.test_cuda_structure"],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout) == json.loads(json.dumps(answers(ref)))


if __name__ == "__main__":
    from numba import cuda

    def each(kernel: object, count: int, *args: object) -> None:
        cuda.jit(kernel)[-(-count // 32), 32](*args)

    launcher.host_backend(np)
    device.use(device.Device(np, launcher.launch, each))
    import accel.cuda

    print(json.dumps(answers(accel.cuda)))
