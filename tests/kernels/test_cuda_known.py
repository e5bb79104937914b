"""What was sent to a GPU is known on the host: no operation waits for it, and what is wrong in it is still named."""

from __future__ import annotations

import gc
from types import ModuleType

import numpy as np
import pytest

from accel.cuda.support import check, known
from accel.cuda.support.scatter import group, groups_of
from accel.verify.cuda_host import cupy_array
from tests.fixtures.stand_in_gpu import gpu_without_stream

__all__ = ["gpu_without_stream"]


def test_arrays_of_every_type_arrive_as_they_were(gpu: ModuleType) -> None:
    arrays = {
        "flags": np.array([True, False, True]),
        "none": np.zeros(0, np.int32),
        "offsets": np.array([0, 2, 3]),
        "table": np.arange(6, dtype=np.int32).reshape(2, 3),
    }
    with cupy_array.counted() as counts:
        there = gpu.from_host(arrays, attention=[("offsets", "offsets")], recurrence=["offsets"], groups=["none"])
    assert cupy_array.totals(counts) == {"kernels": 0, "copies": 1, "synchronisations": 0}
    for name, array in arrays.items():
        assert there[name].dtype == array.dtype and np.array_equal(there[name].get(), array)
        assert np.array_equal(known.host(there[name]), array) and not known.host(there[name]).flags.writeable


def test_facts_are_computed_once_and_die_with_the_array(gpu: ModuleType) -> None:
    gc.collect()
    before = len(known._entries)
    ids = gpu.from_host({"ids": np.array([3, 1, 3, 0], np.int32)})["ids"]
    groups = group(ids, 5)
    assert group(ids, 7) is groups and groups.n_used == 4
    assert groups.starts.get().tolist() == [0, 1, 2, 2, 4] and groups.order.get().tolist() == [3, 1, 0, 2]
    del ids
    gc.collect()
    assert len(known._entries) == before


def test_of_a_fact_nothing_else_is_noted(gpu: ModuleType) -> None:
    """A note holds for arrays with the same fact, and for no others; a check raises its own error."""
    batches = [gpu.from_host({"offsets": np.array(x)}) for x in ([0, 2, 5], [0, 3, 4], [0, 1, 9], [0, -1, 2])]

    def longest(offsets: np.ndarray) -> int:
        if (np.diff(offsets) < 0).any():
            raise ValueError("offsets: fall")
        return int(np.diff(offsets).max())

    with known.noted() as notes, cupy_array.counted() as counts:
        assert known.fact(longest, batches[0]["offsets"]) == 3
    assert cupy_array.totals(counts)["synchronisations"] == 0
    assert [notes[0].holds(batch) for batch in batches[:3]] == [True, True, False]
    with pytest.raises(ValueError, match="^offsets: fall$"):
        notes[0].holds(batches[3])
    with known.noted() as none:
        assert known.fact(longest, gpu.xp.asarray(np.array([0, 4]))) == 4
    assert not none


@pytest.mark.parametrize("greatest", [5, 2**16 + 3])
def test_groups_on_the_host_are_those_of_the_device(gpu: ModuleType, greatest: int) -> None:
    index = np.random.default_rng(0).integers(0, greatest + 1, 300).astype(np.int32)
    index[7] = greatest
    here, there = groups_of(index), group(gpu.xp.asarray(index), greatest + 1)
    for name in ("order", "starts", "chunk_starts"):
        assert np.array_equal(getattr(here, name), getattr(there, name).get()), name
    assert here.n_chunks <= there.n_chunks


def test_what_is_wrong_is_named_without_waiting(gpu: ModuleType) -> None:
    arrays = gpu.from_host(
        {"ids": np.array([0, 4, -1], np.int32), "falling": np.array([0, 2, 1]), "none": np.zeros(0, np.int32)}
    )
    with cupy_array.counted() as counts:
        for low, high in ((0, 5), (-1, 4)):
            with pytest.raises(ValueError, match=rf"^ids: outside {low}..{high - 1}$"):
                check.indices({"ids": (arrays["ids"], low, high)})
        check.indices({"ids": (arrays["ids"], -1, 5), "none": (arrays["none"], 0, 0)})
        with pytest.raises(ValueError, match="^falling: does not rise from 0 to 1$"):
            check.indices({}, {"falling": (arrays["falling"], 1)})
    assert not any(cupy_array.totals(counts).values())


def test_deferred_checks_are_raised_when_they_are_read(gpu: ModuleType) -> None:
    xp = gpu.xp
    with check.deferred() as checks, cupy_array.counted() as counts:
        check.finite(x=xp.zeros((2, 2)))
        check.indices({"ids": (xp.asarray(np.array([0, 7], np.int32)), 0, 7)})
        check.finite(y=xp.asarray(np.array([[0.0], [np.nan]])))
    assert cupy_array.totals(counts)["synchronisations"] == 0
    with pytest.raises(ValueError, match=r"^ids: outside 0..6$"):
        checks.raise_first(checks.firsts.tolist())
    with pytest.raises(ValueError, match="^y: NaN or infinity in row 1$"):
        check.finite(y=xp.asarray(np.array([[0.0], [np.nan]])))


def test_more_checks_than_there_is_room_for_wait(gpu: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "DEFERRED", 2)
    bad = gpu.xp.asarray(np.array([[np.inf]]))
    with check.deferred(), pytest.raises(ValueError, match="^b: NaN or infinity in row 0$"):
        for name in "abc":
            check.finite(**{name: bad if name == "b" else gpu.xp.zeros((1, 1))})
