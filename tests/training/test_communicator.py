"""Several processes: sums, broadcasts, and a training that does not depend on their number."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import accel
from accel import cli
from accel.data.batches.trees import Batches
from accel.models.transformer_grammars import model as transformer_grammar
from accel.training import loop as train
from accel.training.checkpoint import load, read_state
from accel.training.communicator import Communicator, all_gather, serial
from accel.training.loop import evaluate
from accel.training.run import on_any_rank
from tests.fixtures.command_line import settings
from tests.fixtures.ranks import on_ranks
from tests.fixtures.text_files import LANGUAGE_MODEL, write_text
from tests.fixtures.toy_run import CONFIG, CORPUS, SURE, VOCABULARY, metrics, run

MPIRUN = shutil.which("mpirun", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
needs_mpi = pytest.mark.skipif(
    MPIRUN is None or find_spec("mpi4py") is None, reason="mpirun or mpi4py is not installed: pip install mpi4py mpich"
)

PROGRAM = """
import numpy as np
from accel.training.communicator import all_gather, mpi
group = mpi()
assert group.size == 2
for dtype in (np.float32, np.float64, np.int64):
    array = np.arange(6, dtype=dtype).reshape(2, 3) * (group.rank + 1)
    group.all_reduce_sum(array)
    assert (array == 3 * np.arange(6).reshape(2, 3)).all()
    array[:] = group.rank
    group.broadcast(array)
    assert (array == 0).all()
parts = all_gather(group, np, np.full((3 * group.rank, 2), 7.0))
assert [part.shape for part in parts] == [(0, 2), (3, 2)] and (parts[1] == 7).all()
try:
    group.all_reduce_sum(np.zeros((4, 4)).T[:2])
except ValueError as error:
    assert str(error) == "array: must be contiguous"
else:
    raise SystemExit("half an array was summed")
"""


def two_ranks(*program: str) -> subprocess.CompletedProcess[str]:
    command = [MPIRUN, "-n", "2", sys.executable, *program]
    root, as_root = Path(__file__).parents[2], ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")  # Open MPI
    settings_of_mpi = os.environ | dict.fromkeys(as_root, "1")
    return subprocess.run(command, cwd=root, env=settings_of_mpi, capture_output=True, text=True, timeout=600)


def test_alone_nothing_changes() -> None:
    group, array = serial(), np.arange(3.0)
    group.all_reduce_sum(array)
    group.broadcast(array)
    assert (group.rank, group.size) == (0, 1) and (array == [0, 1, 2]).all()
    assert all_gather(group, np, array)[0] is array


def test_arrays_are_gathered_in_the_order_of_the_ranks() -> None:
    """The arrays may have any numbers of rows; a rank may have no row."""
    arrays = [np.full((rows, 2), rank, np.int32) for rank, rows in enumerate((2, 0, 3))]
    for gathered in on_ranks(lambda group: all_gather(group, np, arrays[group.rank]), 3):
        for array, expected in zip(gathered, arrays, strict=True):
            np.testing.assert_array_equal(array, expected)


def test_a_condition_holds_on_one_rank_at_least() -> None:
    for answer in on_ranks(lambda group: on_any_rank(group, np, group.rank == 1, False, True), 2):
        assert answer == (True, False, True)


def test_two_ranks_validate_as_one() -> None:
    """Each rank evaluates its share of the batches, one after the other; the second rank adds the first one's sums."""
    ops, parameters = accel.load("cpu"), transformer_grammar.initialise(SURE, 3)
    sums = [np.zeros(3)]

    def share(rank: int, ranks: int, all_reduce_sum: Callable[[np.ndarray], None]) -> dict[str, float]:
        options = {"ops": ops, "rank": rank, "ranks": ranks, "prefetch": 0}
        group = Communicator(rank, ranks, all_reduce_sum, lambda array: None)
        with Batches(CORPUS, VOCABULARY, SURE, 6, **options) as batches:
            return evaluate(ops, transformer_grammar, SURE, parameters, batches, group)

    def add(array: np.ndarray) -> None:
        array += sums[-1]
        sums.append(array.copy())

    shares = [share(rank, 2, add)["loss"] for rank in (0, 1)]
    whole = share(0, 1, lambda array: None)["loss"]
    assert shares[0] != pytest.approx(whole, rel=1e-6) and shares[1] == pytest.approx(whole, rel=1e-5)


