"""Gradients are summed in buckets during the backward pass: sums are the same, and no gradient is written too late."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import accel
from accel.autodiff.learned import learned
from accel.autodiff.tape import Tape
from accel.data.batches.trees import Batches
from accel.models.transformer_grammars import model as transformer_grammar
from accel.training import buckets as cut
from accel.training import communicator, step
from accel.training.buckets import Sums, buckets
from accel.training.communicator import Communicator, serial
from accel.training.run import Run, start
from accel.verify.cuda_host import cupy_streams
from tests.fixtures.gpst_batches import batch_of, config_of
from tests.fixtures.ranks import LATE, Group, in_threads, on_host, on_ranks
from tests.fixtures.stand_in_gpu import gpu_without_stream
from tests.fixtures.toy_run import CORPUS, SURE, TRAINING, VOCABULARY
from tests.fixtures.training_steps import STEPS

__all__ = ["gpu_without_stream"]

STEPS_MADE = 3


@pytest.fixture
def small_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accel.training.run.MOST_BYTES", 2 * 1024)


@pytest.mark.parametrize("most", [1, 5, 12, 1000])
def test_buckets_hold_every_parameter_once_from_the_end_to_the_beginning(most: int) -> None:
    starts, sizes = [0, 8, 12, 16, 20], [7, 3, 4, 1, 2]
    places = {name: slice(a, a + n) for name, a, n in zip("abcde", starts, sizes, strict=True)}
    result = buckets(places, most)
    assert [name for bucket in reversed(result) for name in bucket.names] == list("abcde")
    for bucket in result:
        assert bucket.place == slice(places[bucket.names[0]].start, places[bucket.names[-1]].stop)
        assert len(bucket.names) == 1 or bucket.place.stop - bucket.place.start <= most
    for later, bucket in zip(result, result[1:], strict=False):  # no bucket has room for one more
        assert later.place.stop - places[bucket.names[-1]].start > most
    assert len(buckets(places, 1000)) == 1 and not buckets({}, 5)


def losses(ops: ModuleType, recompute: bool, group: Communicator) -> tuple[list[float], np.ndarray, int]:
    """Return the losses of steps with float64 parameters, the parameters after them, and the number of buckets."""
    training = replace(TRAINING, recompute=recompute, schedule="constant")
    initial = {name: x.astype(np.float64) for name, x in transformer_grammar.initialise(SURE, 3).items()}
    run = start(ops, transformer_grammar, SURE, training, group, "", initial)
    options = {"ops": ops, "rank": group.rank, "ranks": group.size, "prefetch": 0, "seed": 5, "epochs": None}
    with Batches(CORPUS, VOCABULARY, SURE, 5, **options) as batches:
        result = [step.make_step(run, next(batches))["loss"] for _ in range(STEPS_MADE)]
    return result, on_host(run.vector).copy(), len(run.buckets)


@pytest.mark.parametrize("recompute", [False, True])
def test_two_ranks_train_as_one(gpu: ModuleType, small_buckets: None, recompute: bool) -> None:
    """Sums that begin early and late are equal bit for bit; one rank gives equal losses up to the order of sums."""
    (early, vector, n_buckets), other = on_ranks(partial(losses, gpu, recompute), 2)
    assert n_buckets > 3 and other[0] == early and np.array_equal(other[1], vector)
    (late, expected, _), _ = on_ranks(partial(losses, gpu, recompute), 2, at_once=False)
    assert early == late and np.array_equal(vector, expected)
    assert early == pytest.approx(losses(gpu, recompute, serial())[0], rel=1e-13)


def one_of(name: str, ops: ModuleType, begun: Callable[[Run, Any], Callable[[], None]]) -> Run:
    """Return a run after one step of a model, as rank 0 of two; the gradients of rank 1 are all 0."""
    model, config, next_batch = STEPS[name](ops)
    runs: list[Run] = []
    group = Communicator(0, 2, lambda array: None, lambda array: None, lambda array: begun(runs[0], array))
    runs.append(start(ops, model, config, replace(TRAINING, clip_norm=None), group, "", model.initialise(config, 3)))
    step.make_step(runs[0], next_batch())
    return runs[0]


@pytest.mark.parametrize("name", STEPS)
def test_no_model_writes_a_gradient_after_its_sum_began(gpu: ModuleType, small_buckets: None, name: str) -> None:
    """When the sum of a gradient begins, the gradient is final, in every model, also for unused parameters."""
    gradients: list[tuple[np.ndarray, np.ndarray]] = []

    def begun(run: Run, array: Any) -> Callable[[], None]:
        place, before = on_host(array), on_host(array).copy()
        assert np.isfinite(before).all()
        place[...] = np.finfo(place.dtype).smallest_subnormal

        def wait() -> None:
            assert (place == np.finfo(place.dtype).smallest_subnormal).all(), LATE
            place[...] = before
            gradients.append((place, before))

        return wait

    run = one_of(name, gpu, begun)
    assert len(gradients) == len(run.buckets) > 1
    alone = one_of(name, gpu, lambda run, array: lambda: None)
    assert np.array_equal(on_host(run.vector), on_host(alone.vector))


def test_sums_begin_before_the_backward_pass_ends(gpu: ModuleType, small_buckets: None) -> None:
    """Most sums of a Transformer Grammar begin early: the layers' from the last to the first, then the embedding's."""
    left: list[int] = []
    right = Tape.backward

    def backward(tape: Tape, *arguments: Any, **options: Any) -> None:
        tapes.append(tape)
        whole.append(len(tape.entries))
        right(tape, *arguments, **options)

    tapes, whole = list[Tape](), list[int]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tape, "backward", backward)
        run = one_of(
            "transformer_grammar", gpu, lambda run, array: left.append(len(tapes[0].entries)) or (lambda: None)
        )
    assert left == sorted(left, reverse=True) and left[0] > 0.9 * whole[0] and left[-1] == 0
    assert sum(n > 0 for n in left) > 0.8 * len(left)
    assert run.buckets[0].names[-1] == "layers.15.feed_forward_norm.bias" and "embedding" in run.buckets[-1].names


def learn(gpu: ModuleType, forgets: bool, size: int = 3) -> dict[str, np.ndarray]:
    """Return the gradients of a b + a, and of an unused parameter; with `forgets`, the product does not record a."""
    xp = gpu.xp
    parameters = {"unused": xp.full(size, 7.0), "b": xp.full(size, 5.0), "a": xp.full(size, 2.0)}
    vector = xp.empty(3 * size)
    gradients = {name: vector[k * size : (k + 1) * size] for k, name in enumerate(parameters)}
    places = {name: slice(k * size, (k + 1) * size) for k, name in enumerate(parameters)}
    group = Group(1)
    alone = Communicator(0, 2, lambda array: None, lambda array: None, partial(group.begun, 0))
    sums = Sums(alone, vector, buckets(places, 1))
    with learned(gpu, parameters, gradients, on_final=sums.on_final) as learning:
        a, b = learning.variables["a"], learning.variables["b"]
        tape = Tape(gpu, on_final=learning.on_final)

        def backward(d_out: Any) -> None:
            b.accumulate(d_out * a.value)
            a.accumulate(d_out * b.value)

        product = tape.record(a.value * b.value, [b] if forgets else [a, b], backward)
        tape.backward(tape.add(product, a), xp.full(size, 1.0))
    sums.wait()
    return {name: on_host(x) for name, x in gradients.items()}


@pytest.mark.parametrize("size", [3, 2**14 + 1])
def test_a_gradient_that_is_written_too_late_is_refused(gpu: ModuleType, size: int) -> None:
    """The tape refuses it; without the check of the tape, the communicator of the tests refuses it."""
    assert {name: x[0] for name, x in learn(gpu, False, size).items()} == {"unused": 0.0, "b": 2.0, "a": 6.0}
    with pytest.raises(RuntimeError, match="changed after it was final: name its variable in record"):
        learn(gpu, True, size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("accel.autodiff.variables.Variable.require_open", lambda self: None)
        if size > 3:  # a small gradient is copied, and its change lost
            with pytest.raises(RuntimeError, match=LATE):
                learn(gpu, True, size)


def test_a_parameter_that_never_gets_final_is_named(gpu: ModuleType) -> None:
    sums = Sums(serial(), gpu.xp.zeros(3), [cut.Bucket(("a",), slice(0, 1)), cut.Bucket(("b",), slice(1, 3))])
    sums.on_final("b", lambda names: None)
    with pytest.raises(RuntimeError, match="^a: its gradient was never final, so nothing was summed$"):
        sums.wait()


def test_recomputed_layers_end_with_their_gradients(gpu: ModuleType) -> None:
    """Each gradient of a GPST, whose tape runs backwards twice, becomes final once, also if layers are recomputed."""
    config, finals = config_of(type_layers=1, token_layers=1, compose_layers=1, parser_layers=1, dropout=0.1), []
    gpst = STEPS["gpst"](gpu)[0]
    parameters = {name: gpu.xp.asarray(x) for name, x in gpst.initialise(config, 3).items()}
    for recompute in (False, True):
        names: list[str] = []
        gpst.loss_and_grad(
            gpu, config, parameters, batch_of([5, 4], (1,), gpu), None, 7, recompute=recompute,
            on_final=lambda name, settle, names=names: names.append(name),
        )  # fmt: skip
        assert sorted(names) == sorted(parameters)
        finals.append(names)
    assert finals[0][:3] == finals[1][:3]


def test_nccl_sums_on_a_stream_of_its_own(gpu: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum is there after the wait and not before; it never uses the stream of the kernels."""
    group = Group(2)

    class Peer:
        def __init__(self, rank: int) -> None:
            self.rank = rank

        def all_reduce(self, array: Any, out: Any, op: str, stream: Any) -> None:
            assert array is out and op == "sum" and stream is not cupy_streams.get_current_stream()
            stream.ask(group.begun(self.rank, array))

        def broadcast(self, array: Any, root: int, stream: Any) -> None:
            stream.ask(lambda: on_host(array).fill(root))

    places = with_nccl(gpu, monkeypatch, Peer)
    monkeypatch.setattr(communicator, "_check_free", lambda host, port: None)  # another program may listen there

    def work(rank: int) -> None:
        ranks = communicator.nccl(rank, 2)
        array = gpu.xp.full(4, rank + 1.0)
        wait = communicator.begin_sum(ranks, array)
        assert on_host(array)[0] < 1e-300
        wait()
        assert (on_host(array) == 3).all()
        ranks.all_reduce_sum(array)
        assert (on_host(array) == 6).all()
        ranks.broadcast(array)
        assert not on_host(array).any()

    in_threads(work, range(2))
    assert accel.load("cuda") is gpu and places == [("127.0.0.1", 13333)] * 2


