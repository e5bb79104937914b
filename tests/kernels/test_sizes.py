"""The sizes at which operations are tested: they are those of the tiles, and an error above a tile is caught."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from accel import cpu, ref
from accel.verify import test_sizes as at_sizes
from accel.verify.expected import cast
from accel.verify.gradients import largest
from accel.verify.mutants.peaks import SOFTMAXES, largest_of_one_tile
from accel.verify.mutants.sizes import AS_THEY_HAPPEN, MEASURES, wrong_above
from accel.verify.op import Case, Op
from accel.verify.ops.table import OPS
from accel.verify.sizes import axes, cases_at_sizes, sizes_around, tiles_of
from accel.verify.values import check_values

ROWS = {op.name: op for op in OPS}


def backend_with(tiles: dict[str, dict[str, Any]] | None, **functions: Any) -> Any:
    """Return the CPU backend with other functions, and with these tiles; None: it declares none."""
    public = {name: value for name, value in vars(cpu).items() if not name.startswith("_")}
    return SimpleNamespace(**public | {"tiles": tiles, "__name__": "other"} | functions)


def fails(name: str, function: Callable[..., Any], op: Op, tiles: dict[str, tuple[int, ...]] | None = None) -> bool:
    backend = backend_with(tiles and {op.name: tiles}, **{name: function})
    try:
        if name.endswith("_vjp"):
            at_sizes.test_gradients_at_sizes(backend, op)
        else:
            at_sizes.test_ops_at_sizes(backend, op)
    except AssertionError:
        return True
    return False


def refuses(op: Op, mutant: Callable[..., Any], case: Case) -> bool:
    try:
        check_values(backend_with(None, **{op.name: mutant}), op, case)
    except AssertionError:
        return True
    return False


def test_every_operation_has_axes(op: Op) -> None:
    """Every operation has axes, and its cases of the default sizes pass."""
    assert axes(op)
    for builder in op.sized:
        check_values(cpu, op, builder())


def test_a_case_has_the_size_that_it_is_given(op: Op) -> None:
    """The size of every axis with tiles can be measured, and a case has the size that was asked for."""
    for axis, tiles in tiles_of(SimpleNamespace(), op).items():
        for size in sizes_around(tiles):
            for builder in axes(op)[axis]:
                assert MEASURES[op.name][axis](op.batched(builder(**{axis: size}))) == size


def test_an_error_above_a_tile_is_caught(op: Op) -> None:
    """For every tile of our kernels: one number in the outputs or a gradient is wrong if the axis is longer."""
    for axis, tiles in tiles_of(SimpleNamespace(), op).items():
        row = replace(op, sized=axes(op)[axis][:1])  # one kind of case is enough
        for tile, name in product(tiles, (op.name, f"{op.name}_vjp") if op.diff else (op.name,)):
            assert fails(name, wrong_above(name, axis, tile), row, {axis: (tile,)}), f"{name}, {axis} above {tile}"


@pytest.mark.parametrize("name", [op.name for op in OPS if "heads" in axes(op)])
def test_an_error_above_eight_heads_is_caught(name: str) -> None:
    """It is caught at the sizes of a backend that declares no tiles."""
    tiles = tiles_of(backend_with(None), ROWS[name])["heads"]
    assert fails(name, wrong_above(name, "heads", 8), ROWS[name], {"heads": tiles})
    assert fails(f"{name}_vjp", wrong_above(f"{name}_vjp", "heads", 8), ROWS[name], {"heads": tiles})


@pytest.mark.parametrize(("name", "mutant"), AS_THEY_HAPPEN, ids=lambda x: getattr(x, "__name__", x))
def test_errors_as_they_happen_are_caught(name: str, mutant: Callable[..., Any]) -> None:
    assert fails(name, mutant, ROWS[name.removesuffix("_vjp")])


@pytest.mark.filterwarnings("ignore:.*encountered in")
@pytest.mark.parametrize("name", [op.name for op in OPS if op.peaks])
def test_a_softmax_that_misses_the_largest_score_is_caught(name: str) -> None:
    """At every tile of our kernels, except the last of two tiles of 256 keys in `causal_attention`.

    Only one query sees both of these tiles, and its peak is in the last one.
    """
    op, (axis, _) = ROWS[name], SOFTMAXES[name]
    for tile in {16, *tiles_of(SimpleNamespace(), op)[axis]}:
        sizes = [size for size in sizes_around((tile,)) if size > tile]
        for last in (False, True) if (name, tile) != ("causal_attention", 256) else (False,):
            mutant = largest_of_one_tile(name, tile, last)
            cases = (op.peaks(builder(**{axis: size})) for size in sizes for builder in axes(op)[axis])
            assert any(refuses(op, mutant, case) for case in cases), f"{axis} above {tile}, the last tile: {last}"


@pytest.mark.parametrize("name", [op.name for op in OPS if op.peaks])
def test_no_peak_is_too_large_for_float16(name: str) -> None:
    op = ROWS[name]
    for _, case in cases_at_sizes(SimpleNamespace(), op):
        assert largest(op.peaks(case)) < 10_000


def test_a_neighbour_that_is_read_above_a_tile_is_caught() -> None:
    """The kernel reads the first row of the batch for every row, with a weight of 0, if there are over 64 rows."""

    def reads_the_first_row(x: Any, *rest: Any) -> Any:
        y, *others = cpu.layer_norm(x, *rest)
        return (y + x[:1] * 0 if len(x) > 64 else y), *others

    backend, op = backend_with(None, layer_norm=reads_the_first_row), ROWS["layer_norm"]
    at_sizes.test_ops_at_sizes(backend, op)
    with pytest.raises(AssertionError, match="LAY-1 layer_norm, example 1 beside nan"):
        at_sizes.test_neighbours_at_sizes(backend, op)


def test_tiles_of_a_backend() -> None:
    """A backend has the tiles that it declares; if it declares none, our backends'; the reference has none."""
    op = ROWS["layer_norm"]
    assert tiles_of(backend_with({"layer_norm": {"rows": (7,)}}), op) == {"rows": (7,)}
    assert tiles_of(ref, op) == {}
    for backend in (SimpleNamespace(), backend_with({"cumax": {"rows": (7,)}})):
        both = tiles_of(backend, op)
        assert both == {"rows": (4, 16, 64, 2048), "width": (8, 16, 32)}
    with pytest.raises(ValueError, match="tiles: layer_norm has no axis 'row': did you mean rows?"):
        tiles_of(backend_with({"layer_norm": {"row": (7,)}}), op)
    with pytest.raises(ValueError, match="tiles: layer_norm has no axis 'heads': its axes are rows, width"):
        tiles_of(backend_with({"layer_norm": {"heads": (7,)}}), op)
    with pytest.raises(ValueError, match="tiles: no operation 'layer_nrom': did you mean layer_norm?"):
        tiles_of(backend_with({"layer_nrom": {"rows": (7,)}}), op)
    for sizes in (7, (0,), (2.5,), (np.nan,)):
        with pytest.raises(ValueError, match="tiles: layer_norm, rows: .* is no tuple of positive numbers"):
            tiles_of(backend_with({"layer_norm": {"rows": sizes}}), op)


