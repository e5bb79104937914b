"""bfloat16 on a processor: rounding and packing on every processor, products only where it has the instruction."""

from __future__ import annotations

import numpy as np
import pytest

from accel import cpu
from accel.cpu.support import bfloat16, products
from accel.cpu.support.kernels import kernel

needs_the_instruction = pytest.mark.skipif(
    not bfloat16.AVAILABLE, reason="this processor has no avx512_bf16 instructions"
)
EPS = {"float32": np.finfo(np.float32).eps, "bfloat16": 2.0**-8}
SHAPES = [(1, 1, 1), (2, 3, 31), (7, 8, 33), (10, 17, 64), (23, 40, 100), (3, 5, 1100)]  # rows, inner axis, columns


def nearest(x: np.ndarray) -> np.ndarray:
    """Return float32 numbers to 8 bits, ties to even, by arithmetic in float64; subnormal ones have fewer bits."""
    with np.errstate(over="ignore", invalid="ignore"):  # what is beyond the greatest one becomes an infinity
        wide = x.astype(np.float64)
        unit = np.ldexp(1.0, np.maximum(np.frexp(wide)[1], -125) - 8)
        return (np.rint(wide / unit) * unit).astype(np.float32)


def numbers_of(halves: np.ndarray) -> np.ndarray:
    """Return the float32 numbers whose upper 16 bits these are; their lower bits are 0."""
    return (halves.astype(np.uint32) << 16).view(np.float32)


def unpacked(panels: np.ndarray) -> np.ndarray:
    """Return the padded weight [2 K / 2, panels times lanes] from panels of pairs."""
    pairs = panels.transpose(1, 0, 2).reshape(panels.shape[1], -1)
    both = np.stack([pairs & 0xFFFF, pairs >> 16], axis=1)
    return numbers_of(both.reshape(-1, pairs.shape[1]))