def with_nccl(gpu: ModuleType, monkeypatch: pytest.MonkeyPatch, peer: Callable[[int], Any]) -> list[tuple[str, int]]:
    """Let `peer` take the place of a group of CuPy; return a list for the host and the port where groups meet."""
    places: list[tuple[str, int]] = []
    for name in ("CUPYX_DISTRIBUTED_HOST", "CUPYX_DISTRIBUTED_PORT"):
        monkeypatch.delenv(name, raising=False)

    def init_process_group(size: int, rank: int, backend: str, host: str, port: int) -> Any:
        assert backend == "nccl"
        places.append((host, port))
        return peer(rank)

    peers = SimpleNamespace(init_process_group=init_process_group)
    monkeypatch.setitem(sys.modules, "cupyx", SimpleNamespace(distributed=peers))
    monkeypatch.setitem(sys.modules, "cupyx.distributed", peers)
    monkeypatch.setattr(gpu.xp.cuda, "nccl", SimpleNamespace(available=True), raising=False)
    return places


def test_nccl_meets_where_the_environment_says(gpu: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 0 refuses a port at which another training may listen: the ranks of both would meet there."""
    places = with_nccl(gpu, monkeypatch, lambda rank: None)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        monkeypatch.setenv("CUPYX_DISTRIBUTED_HOST", "127.0.0.1")
        monkeypatch.setenv("CUPYX_DISTRIBUTED_PORT", str(port))
        communicator.nccl(1, 2)
        advice = (
            "set CUPYX_DISTRIBUTED_PORT to a free port, and CUPYX_DISTRIBUTED_HOST to the name of rank 0's machine$"
        )
        message = f"^--communicator nccl: rank 0 cannot listen at 127.0.0.1:{port} \\(Address already in use\\): "
        with pytest.raises(ValueError, match=message + advice):
            communicator.nccl(0, 2)
    communicator.nccl(0, 2)
    assert places == [("127.0.0.1", port)] * 2
    for wrong in ("a", "99999"):
        monkeypatch.setenv("CUPYX_DISTRIBUTED_PORT", wrong)
        with pytest.raises(ValueError, match=f"cannot listen at 127.0.0.1:{wrong} "):
            communicator.nccl(0, 2)
