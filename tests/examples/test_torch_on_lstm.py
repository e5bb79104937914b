"""The example of the bridge to PyTorch has the same losses as Grove's own training loop."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: make test-frameworks")

from examples import torch_on_lstm  # noqa: E402


def test_both_trainings_have_the_same_losses() -> None:
    """The text is read more than once, with a state that is carried from batch to batch."""
    losses = torch_on_lstm.main(["--steps", "20", "--sentences", "200", "--size", "16"])
    assert losses["PyTorch"] == pytest.approx(losses["Grove"], rel=0, abs=1e-5)
    assert losses["Grove"][-1] < losses["Grove"][0] - 0.3
