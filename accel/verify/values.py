"""How an operation of a backend is compared with the reference: its values, its neighbours, and its errors."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from types import ModuleType

import numpy as np

import accel.ref
from accel.verify.compare import FLOAT32, Disagreement, assert_equal
from accel.verify.errors import assert_refused, changes
from accel.verify.expected import Expected, cast, compare
from accel.verify.gradients import LARGE, largest
from accel.verify.op import Case, Example, Op, Outputs, is_float
from accel.verify.precision import held

_TYPES: dict[tuple[str, type], list[np.dtype]] = {}  # results of `types_of`


def answers(op: Op, backend: ModuleType, case: Case, dtype: type, omitted: Collection[str] = ()) -> list[Outputs]:
    """Return the outputs of every example; `omitted` are options that are left to the kernel's defaults."""
    arguments = {key: x for key, x in cast(op.batched(case), dtype).items() if key not in omitted}
    outputs, types = op.call(backend, arguments), types_of(op, dtype)
    if len(outputs) < len(types):
        raise Disagreement(f"{op.clause} {op.name}", "number of outputs", len(outputs), len(types))
    for number, (output, right) in enumerate(zip_longest(outputs, types)):
        if not _fits(output.dtype, right, dtype):
            what = f"{op.clause} {op.name}, output {number}"
            raise Disagreement(what, "dtype", output.dtype, right or np.dtype(dtype))
    try:
        return op.split(outputs[: len(types)], case)
    except (IndexError, TypeError, ValueError) as error:
        failed = f"arrays that cannot be cut into examples ({' '.join(str(error).split())})"
        expected = f"those that --describe {op.name} lists"
        raise Disagreement(f"{op.clause} {op.name}", "outputs", failed, expected) from error


def types_of(op: Op, dtype: type) -> list[np.dtype]:
    """Return the types of the reference's outputs, as `grove verify --describe` prints them."""
    if (op.name, dtype) not in _TYPES:
        outputs = op.call(accel.ref, cast(op.batched(op.sized[0]()), dtype))
        _TYPES[op.name, dtype] = [output.dtype for output in outputs]
    return _TYPES[op.name, dtype]


def _fits(output_dtype: np.dtype, right: np.dtype | None, dtype: type) -> bool:
    """Return whether an output may have this type: integers must be signed, as wide as the reference's or wider.

    An output that the reference lacks may be a float of `dtype`, an integer or a boolean: only the gradient reads it.
    """
    if right is None:
        return output_dtype == dtype or output_dtype.kind in "iub"
    if right.kind == "i":
        return output_dtype.kind == "i" and output_dtype.itemsize >= right.itemsize
    return output_dtype == right


def check_values(backend: ModuleType, op: Op, case: Case) -> None:
    """Raise AssertionError unless every example has the reference's outputs, and the laws hold."""
    case, dtypes, precision = held(backend, op, case)
    expected = Expected(op, case, precision)
    for dtype in dtypes:
        results = answers(op, backend, case, dtype)
        compare(expected, results, dtype)
        for law in op.laws if precision == FLOAT32 else ():
            for example, outputs in zip(case.examples, results, strict=True):
                law(case.shared, example, outputs)


def check_neighbours(
    backend: ModuleType, op: Op, case: Case, filling: float, examples: Iterable[int] | None = None
) -> None:
    """Raise AssertionError unless the outputs of these examples (None: all) stay the same beside filled ones.

    Those of a kernel that adds up in another order at every call need only agree with the reference. The floats of all
    other examples of the batch become `filling`. An operation that is `finite` must refuse a NaN.
    """
    case, dtypes, precision = held(backend, op, case)
    for dtype in dtypes:
        right = answers(op, backend, case, dtype)
        for b in range(len(case.examples)) if examples is None else examples:
            others = [e if i == b else filled(e, filling) for i, e in enumerate(case.examples)]
            if op.finite and any(np.isnan(x).any() for e in others for x in e.values() if isinstance(x, np.ndarray)):
                arguments = cast(op.batched(Case(case.shared, others)), dtype)
                assert_refused(backend, op, arguments, ("NaN",), f"example {b} beside NaN")
                continue
            with np.errstate(all="ignore"):
                beside = answers(op, backend, Case(case.shared, others), dtype)[b]
            try:
                for number, (x, y) in enumerate(zip(right[b], beside, strict=True)):
                    assert_equal(y, x, f"{op.clause} {op.name}, example {b} beside {filling}, output {number}")
            except Disagreement:
                if _repeats(op, backend, case, dtype, right):
                    raise
                results = [beside if i == b else outputs for i, outputs in enumerate(right)]
                compare(Expected(op, case, precision), results, dtype)


