"""What the machine can do at best: the rates of copies and products, the times of a launch and of a synchronisation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

from accel import PRECISIONS
from benchmarks.gpu_report.records import Row, Setting

REPEATS = 7
LAUNCHES = 500


def rows(setting: Setting) -> Iterator[Row]:
    yield "copy on the device", lambda: copy(setting)
    yield "copy from the host", lambda: copy(setting, from_host=True)
    for precision in PRECISIONS:
        yield f"product, {precision}", lambda precision=precision: product(setting, precision)
    yield "launch of CuPy", lambda: launch(setting, lambda ops, x: x.fill(0))
    yield "launch of our own", lambda: launch(setting, lambda ops, x: ops.bias_gelu(x[None], x))
    yield "synchronisation", lambda: synchronisation(setting)


def timed(setting: Setting, call: Callable[[], Any], count: int = 1) -> float:
    """Return the median seconds of a call, with the device's work, when `count` calls are made in a row."""
    seconds = []
    for _ in range(REPEATS + 1):
        setting.synchronise()
        begin = time.perf_counter()
        for _ in range(count):
            call()
        setting.synchronise()
        seconds.append((time.perf_counter() - begin) / count)
    return median(seconds[1:])


def copy(setting: Setting, from_host: bool = False) -> dict[str, Any]:
    """Return the bytes a second of a copy of 1 GiB; on the device, bytes that are read and written count."""
    import numpy as np

    xp, size = setting.ops().xp, 2**14 if setting.small else 2**28
    x = xp.zeros(size, np.float32)
    source = np.zeros(size, np.float32) if from_host else xp.zeros(size, np.float32)
    seconds = timed(setting, (lambda: x.set(source)) if from_host else (lambda: x.__setitem__(slice(None), source)))
    return {"bytes_per_second": (1 if from_host else 2) * 4 * size / seconds}


def product(setting: Setting, precision: str) -> dict[str, Any]:
    """Return the operations a second of a product of random matrices: cuBLASLt, and CuPy's own of float32."""
    import numpy as np

    from accel.cuda.forms import Forms, use

    ops, size = setting.ops(), 64 if setting.small else 8192
    draw = np.random.default_rng(0)
    a, b = (ops.xp.asarray(draw.standard_normal((size, size), np.float32)) for _ in range(2))
    out, result = ops.xp.zeros((size, size), np.float32), {}
    for kernels in ("plain", "fast") if precision == "float32" else ("fast",):
        with use(Forms(kernels, precision)):
            seconds = timed(setting, lambda: ops.matmul(a, b, out), 1 if setting.small else 3)
        result[f"{kernels}_flops"] = 2 * size**3 / seconds
    return result


def launch(setting: Setting, call: Callable[[Any, Any], Any]) -> dict[str, Any]:
    """Return the seconds of a kernel with little work, many in a row: with the device's work, and of the host alone."""
    import numpy as np

    ops = setting.ops()
    x, count = ops.xp.zeros(1024, np.float32), 5 if setting.stand_in else LAUNCHES
    whole = timed(setting, lambda: call(ops, x), count)
    setting.synchronise()
    begin = time.perf_counter()
    for _ in range(count):
        call(ops, x)
    return {"seconds": whole, "host_seconds": (time.perf_counter() - begin) / count}


def synchronisation(setting: Setting) -> dict[str, Any]:
    """Return the seconds until the host has one number of the device."""
    import numpy as np

    x = setting.ops().xp.zeros(1, np.float32)
    return {"seconds": timed(setting, lambda: float(x[0]), 20)}
