"""A training step that a CUDA graph replays is the step without a graph, whatever changes from step to step."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock
from weakref import WeakSet

import numpy as np
import pytest

from accel.cuda import charts, forms
from accel.cuda.support import known
from accel.data.batches.text import TextBatch, TextBatches
from accel.models.fasttrees import language_model
from accel.training import loop, step
from accel.training.checkpoint import read_state
from accel.training.communicator import Communicator, serial
from accel.training.gradient import differentiate
from accel.training.graphs import new_graphs
from accel.training.run import Run, TrainingError, start
from accel.training.settings import TrainingConfig
from accel.training.step import make_step
from accel.verify.cuda_host import cupy_array
from tests.fixtures import toy_run
from tests.fixtures.stand_in_gpu import gpu
from tests.fixtures.toy_text import VOCABULARY
from tests.fixtures.training_steps import STEPS

TRAINING = TrainingConfig(steps=20, warmup_steps=4, maximum_rate=5e-3, clip_norm=0.5, seed=2**40 + 3)
BUDGETS = tomllib.loads((Path(__file__).parents[1] / "kernels" / "budgets.toml").read_text(encoding="utf-8"))
USES = {"recurrence": ["offsets"], "groups": ["ids"], "labels": ["labels"]}
GRAPHS = forms.Forms("fast", graphs=True)


__all__ = ["gpu"]


def text(ops: ModuleType, seed: int = 0) -> TextBatches:
    """Return batches of four columns of six words, and a shorter batch at the end of the text."""
    ids = np.random.default_rng(seed).integers(0, VOCABULARY, 4 * 6 * 5 + 4 * 3 + 1).astype(np.int32)
    return TextBatches(ids, 4, length=6, ops=ops, seed=None, epochs=None)


def run_of(ops: ModuleType, model: ModuleType, config: Any, training: TrainingConfig) -> Run:
    return start(ops, model, config, training, serial(), "", model.initialise(config, 3))


def steps(
    gpu: ModuleType, form: forms.Forms, kind: str, training: TrainingConfig, count: int
) -> tuple[list[dict[str, Any]], np.ndarray, Run]:
    config = language_model.Config(VOCABULARY, kind, embedding_size=6, hidden_size=12, n_layers=2, chunk_size=2)
    with forms.use(form):
        run, lines, batches = run_of(gpu, language_model, config, training), [], text(gpu)
        run.graphs = new_graphs(run) if form.graphs else None
        for _ in range(count):
            line = make_step(run, next(batches))
            lines.append({name: line[name] for name in ("loss", "gradient_norm", "learning_rate")})
    return lines, run.vector.get(), run


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        ("fasttrees", {}),
        ("on_lstm", {"optimizer": "sgd", "weight_decay": 1e-3}),
        ("faster_fasttrees", {"own_rate": 1e-3, "own_rate_of": "cells.1", "clip_norm": None, "weight_decay": 1e-2}),
        ("on_lstm", {"own_rate": 1e-3, "own_rate_of": "cells.1", "weight_decay": 1e-2, "decay": "decoupled"}),
    ],
)
def test_a_replayed_step_is_the_step(gpu: ModuleType, kind: str, changed: dict[str, Any]) -> None:
    """Steps are equal bit for bit over two epochs, with dropout, rates, carried and new states, and two shapes."""
    training = replace(TRAINING, **changed)
    plain, vector, _ = steps(gpu, forms.Forms("fast"), kind, training, 12)
    replayed, other, run = steps(gpu, GRAPHS, kind, training, 12)
    assert replayed == plain and np.array_equal(vector, other)
    assert 1 <= len(run.graphs.graphs) <= 3 and run.step == 12


@pytest.mark.parametrize("room", [0, 1])
def test_without_memory_for_graphs_steps_are_the_same(
    gpu: ModuleType, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """Batches of two shapes come in turn; the device has memory for `room` graphs."""
    capture, there = gpu.captured, WeakSet()

    def captured(work: Callable[[], Any]) -> Any:
        if len(there) >= room:
            raise MemoryError
        result, replay = capture(work)
        there.add(replay)
        return result, replay

    plain, vector, _ = steps(gpu, forms.Forms("fast"), "fasttrees", TRAINING, 12)
    monkeypatch.setattr(gpu, "captured", captured)
    replayed, other, run = steps(gpu, GRAPHS, "fasttrees", TRAINING, 12)
    assert replayed == plain and np.array_equal(vector, other)
    assert run.graphs.most == len(run.graphs.graphs) == len(there) == room


def test_a_step_that_lacks_memory_takes_that_of_graphs(gpu: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, vector, _ = steps(gpu, forms.Forms("fast"), "fasttrees", TRAINING, 12)

    def without_memory(run: Run, parts: list[Any]) -> Any:
        if run.graphs.graphs:
            raise MemoryError
        return differentiate(run, parts)

    monkeypatch.setattr(step, "differentiate", without_memory)
    replayed, other, run = steps(gpu, GRAPHS, "fasttrees", TRAINING, 12)
    assert replayed == plain and np.array_equal(vector, other) and run.graphs.most <= 1
    monkeypatch.setattr(step, "differentiate", Mock(side_effect=MemoryError))
    run.graphs = None
    with forms.use(GRAPHS), pytest.raises(MemoryError):
        make_step(run, next(text(gpu)))


def test_every_model_steps_by_one_launch(gpu: ModuleType) -> None:
    """A step is one launch after a step of the same shape without a graph; the first batch has no memory.

    All losses are those of steps without graphs, except for the Transformer Grammar: its batches here lack the places
    of the memory. `test_padded_trees.py` compares its losses.
    """
    for name, step_of in STEPS.items():
        model, config, next_batch = step_of(gpu)
        lines = []
        for form in (forms.Forms("fast"), GRAPHS):
            with forms.use(form):
                run = run_of(gpu, model, config, TRAINING)
                run.graphs = new_graphs(run) if form.graphs else None
                for number in range(4):
                    with cupy_array.counted() as counts:
                        line = make_step(run, next_batch())
                    assert counts["graphs", "launch"] == (form.graphs and number > 1) or number == 1
                    lines.append((line["loss"], line["gradient_norm"]))
        assert lines[:4] == lines[4:] or name == "transformer_grammar", name
        for kind, budget in BUDGETS["graph"].items():
            assert cupy_array.totals(counts)[kind] == budget, f"{name}: {counts}"
        assert len(run.graphs.graphs) == 1


def test_a_step_that_waits_has_no_graph(gpu: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the layers of a GPST do not fit into shared memory, the host makes its charts, and no graph is possible."""
    monkeypatch.setattr(charts, "fits", lambda *widths: False)
    model, config, next_batch = STEPS["gpst"](gpu)
    with forms.use(GRAPHS):
        run = run_of(gpu, model, config, TRAINING)
        run.graphs = new_graphs(run)
        make_step(run, next_batch())
        with pytest.raises(TrainingError, match=r"^graphs: .* cannot be captured \(.*leave out --graphs$"):
            make_step(run, next_batch())


