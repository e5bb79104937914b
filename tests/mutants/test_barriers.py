"""If a barrier of a CUDA kernel is deleted, the race detector finds a race."""

from __future__ import annotations

import pytest

from accel.verify.cuda_host import launcher
from tests.fixtures.stand_in_gpu import host_backend
from tests.mutants import barriers

__all__ = ["host_backend"]


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_deleted_barrier_is_a_race(host_backend: object, nth: int) -> None:
    launches = barriers.recorded(("cross_entropy",))["layers"]
    (barrier,) = (x for x in barriers.barriers("layers") if (x.function, x.nth) == ("label_logp", nth))
    outcome = barriers.outcome(barrier, launches)
    assert outcome.reached and "label_logp: race at byte" in outcome.race
    words = barriers.in_words(outcome)
    assert words.startswith("`label_logp`, static shared memory: layers.cu ") and "writes" in words
    assert launcher.use(launcher.Settings()) == launcher.Settings()


def test_a_barrier_that_nothing_reaches_is_reported(host_backend: object) -> None:
    barrier = next(barriers.barriers("layers"))
    rows = barriers.rows([barriers.outcome(barrier, [])])
    assert rows == ["| layers | layers.cu layer_norm_backward 1 | **not reached** |"]
    assert "1 barriers: 0 caught, 1 not." in barriers.page(rows, {})
