"""The checks of an operation, run without pytest: how many inputs agreed, and the first failure, shrunk.

A check is the body of a test of `test_values.py`, `test_sizes.py`, `test_gradients.py` or `test_vectors.py`; it asks
`data` for its inputs. Hypothesis draws them, or they come from a list or a saved file.
"""

from __future__ import annotations

import tempfile
import time
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import numpy as np
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.configuration import set_hypothesis_home_dir
from hypothesis.errors import HypothesisException

from accel.verify import test_gradients, test_values, test_vectors
from accel.verify.arrays import has_autograd
from accel.verify.draws import Drawn, Given, Recorder
from accel.verify.errors import in_words
from accel.verify.gradients import check_gradients_as_drawn
from accel.verify.op import Op, example_case
from accel.verify.plugin import CALM
from accel.verify.precision import declared
from accel.verify.replay import text_of
from accel.verify.sizes import cases_at_sizes, tiles_of
from accel.verify.values import check_error, check_neighbours_at_size, check_values_at_size

COLUMNS = ("values", "ragged batches", "sizes", "neighbours", "permutation", "gradients", "errors", "vectors")
SHRINKING = 3.0  # seconds that are spent on making the first failing input of an operation smaller
Body = Callable[..., None]


@dataclass(frozen=True)
class Check:
    """The body of a test, called with `backend`, `op` and `data`; `inputs` lists its inputs if none are drawn."""

    name: str
    column: str
    body: Body
    options: dict[str, Any] = field(default_factory=dict)
    inputs: Callable[[ModuleType, Op], Iterable[Drawn]] | None = None


@dataclass(frozen=True)
class Failure:
    """The smallest input found on which a check fails, and how it fails, in one line."""

    check: str
    drawn: Drawn
    message: str
    error: Exception
    repeats: bool  # the same input fails again


@dataclass(frozen=True)
class Result:
    """What a column of the report shows of an operation: inputs that agreed, seconds, and the first failure.

    `note` : for values, the declared precision that they are held to; for gradients, that the library's autograd
    computes them, or why they are not tested.
    """

    column: str
    n_inputs: int
    seconds: float
    failure: Failure | None
    note: str = ""


class Enough(BaseException):
    """Raised when no more inputs are wanted; Hypothesis does not catch it."""


def _body(test: Any) -> Body:
    body: Body = test.hypothesis.inner_test
    return body


def _check_error(backend: ModuleType, op: Op, data: Any) -> None:
    check_error(backend, op, data.draw(None, label="case"), data.draw(None, label="number"))


def _check_vector(backend: ModuleType, op: Op, data: Any) -> None:
    test_vectors.check_vector(backend, op, data.draw(None, label="case"))


def _check_size(backend: ModuleType, op: Op, data: Any) -> None:
    check_values_at_size(backend, op, data.draw(None, label="case"))


def _check_neighbours_at_size(backend: ModuleType, op: Op, data: Any) -> None:
    check_neighbours_at_size(backend, op, data.draw(None, label="case"))


def _check_gradient_at_size(backend: ModuleType, op: Op, data: Any) -> None:
    check_gradients_as_drawn(backend, op, data.draw(None, label="case"), 0)


def _errors(backend: ModuleType, op: Op) -> Iterator[Drawn]:
    case = example_case(op) if op.errors else None
    yield from ({"case": case, "number": number} for number in range(len(op.errors)))


def _vectors(backend: ModuleType, op: Op) -> Iterator[Drawn]:
    yield from ({"file": name, "case": case} for name, case in test_vectors.cases(op.name))


def _sizes(backend: ModuleType, op: Op) -> Iterator[Drawn]:
    yield from ({"size": size, "case": case} for size, case in cases_at_sizes(backend, op))


CHECKS = (
    Check("single", "values", _body(test_values.test_single_examples)),
    Check("ragged", "ragged batches", _body(test_values.test_ops)),
    Check("sizes", "sizes", _check_size, inputs=_sizes),
    Check("beside NaN", "neighbours", _body(test_values.test_neighbours), {"filling": np.nan}),
    Check("beside 1e30", "neighbours", _body(test_values.test_neighbours), {"filling": 1e30}),
    Check("neighbours at sizes", "neighbours", _check_neighbours_at_size, inputs=_sizes),
    Check("permuted", "permutation", _body(test_values.test_permuted)),
    Check("gradients", "gradients", _body(test_gradients.test_gradients)),
    Check("gradients at sizes", "gradients", _check_gradient_at_size, inputs=_sizes),
    Check("errors", "errors", _check_error, inputs=_errors),
    Check("vectors", "vectors", _check_vector, inputs=_vectors),
)


def gradient_source(backend: ModuleType, op: Op) -> str | None:
    """Return "vjp", "autograd" or None, also for "ref": its gradients are differences of the reference itself."""
    return None if backend.__name__ == "accel.ref" else op.gradient_source(backend)


def check_declarations(backend: ModuleType, op: Op) -> None:
    """Raise ValueError if the backend declares a precision or tiles that the operation cannot have."""
    declared(backend, op)
    tiles_of(backend, op)