def test_a_training_by_graphs_is_the_training(gpu: ModuleType, tmp_path: Path) -> None:
    """The training with graphs runs on its own stream, has validations between the steps, and is resumed."""
    config = language_model.Config(VOCABULARY, "fasttrees", embedding_size=6, hidden_size=12, chunk_size=2)
    training = replace(TRAINING, optimizer="nt_asgd", nonmonotone=0, validate_every=2, maximum_rate=3.0)
    training = replace(training, schedule="constant")
    for form, name in ((forms.Forms("fast"), "False"), (GRAPHS, "True")):
        for n_steps in (6, 9) if form.graphs else (9,):
            with forms.use(form):
                loop.train(
                    gpu, language_model, config, replace(training, steps=n_steps), text(gpu), tmp_path / name,
                    validation=lambda: [next(text(gpu, 1))], progress=False, resume=n_steps == 9,
                )  # fmt: skip
    one, other = (toy_run.metrics(tmp_path / name) for name in ("True", "False"))
    assert one == other and len(one) == 9
    assert read_state(tmp_path / "True" / loop.NEWEST)["averaged"] > 2


RAGGED = ((6, 4), (6, 4), (6, 4), (5, 5), (4, 6), (6, 4), (4, 6), (5, 5), (5, 5))


def ragged(gpu: ModuleType, move: bool) -> tuple[list[float], Run]:
    """Return the losses of batches of two columns (RAGGED); with `move`, an array of the run moves after the sixth."""
    config = language_model.Config(VOCABULARY, "fasttrees", embedding_size=6, hidden_size=12, chunk_size=2)
    run, losses, rng = run_of(gpu, language_model, config, TRAINING), [], np.random.default_rng(0)
    run.graphs = new_graphs(run) if gpu.wants_graphs() else None
    for number, lengths in enumerate(RAGGED):
        ids, labels = rng.integers(0, VOCABULARY, (2, 10)).astype(np.int32)
        ids[0] = VOCABULARY - 1  # the groups of all batches have the same sizes
        arrays = {"ids": ids, "labels": labels, "offsets": np.cumsum([0, *lengths])}
        losses.append(
            make_step(run, TextBatch(**gpu.from_host(arrays, **USES), n_labels=10, rate_scale=1.0, fresh=False))["loss"]
        )
        if move and number == 5:
            before = run.optimizer.vectors["first"]
            run.optimizer.vectors["first"] = before.copy()
            before.fill(np.nan)
    return losses, run


