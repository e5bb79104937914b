"""Numbers below the smallest normal float are zeros while a training runs on the CPU, and not before or after."""

from __future__ import annotations

import platform
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from accel.models.transformer_grammars import model as transformer_grammar
from accel.training.subnormals import as_zeros
from tests.fixtures.toy_run import run

REACHED = (platform.system(), platform.machine()) == ("Linux", "x86_64")
SMALL = np.array([1e-39, 1e-30], np.float32)


def products() -> list[bool]:
    """Return whether a subnormal argument, and whether a subnormal result, is kept and not set to 0."""
    return [bool(SMALL[0] * np.float32(1)), bool((SMALL[1:] * np.float32(1e-10)).any())]


def test_in_this_thread_and_in_those_that_it_starts(recwarn: pytest.WarningsRecorder) -> None:
    outcomes: list[list[bool]] = []
    with pytest.raises(KeyError), as_zeros():
        outcomes.append(products())
        thread = Thread(target=lambda: outcomes.append(products()))
        thread.start()
        thread.join()
        assert np.finfo(np.float32).tiny > 0
        raise KeyError
    assert outcomes == [[not REACHED] * 2] * 2
    assert products() == [True, True] and not recwarn.list


def test_a_training_runs_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes: list[list[bool]] = []
    right = transformer_grammar.loss_and_grad

    def noted(*arguments: object, **options: object) -> tuple:
        outcomes.append(products())
        return right(*arguments, **options)

    monkeypatch.setattr(transformer_grammar, "loss_and_grad", noted)
    run(tmp_path)
    assert outcomes and all(both == [not REACHED] * 2 for both in outcomes) and products() == [True, True]