def _repeats(op: Op, backend: ModuleType, case: Case, dtype: type, right: list[Outputs]) -> bool:
    """Return whether a kernel gives the same bits again, in each of a few calls."""
    calls = (answers(op, backend, case, dtype) for _ in range(8))
    return all(
        x.tobytes() == y.tobytes()
        for results in calls
        for outputs, others in zip(right, results, strict=True)
        for x, y in zip(outputs, others, strict=True)
    )


def check_lasting(backend: ModuleType, op: Op, case: Case) -> None:
    """Raise AssertionError if outputs do not last: the next call is that of the same examples, reversed and halved."""
    case, dtypes, _ = held(backend, op, case)
    halves = [{key: x / 2 if is_float(x) else x for key, x in e.items()} for e in case.examples[::-1]]
    first, following = (cast(op.batched(one), dtypes[-1]) for one in (case, Case(case.shared, halves)))
    op.require_lasting(backend, first, following)


@contextmanager
def saying(words: str) -> Iterator[None]:
    """Add words to the message of an AssertionError: in what the input differs from the one that is shown and saved."""
    try:
        yield
    except AssertionError as error:
        error.args = (f"{error} ({words})", *error.args[1:])
        raise


def check_other_options(backend: ModuleType, op: Op, case: Case) -> None:
    """Raise AssertionError unless the case agrees at another rate of dropout, and with its options left out.

    A kernel that keeps the numbers of a call may use them again for equal shapes and seeds, at another rate.
    """
    case, (dtype, *_), precision = held(backend, op, case)
    defaults = defaults_of(op)
    variants: list[tuple[Example, tuple[str, ...], str]] = []
    if "rate" in case.shared and largest(case) <= LARGE:  # huge scores may keep weights only that are 0 in float32
        rate = 0.25 if case.shared["rate"] else 0.5
        variants.append(({"rate": rate}, (), f"at rate {rate}, after the call at rate {case.shared['rate']}"))
    if defaults:
        variants.append((defaults, tuple(defaults), f"without {', '.join(defaults)}"))
    if variants:
        answers(op, backend, case, dtype)
    for settings, omitted, words in variants:
        variant = Case(case.shared | settings, case.examples)
        with saying(words):
            compare(Expected(op, variant, precision), answers(op, backend, variant, dtype, omitted), dtype)


def defaults_of(op: Op) -> Example:
    """Return the options that have a default in `accel.ref`, as `grove verify --describe` prints them."""
    parameters = inspect.signature(getattr(accel.ref, op.name)).parameters
    return {name: p.default for name in op.options if (p := parameters[name]).default is not p.empty}


def check_values_at_size(backend: ModuleType, op: Op, case: Case) -> None:
    """Call `check_values`, with the largest score of a softmax at either end, too."""
    check_values(backend, op, case)
    if op.peaks is not None:
        with saying("with a largest score added, see accel/verify/peaks.py"):
            check_values(backend, op, op.peaks(case))


def check_neighbours_at_size(backend: ModuleType, op: Op, case: Case) -> None:
    """Call `check_neighbours` for the first and the last example, beside NaN or, where NaN is refused, beside 1e30."""
    if len(case.examples) > 1:
        check_neighbours(backend, op, case, 1e30 if op.finite else np.nan, (0, len(case.examples) - 1))


def check_error(backend: ModuleType, op: Op, case: Case, number: int) -> None:
    """Raise AssertionError unless a declared bad input is refused as the row of the table says."""
    words, spoiler = op.errors[number]
    case, (dtype, *_), _ = held(backend, op, case)
    right = op.batched(case)
    right, wrong = (_in_type(arguments, dtype) for arguments in (right, spoiler(right)))
    other = words if dtype == np.float64 else words.replace("float32", "float64")
    assert_refused(backend, op, wrong, other.split("|"), changes(right, wrong))


def _in_type(arguments: Example, dtype: type) -> Example:
    """Return arguments with float64 arrays in this type, and float32 ones, which are wrong, in the other type."""
    other = {np.dtype(np.float64): dtype, np.dtype(np.float32): np.float32 if dtype == np.float64 else np.float64}
    floats = {key: x for key, x in arguments.items() if isinstance(x, np.ndarray) and x.dtype in other}
    return arguments | {key: x.astype(other[x.dtype]) for key, x in floats.items()}


def filled(example: Example, filling: float) -> Example:
    return {
        key: np.full_like(x, filling) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x
        for key, x in example.items()
    }