@pytest.mark.parametrize(
    ("where", "broken"),
    [
        ("accel.cuda.support.check.seeds.place_of", lambda seed: None),
        ("accel.training.graphs.optimizer.of_step", lambda *state: [1e-3, 1.0, 1.0, 0]),
        ("accel.cuda.support.graphs.Inputs.send", lambda *numbers: None),
        ("accel.cuda.support.known.Note.holds", lambda note, arrays: True),
        ("accel.training.graphs._shapes", lambda run, names, block, memory: memory is None),
    ],
    ids=["seeds", "numbers", "inputs", "notes", "places"],
)
def test_a_missing_dependency_shows(
    gpu: ModuleType, monkeypatch: pytest.MonkeyPatch, where: str, broken: Callable[..., Any]
) -> None:
    """Columns of other lengths, in arrays of the same sizes, need another graph, and so does an array that moved.

    If a graph ignores one of the values that change between steps, losses change or an error is raised.
    """
    moves = where.endswith("_shapes")
    recurrence = import_module("accel.cuda.recurrence")
    monkeypatch.setattr(recurrence, "WALK_BYTES", 0)  # the host launches a kernel for every step
    monkeypatch.setattr(recurrence, "_plan", lambda *arguments: None)
    with forms.use(forms.Forms("fast")):
        plain, _ = ragged(gpu, moves)
    with forms.use(GRAPHS):
        right, run = ragged(gpu, moves)
        assert right == plain and len(run.graphs.graphs) == 3 + moves
        monkeypatch.setattr(where, broken)
        try:
            wrong, _ = ragged(gpu, moves)
        except (ValueError, RuntimeError):
            return
    assert wrong != plain


def test_what_is_wrong_in_a_batch_is_named(gpu: ModuleType) -> None:
    """A bad batch is refused although there is a graph for its shape."""
    _, _, run = steps(gpu, GRAPHS, "fasttrees", TRAINING, 4)
    batch = next(text(gpu))
    ids = known.host(batch.ids).copy()
    ids[3] = VOCABULARY
    arrays = {"ids": ids, "labels": known.host(batch.labels), "offsets": known.host(batch.offsets)}
    wrong = replace(batch, **gpu.from_host(arrays, **USES))
    with forms.use(GRAPHS), pytest.raises(ValueError, match=f"^ids: outside 0..{VOCABULARY - 1}$"):
        make_step(run, wrong)


def test_groups_of_graphs_are_those_of_all_sizes(gpu: ModuleType) -> None:
    """Sums of rows that share an index are the same, bit for bit, if the sizes of the groups are rounded up."""
    rng = np.random.default_rng(0)
    for largest in (0, 5, 8):
        ids = np.concatenate([rng.integers(0, largest + 1, 200), [largest]]).astype(np.int32)
        d_y, table = gpu.xp.asarray(rng.standard_normal((201, 3))), gpu.xp.zeros((9, 3))
        sums, sizes = [], []
        for form in (forms.Forms("fast"), GRAPHS):
            with forms.use(form):
                there = gpu.from_host({"ids": ids}, groups=["ids"])["ids"]
                sums.append(gpu.embedding_vjp(d_y, (), table, there)[0].get())
                sizes.append(known.place_of(there)[1].layout)
        assert np.array_equal(*sums) and sizes[0] != sizes[1]


def test_graphs_need_one_process_whole_batches_and_fast_kernels(gpu: ModuleType) -> None:
    with pytest.raises(ValueError, match="^graphs: CuPy multiplies no matrices while .* add --kernels fast$"):
        forms.Forms(graphs=True)
    config = language_model.Config(VOCABULARY, "fasttrees", embedding_size=6, hidden_size=12, chunk_size=2)
    run = run_of(gpu, language_model, config, TRAINING)
    run.communicator = Communicator(0, 2, lambda array: None, lambda array: None)
    with pytest.raises(TrainingError, match="^graphs: need one process, and no --micro-batch: leave"):
        new_graphs(run)
