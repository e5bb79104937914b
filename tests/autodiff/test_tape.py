"""The tape: the gradient of every operation, sums of contributions, buffers, and when arrays are freed."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from accel.autodiff import layers
from accel.autodiff.arrays import named_views, packed
from accel.autodiff.recomputation import saved_bytes
from accel.autodiff.tape import Tape
from accel.autodiff.variables import Variable, constant

OPS: Any = SimpleNamespace(
    xp=np,
    product=lambda x, y, power=1: ((x * y) ** power, None),
    product_vjp=lambda d, outputs, x, y, power=1: (
        d * power * (x * y) ** (power - 1) * y,
        d * power * (x * y) ** (power - 1) * x,
    ),
    same=lambda x: (x,),
    same_vjp=lambda d, outputs, x: (d,),
)
MASK = np.array([[True], [False], [True], [True]])
OPERATIONS: dict[str, tuple[Callable[..., Variable], list[tuple[int, ...]]]] = {
    "linear": (lambda t, x, w, b: t.linear(x, w, b), [(4, 3), (3, 5), (5,)]),
    "linear-no-bias": (lambda t, x, w: t.linear(x, w), [(4, 3), (3, 5)]),
    "linear-all": (
        lambda t, x, *w: t.concatenate([*t.linear_all(t.relu(x), w)[:2], t.linear(x, w[2])]),
        [(4, 3), (3, 5), (3, 5), (3, 5)],
    ),
    "linear-all-again": (
        lambda t, x, *w: t.multiply(*[t.add(*t.linear_all(x, w)) for _ in range(2)]),
        [(4, 3), (3, 5), (3, 5)],
    ),
    "project": (lambda t, x, w, b: t.project(x, w, b), [(4, 3), (5, 3), (5,)]),
    "project-no-bias": (lambda t, x, w: t.project(x, w), [(4, 3), (5, 3)]),
    "multiply": (lambda t, x, y: t.multiply(x, t.multiply(x, y)), [(4, 3), (4, 3)]),
    "scale": (lambda t, x: t.scale(t.scale(x, np.array([[2.0], [0.0], [3.0], [-1.0]])), 0.5), [(4, 3)]),
    "absolute-difference": (lambda t, x, y: t.absolute_difference(x, y), [(4, 3), (4, 3)]),
    "relu": (lambda t, x: t.relu(x), [(4, 3)]),
    "elu": (lambda t, x: t.elu(x), [(4, 3)]),
    "transpose": (lambda t, x: t.transpose(x, 1, 2, 0), [(4, 3, 2)]),
    "add": (lambda t, x, y: t.add(x, y), [(4, 3), (4, 3)]),
    "add-to-itself": (lambda t, x: t.add(x, t.add(x, t.add(x, x))), [(4, 3)]),
    "reshape": (lambda t, x: t.reshape(x, -1, 3, 2), [(4, 6)]),
    "part": (lambda t, x: t.part(x, 1, 3, axis=-2), [(2, 4, 3)]),
    "select": (lambda t, x, y: t.select(MASK, x, y), [(4, 3), (4, 3)]),
    "take": (lambda t, x: t.take(x, np.array([3, 0])), [(4, 3)]),
    "concatenate": (lambda t, x, y: t.concatenate([x, y], axis=1), [(4, 3), (4, 2)]),
    "concatenate-last": (lambda t, x, y: t.concatenate([x, y], axis=-1), [(4, 3), (4, 2)]),
    "op": (lambda t, x, y: t.op("product", x, y, power=3), [(4, 3), (4, 3)]),
    "op-that-hands-its-gradient-on": (lambda t, x, y: t.add(t.op("same", t.add(x, y)), t.add(x, y)), [(4, 3), (4, 3)]),
    "diamond": (lambda t, x, w: t.add(t.linear(t.linear(x, w), w), t.op("product", x, x)), [(4, 3), (3, 3)]),
}


@pytest.mark.parametrize(("build", "shapes"), OPERATIONS.values(), ids=OPERATIONS)
def test_gradient_of_every_operation(build: Callable[..., Variable], shapes: list[tuple[int, ...]]) -> None:
    random = np.random.default_rng(0)
    values = [random.standard_normal(shape) for shape in shapes]
    copies = [x.copy() for x in values]
    tape, inputs = Tape(OPS), [Variable(x) for x in values]
    output = build(tape, *inputs)
    weight = random.standard_normal(output.value.shape)
    weight_before = weight.copy()
    tape.backward(output, weight)
    assert all((x == y).all() for x, y in zip(values, copies, strict=True)), "an input was changed"
    assert (weight == weight_before).all(), "the gradient handed in was changed"
    for i, x in enumerate(inputs):
        direction = random.standard_normal(x.value.shape)
        ends = []
        for step in (1e-6, -1e-6):
            arguments = [constant(v + step * direction if j == i else v) for j, v in enumerate(values)]
            ends.append((build(Tape(OPS), *arguments).value * weight).sum())
        assert (x.gradient * direction).sum() == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-8, abs=1e-8)


def test_a_buffer_is_overwritten_once_then_added_to() -> None:
    """The old contents of a parameter's buffer do not count, whichever operation comes first."""
    x, w = np.arange(6.0).reshape(2, 3), np.ones((3, 3))
    for product in (Tape.linear, Tape.project):
        plain, buffered = Variable(w), Variable(w, buffer=np.full((3, 3), np.nan))
        for variable in (plain, buffered):
            tape = Tape(OPS)
            tape.backward(tape.add(product(tape, constant(x), variable), tape.part(variable, 0, 2)), np.ones((2, 3)))
        np.testing.assert_array_equal(buffered.buffer, plain.gradient)
        assert buffered.gradient is buffered.buffer


