"""GPST: the pruned charts of a batch, by number of sentences and over length."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from functools import partial

import numpy as np

from accel import cpu as ops
from benchmarks.timing import Clock, Row

WINDOW = 2
WORDS = 2**15
"""How many words a call has where time over length is measured."""


def pruned_charts(clock: Clock) -> Iterator[Row]:
    """1,000 sentences; then as many words in ever longer ones, merged at random or from one end."""
    (ours,) = clock.times(partial(ops.pruned_charts, *batch(1000, 32, "at random"), window=WINDOW))
    figure = f"{1e3 * ours.median:.1f} ms"
    name = f"GPST's pruned charts, window {WINDOW}, 1,000 sentences of 32 words"
    yield Row(name, ours, None, figure, "< 30 ms", ours.median < 0.03)
    lengths = ((32, "at random"), (256, "at random"), (1024, "at random"), (1024, "left to right"))
    calls = [partial(ops.pruned_charts, *batch(WORDS // n, n, merged), window=WINDOW) for n, merged in lengths]
    first_time = 0.0
    for (n, merged), call, ours in zip(lengths, calls, clock.times(*calls), strict=True):
        tracemalloc.start()
        call()
        peak = tracemalloc.get_traced_memory()[1] / WORDS
        tracemalloc.stop()
        word = 1e9 * ours.median / WORDS
        first_time = first_time or word
        name = f"GPST's pruned charts, window {WINDOW}, {WORDS // n} x {n} words merged {merged}"
        figure = f"{word:.0f} ns a word, {word / first_time:.2f} of the shortest; at most {peak:.0f} bytes a word"
        yield Row(name, ours, None, figure, "<= 1.3 of the shortest", word <= 1.3 * first_time)


def batch(sentences: int, n: int, merged: str) -> tuple[np.ndarray, np.ndarray]:
    """Return scores and offsets."""
    scores = np.random.default_rng(0).standard_normal((sentences, n - 1)).astype(np.float32)
    if merged == "left to right":
        scores.sort(axis=1)
    return scores.ravel(), np.arange(sentences + 1) * n