@needs_mpi
def test_two_ranks_sum_broadcast_and_gather() -> None:
    process = two_ranks("-c", PROGRAM)
    assert process.returncode == 0, process.stderr


@needs_mpi
def test_two_ranks_train_as_one_process(tmp_path: Path) -> None:
    """A batch has five rows, three on one rank and two on the other; the losses are those of one process.

    Parameters are not compared: Adam magnifies the rounding errors of gradients that are exactly 0 in theory.
    """
    process = two_ranks("-m", "tests.fixtures.toy_run", str(tmp_path / "two"), "--mpi", "--no-dropout")
    assert process.returncode == 0, process.stderr
    run(tmp_path / "one", config=SURE)
    two, one = metrics(tmp_path / "two"), metrics(tmp_path / "one")
    assert len(two) == len(one)
    for step, expected in zip(two, one, strict=True):
        assert step.keys() == expected.keys()
        for name in step:
            assert step[name] == pytest.approx(expected[name], rel=1e-5), name
    shapes = transformer_grammar.parameter_shapes(CONFIG)
    result, expected = (load(tmp_path / which / train.NEWEST, shapes) for which in ("two", "one"))
    assert [len(rows) for rows in result.memory] == [len(rows) for rows in expected.memory]


@needs_mpi
def test_two_ranks_train_a_language_model_as_one(tmp_path: Path) -> None:
    """Two processes share the columns of text, with penalties and averages; the saved state is that of all columns."""
    text = write_text(tmp_path / "text", 60, 0)
    still = [f"{name}=0.0" for name in ("embedding_dropout", "input_dropout", "layer_dropout", "output_dropout")]
    small = settings(
        (*LANGUAGE_MODEL, *still, "weight_drop=0.0", "validate_every=2", "nonmonotone=0", "maximum_rate=3.0")
    )
    files = ("--data", text, "--validation", text, "--batch-size=3", "--length=8")
    runs = []
    for name in ("one", "two"):
        command = ["train", "--task", "language_model", "--out", tmp_path / name, *files, "--steps=14", *small]
        if name == "one":
            assert cli.main([str(part) for part in command]) == 0
        else:
            process = two_ranks("-m", "accel.cli", *map(str, command))
            assert process.returncode == 0, process.stderr
        runs.append(metrics(tmp_path / name))
    for of_two, expected in zip(*runs, strict=True):
        assert of_two == pytest.approx(expected, rel=1e-4)
    one, two = (read_state(tmp_path / name / train.NEWEST) for name in ("one", "two"))
    assert one["averaged"] == two["averaged"] > 2
    assert one["memory_rows"] == [3] and two["memory_rows"] == [2, 1]


@needs_mpi
def test_two_ranks_are_killed_and_resume(tmp_path: Path) -> None:
    """Both ranks are killed in the middle of a step; each rank restores its rows of the memory."""
    arguments = ("-m", "tests.fixtures.toy_run", str(tmp_path / "killed"), "--mpi")
    killed = two_ranks(*arguments, "--kill-in", "loss_and_grad", "--kill-at", "7")
    assert killed.returncode != 0, killed.stderr
    assert len(metrics(tmp_path / "killed")) == 6
    for directory, more in (("killed", ["--resume"]), ("whole", [])):
        process = two_ranks("-m", "tests.fixtures.toy_run", str(tmp_path / directory), "--mpi", *more)
        assert process.returncode == 0, process.stderr
    assert metrics(tmp_path / "killed") == metrics(tmp_path / "whole")
    with pytest.raises(train.TrainingError, match="keeps its settings: processes: 2, now 1; leave "):
        run(tmp_path / "killed", resume=True)