def test_buffers_of_several_weights_are_overwritten_once_then_added_to() -> None:
    """It also holds if one weight gets a gradient before the others, and for two runs of a record."""
    x, values = np.arange(6.0).reshape(2, 3), [np.full((3, 3), float(i)) for i in range(3)]
    for indices in ((), (1,), (0, 1, 2)):
        weights = [Variable(w, buffer=np.full((3, 3), np.nan)) for w in values]
        tape = Tape(OPS)
        output = tape.concatenate(tape.linear_all(constant(x), weights))
        for i in indices:
            output = tape.concatenate([output, tape.part(weights[i], 0, 2)])
        for times in (1, 2):
            tape.backward(output, np.ones(output.value.shape), keep=True)
            for i, weight in enumerate(weights):
                expected = x.sum(axis=0)[:, None] + np.zeros(3) + (i in indices) * np.array([[1.0], [1.0], [0.0]])
                np.testing.assert_array_equal(weight.buffer, times * expected)
                assert weight.gradient is weight.buffer


def test_constants_are_not_recorded() -> None:
    tape = Tape(OPS)
    y = tape.linear(constant(np.ones((2, 2))), constant(np.ones((2, 2))))
    assert not y.needs_gradient
    tape.backward(y, np.ones((2, 2)))
    assert y.gradient is None


def test_constants_get_no_gradient() -> None:
    """A constant gets no gradient, also in operations whose other inputs have one."""
    for product in (Tape.linear, Tape.project):
        tape, x, weight, bias = Tape(OPS), Variable(np.ones((2, 3))), constant(np.ones((3, 3))), constant(np.ones(3))
        tape.backward(product(tape, x, weight, bias), np.ones((2, 3)))
        assert weight.gradient is None and bias.gradient is None and x.gradient is not None


def test_contributions_are_added_in_place_where_nobody_else_reads() -> None:
    owner, other = Variable(np.ones(2)), Variable(np.ones(2))
    first, shared, second = np.ones(2), np.ones(2), np.full(2, 3.0)
    owner.accumulate(first)
    other.accumulate(shared, owned=False)
    for variable in (owner, other):
        variable.accumulate(second)
        np.testing.assert_array_equal(variable.gradient, [4.0, 4.0])
    assert owner.gradient is first and other.gradient is not shared and shared.tolist() == [1.0, 1.0]


def test_a_tape_runs_backward_twice() -> None:
    """Two passes give the gradient of one pass with the sum of their output gradients.

    In the second pass some variables may need no gradient.
    """
    random = np.random.default_rng(0)
    x, w, first, second = (random.standard_normal((3, 3)) for _ in range(4))
    for detached in (False, True):
        buffer, tape = np.empty((3, 3)), Tape(OPS)
        weight, h = Variable(w, buffer=buffer), Variable(x)
        middle = tape.linear(h, weight)
        factor = tape.scale(weight, 2.0)
        output = tape.multiply(middle, factor)
        tape.backward(output, first, keep=True)
        factor.needs_gradient = not detached
        tape.backward(output, second)
        through = (first + second) * 2 * w
        aside = (first if detached else first + second) * (x @ w)
        np.testing.assert_allclose(buffer, x.T @ through + 2 * aside)
        np.testing.assert_allclose(h.gradient, through @ w.T)
        assert weight.gradient is buffer