@pytest.fixture
def packing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lay out weights as pairs, on every processor: also where bfloat16 products would not run."""
    monkeypatch.setattr(bfloat16, "_is_used", True)


@kernel()
def _multiply(x, panels, rows, out):
    products.multiply(x, panels, rows, 0, len(panels) * products.n_tiles(rows), out)


def test_numbers_are_rounded_to_the_nearest() -> None:
    """The inputs are all exponents and signs with mantissas at and around the halves, and random numbers."""
    ends = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 0x17FFF, 0x18000, 0x18001, 0x7F8000, 0x7FFFFF], np.uint32)
    edges = (np.arange(2 * 256, dtype=np.uint32)[:, None] << 23 | ends).ravel()
    samples = np.random.default_rng(0).integers(0, 2**32, 20_001, np.uint32)
    x = np.concatenate([edges, samples]).view(np.float32)[None, :]
    pairs = bfloat16.as_pairs(x)
    halves = pairs.view(np.uint16)[:, : x.shape[1]]
    np.testing.assert_array_equal(numbers_of(halves), nearest(x))
    finite = np.isfinite(x)
    np.testing.assert_array_equal(np.signbit(numbers_of(halves))[finite], np.signbit(x)[finite])
    assert x.shape[1] % 2 and not (pairs[:, -1] >> 16).any()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.usefixtures("packing")
def test_weights_are_packed_in_pairs(shape: tuple[int, int, int]) -> None:
    """A weight in row or column order gives the same pairs; the padding beyond the weight is 0."""
    _, depth, width = shape
    weight = np.random.default_rng(1).standard_normal((depth, width)).astype(np.float32)
    for one in (weight, np.asfortranarray(weight)):
        padded = unpacked(products.factor(one))
        np.testing.assert_array_equal(padded[:depth, :width], nearest(weight))
        assert not padded[depth:].any() and not padded[:, width:].any()
    assert products.factor(weight.astype(np.float64)).dtype == np.float64


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.usefixtures("packing")
def test_rows_and_weights_pair_alike(shape: tuple[int, int, int]) -> None:
    """The products of the pairs, summed by NumPy, are the product of the rounded factors."""
    x, weight = drawn(shape)
    panels = products.factor(weight)
    rows = numbers_of(products.rows_for(panels, x).view(np.uint16)).astype(np.float64)
    value = rows @ unpacked(panels).astype(np.float64)
    np.testing.assert_allclose(value[:, : shape[2]], exact(x, weight), rtol=0, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
@needs_the_instruction
def test_products_are_those_of_rounded_factors(shape: tuple[int, int, int]) -> None:
    """Only the sums are rounded: the error is at most K + 1 eps of float32 times the sum of absolute terms."""
    x, weight = drawn(shape)
    with bfloat16.use():
        panels = products.factor(weight)
    out = products.products(panels, shape[0])
    _multiply(products.rows_for(panels, x), panels, shape[0], out)
    bound = (shape[1] + 1) * EPS["float32"] * exact(abs(x), abs(weight))
    assert (abs(out[:, : shape[2]] - exact(x, weight)) <= bound).all()
    assert not out[:, shape[2] :].any()


@pytest.mark.parametrize("kind", ["lstm", "on_lstm", "fasttrees"])
@needs_the_instruction
def test_a_step_rounds_the_hidden_state_and_its_weight(kind: str) -> None:
    """A bfloat16 step equals a float32 step on rounded numbers, up to sums; a float64 step rounds nothing."""
    gates, weight, bias, h0, c0 = cell(kind, [1, 1, 1])
    offsets = np.arange(4)
    with bfloat16.use():
        value = cpu.recurrence(gates, weight, bias, h0, c0, offsets, kind=kind)
        wide = [x.astype(np.float64) for x in (gates, weight, bias, h0, c0)]
        of_wide = cpu.recurrence(*wide, offsets, kind=kind)
    near = cpu.recurrence(gates, nearest(weight), bias, nearest(h0), c0, offsets, kind=kind)
    for x, y in zip(value, near, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=100 * EPS["float32"])
    for x, y in zip(of_wide, cpu.recurrence(*wide, offsets, kind=kind), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("kind", ["lstm", "on_lstm", "fasttrees"])
@needs_the_instruction
def test_gradients_are_near_those_of_float32(kind: str) -> None:
    """For ragged sequences the gradients differ, but by less than 2 eps of bfloat16 times the largest gradient."""
    lengths = [5, 3, 1, 4]
    gates, weight, bias, h0, c0 = arguments = cell(kind, lengths)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    d_out = np.random.default_rng(5).standard_normal((len(gates), h0.shape[1])).astype(np.float32)
    outputs = cpu.recurrence(*arguments, offsets, kind=kind)
    exact_gradients = cpu.recurrence_vjp(d_out, outputs, *arguments, offsets, kind=kind)
    with bfloat16.use():
        gradients = cpu.recurrence_vjp(d_out, outputs, *arguments, offsets, kind=kind)
    for x, y in zip(gradients, exact_gradients, strict=True):
        off = abs(x - y).max() / abs(y).max()
        assert 0 < off < 2 * EPS["bfloat16"]
    last = offsets[1:] - 1  # no gradient comes from a later step
    np.testing.assert_array_equal(gradients[0][last], exact_gradients[0][last])


def test_a_processor_without_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bfloat16, "AVAILABLE", False)
    with pytest.raises(ValueError, match="no avx512_bf16 instructions"), bfloat16.use():
        pass


def drawn(shape: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray]:
    n_rows, depth, width = shape
    draw = np.random.default_rng(2)
    x, weight = (draw.standard_normal(size).astype(np.float32) for size in ((n_rows, depth), (depth, width)))
    return x, weight


def exact(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the product of rounded factors in float64."""
    product: np.ndarray = nearest(x).astype(np.float64) @ nearest(weight).astype(np.float64)
    return product


def cell(kind: str, lengths: list[int], units: int = 9) -> tuple[np.ndarray, ...]:
    """Return gates, weight, bias and the states before each sequence, for an odd number of units."""
    draw, n_masters = np.random.default_rng(3), 0 if kind == "lstm" else 6
    n_gates, rows = n_masters + 4 * units, (0 if kind == "fasttrees" else n_masters) + 4 * units
    shapes = (sum(lengths), n_gates), (rows, units), (rows,), (len(lengths), units), (len(lengths), units)
    return tuple(draw.standard_normal(shape).astype(np.float32) for shape in shapes)