def test_kernels_of_others_are_tested_along_every_axis(op: Op) -> None:
    """A backend that declares no tiles is tested along every axis: with our tiles, or, where we have none, with 16."""
    tiles = tiles_of(backend_with(None), op)
    assert tiles.keys() == axes(op).keys() and all(tiles.values())
    assert tiles == {axis: tiles_of(SimpleNamespace(), op).get(axis) or (16,) for axis in axes(op)}


def test_wide_rows_and_long_sequences_of_others() -> None:
    """These kernels are wrong from a width or a step of 17 on; the drawn cases are smaller."""

    def narrow(h: Any, table: Any, *others: Any) -> Any:
        return cpu.cross_entropy(h[:, :16].copy(), table[:, :16].copy(), *others)

    def short(*arguments: Any, kind: str) -> Any:
        hidden, *others = cpu.recurrence(*arguments, kind=kind)
        step = np.concatenate([[0], *(np.arange(n) for n in np.diff(arguments[-1]))])[1:]
        return hidden + (step >= 16)[:, None].astype(hidden.dtype), *others

    assert fails("cross_entropy", narrow, ROWS["cross_entropy"])
    assert fails("recurrence", short, ROWS["recurrence"])
    assert not fails("recurrence", cpu.recurrence, ROWS["recurrence"])


def digest() -> str:
    """Return a digest of all operations and gradients at the sizes of the CPU's tiles, in float32."""
    hasher = hashlib.sha256()
    for op in OPS:
        for _, case in cases_at_sizes(cpu, op):
            arguments = cast(op.batched(case), np.float32)
            outputs = op.call(cpu, arguments)
            gradients = op.vjp(cpu, arguments, np.cos(outputs[0])).values() if op.diff else ()
            for x in (*outputs, *gradients):
                hasher.update(np.ascontiguousarray(x).tobytes())
    return hasher.hexdigest()


def test_threads_do_not_change_a_bit_above_a_tile() -> None:
    digests = set()
    for threads in ("1", "2"):
        environment = os.environ | {"NUMBA_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": "1"}
        program = "from tests.kernels.test_sizes import digest; print(digest())"
        run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        digests.add(run.stdout)
    assert len(digests) == 1