def test_arrays_are_let_go_of_as_the_backward_pass_uses_them() -> None:
    """Before an operation's gradient is computed, all later operations have freed their arrays."""
    tape, alive = Tape(OPS), []
    saved: list[weakref.ref] = []

    def spy(x: Variable) -> Variable:
        def backward(d_out: np.ndarray) -> None:
            alive.append(sum(reference() is not None for reference in saved))
            x.accumulate(d_out)

        return tape.record(x.value + 0.0, [x], backward)

    def forward() -> Variable:
        h = Variable(np.ones((2, 2)))
        for _ in range(5):
            h = spy(tape.linear(h, Variable(np.ones((2, 2)))))
            saved.append(weakref.ref(h.value))
        return h

    tape.backward(forward(), np.ones((2, 2)))
    assert alive == [5, 5, 4, 3, 2]  # those before, itself, and the output, which the caller holds


def test_without_recording_the_tape_is_empty() -> None:
    tape = Tape(OPS, recording=False)
    x = Variable(np.ones((2, 2)))
    h = tape.linear(x, Variable(np.ones((2, 2))))
    first = weakref.ref(h.value)
    h = tape.linear(h, x)
    assert first() is None and not h.needs_gradient


def test_every_op_of_the_backend_is_announced() -> None:
    calls: list[tuple[Any, ...]] = []
    tape = Tape(OPS, recording=False, on_op=lambda *call: calls.append(call))
    x, y = np.arange(3.0), np.ones(3)
    out = tape.op("product", constant(x), y, power=2)
    ((name, inputs, options, outputs),) = calls
    assert (name, options) == ("product", {"power": 2}) and inputs[0] is x and inputs[1] is y
    assert outputs[0] is out.value and outputs[1] is None


def test_saved_bytes_of_one_product() -> None:
    """Every array counts once, a view as its whole array; arrays that are given are left out."""
    tape, x, whole = Tape(OPS), constant(np.ones((2, 3))), np.ones(6)
    weight = Variable(np.ones((3, 3)))
    tape.linear(x, weight)
    assert saved_bytes(tape) == 8 * (2 * 3 + 3 * 3)
    assert saved_bytes(tape, [weight.value]) == 8 * 2 * 3
    tape.multiply(weight, constant(whole[:3]))
    assert saved_bytes(tape, [whole]) == 8 * (2 * 3 + 3 * 3)


def test_named_views_share_the_vector() -> None:
    vector = np.arange(7.0)
    views = named_views(vector, {"a": (2, 3), "b": (1,)})
    views["a"][1, 2] = 9.0
    assert vector[5] == 9.0 and views["b"][0] == 6.0
    with pytest.raises(ValueError, match=r"^vector: shape \(7,\), but the named shapes fill \(6,\)$"):
        named_views(vector, {"a": (2, 3)})


def test_aligned_views_leave_room() -> None:
    """The vector has zeros between the views; the views have the packed arrays."""
    shapes = {"a": (2, 3), "b": (1,), "c": (4,)}
    arrays = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    vector = packed(arrays, shapes, 4)
    assert vector.tolist() == [1.0] * 6 + [0.0] * 2 + [1.0] + [0.0] * 3 + [1.0] * 4 and vector.dtype == np.float32
    for name, view in named_views(vector, shapes, 4).items():
        assert np.array_equal(view, arrays[name]) and (view.ctypes.data - vector.ctypes.data) % 16 == 0


def test_dropout_sites_draw_different_seeds() -> None:
    sites, again, off = layers.DropoutSites(3), layers.DropoutSites(3), layers.DropoutSites(None)
    draws = [sites.draw(0.5) for _ in range(100)]
    assert draws == [again.draw(0.5) for _ in range(100)]
    assert len({draw["seed"] for draw in draws}) == 100
    assert all(0 <= draw["seed"] < 2**64 and draw["rate"] == 0.5 for draw in draws)
    assert off.draw(0.5) == {"rate": 0.0, "seed": 0}


def test_sinusoids_are_sines_then_cosines_of_falling_frequencies() -> None:
    table = layers.sinusoids(OPS, 5, 6, np.float64, first=2)
    for row, position in zip(table, range(2, 7), strict=True):
        angles = [position / 10000 ** (2 * i / 6) for i in range(3)]
        np.testing.assert_allclose(row, [*map(math.sin, angles), *map(math.cos, angles)], rtol=1e-14)


def test_sinusoids_continue_from_any_first_position() -> None:
    table = layers.sinusoids(OPS, 6, 8, np.float32, first=-1)
    assert table.dtype == np.float32 and table.shape == (6, 8)
    np.testing.assert_array_equal(table[1:], layers.sinusoids(OPS, 5, 8, np.float32))
    np.testing.assert_array_equal(table[1], [0.0] * 4 + [1.0] * 4)