def run_operation(
    backend: ModuleType, op: Op, n_examples: int, seconds: float | None = None, begin: Callable[[], object] = object
) -> list[Result]:
    """Return the results of all columns.

    n_examples : number of inputs that each check draws, the same at every run; seconds : if given, the checks share
    this time instead, and draw new inputs until it is over; begin : called before an input is tried. Only the first
    failure of the operation is shrunk.
    """
    source = gradient_source(backend, op)
    checks = [_announced(check, begin) for check in CHECKS if check.column != "gradients" or source]
    share = None if seconds is None else seconds / sum(check.inputs is None for check in checks)
    precision = declared(backend, op)
    notes = {"values": f"held to {precision.name}"} if precision else {}
    if source == "autograd":
        notes["gradients"] = "by autograd"
    elif source is None and op.diff and backend.__name__ != "accel.ref" and has_autograd(backend):
        notes["gradients"] = f"not tested: no {op.name}_vjp, and autograd does not see into {op.name}"
    results: dict[str, Result] = {column: Result(column, 0, 0.0, None, notes.get(column, "")) for column in COLUMNS}
    shrinking = SHRINKING
    for check in checks:
        before = results[check.column]
        start = time.monotonic()
        if check.inputs is not None:
            count, failure = _run_listed(check, backend, op)
        else:
            count, failure = _run_drawn(check, backend, op, n_examples, share, shrinking)
        if failure is not None:
            shrinking = 0.0
        results[check.column] = Result(
            check.column,
            before.n_inputs + count,
            before.seconds + time.monotonic() - start,
            before.failure or failure,
            notes.get(check.column, ""),
        )
    return list(results.values())


def _announced(check: Check, begin: Callable[[], object]) -> Check:
    """Return the check with a call of `begin` before every input."""

    def body(**arguments: Any) -> None:
        begin()
        check.body(**arguments)

    return replace(check, body=body)


def run_again(check: Check, backend: ModuleType, op: Op, drawn: Drawn) -> Exception | None:
    """Return the error of a check on known inputs; None if it agrees."""
    try:
        with _calm():
            check.body(backend=backend, op=op, data=Given(drawn), **check.options)
    except Exception as error:
        return error
    return None


def _run_listed(check: Check, backend: ModuleType, op: Op) -> tuple[int, Failure | None]:
    """Run a check on all inputs that it lists; return how many agree, and the first failure."""
    assert check.inputs is not None
    count, failure = 0, None
    for draws in check.inputs(backend, op):
        error = run_again(check, backend, op, draws)
        count += error is None
        if error is not None and failure is None:
            again = run_again(check, backend, op, draws)
            failure = Failure(check.name, draws, in_words(op, again or error), again or error, again is not None)
    return count, failure


def _run_drawn(
    check: Check, backend: ModuleType, op: Op, n_examples: int, seconds: float | None, shrinking: float
) -> tuple[int, Failure | None]:
    """Run a check on inputs that Hypothesis draws, until one fails; then make it smaller for `shrinking` seconds.

    Returns how many inputs agree, and the failure. Without `seconds` every check draws inputs of its own, always the
    same ones.
    """
    count, smallest, size, stopped = 0, None, 0, False
    until = None if seconds is None else time.monotonic() + seconds

    def once(data: st.DataObject) -> None:
        nonlocal count, smallest, size, until, stopped
        if until is not None and time.monotonic() > until and (count or smallest is not None):
            stopped = True
            raise Enough
        recorder = Recorder(data)
        try:
            check.body(backend=backend, op=op, data=recorder, **check.options)
        except HypothesisException:
            raise
        except Exception as error:
            if smallest is None:
                until = time.monotonic() + shrinking
            length = len(text_of(recorder.drawn))
            if smallest is None or length <= size:
                smallest, size = (recorder.drawn, error), length
            raise
        count += smallest is None

    while smallest is None:
        rule = settings(
            max_examples=n_examples if seconds is None else 1000, derandomize=False, deadline=None, database=None,
            suppress_health_check=CALM, phases=(Phase.generate, Phase.shrink),
            report_multiple_bugs=False,
        )  # fmt: skip
        number = zlib.crc32(f"{op.name}, {check.name}".encode()) if seconds is None else time.time_ns()
        try:
            with _calm():
                seed(number)(rule(given(data=st.data())(once)))()
        except (Exception, Enough):
            if smallest is None and not stopped:  # after a stop, Hypothesis may complain of missing draws
                raise
        if stopped or seconds is None:
            break
    if smallest is None:
        return count, None
    draws, error = smallest
    again = run_again(check, backend, op, draws)
    return count, Failure(check.name, draws, in_words(op, again or error), again or error, again is not None)


@contextmanager
def without_files() -> Iterator[None]:
    """Let Hypothesis keep its files in a temporary folder, not in the user's current one."""
    with tempfile.TemporaryDirectory() as folder:
        set_hypothesis_home_dir(folder)
        try:
            yield
        finally:
            set_hypothesis_home_dir(None)


@contextmanager
def _calm() -> Iterator[None]:
    """Hide the warnings of floating-point arithmetic: the results are compared anyway."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* encountered in ", RuntimeWarning)
        yield
