"""What the modules and functions for PyTorch refuse, each in one line that names the argument."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-frameworks")

import accel.torch as grove  # noqa: E402

TYPES = torch.tensor([[0, 0, 1, 2, 3]] * 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda x: grove.OnLstm(4, 6, 2)(x, torch.tensor([9, 1, 1])),
            r"lengths: \[9, 1, 1\], expected 3, each at least 0 and at most 5",
        ),
        (lambda x: grove.OnLstm(4, 6, 2)(x, torch.tensor([0, 1, 1])), "sequence 0: empty"),
        (lambda x: grove.OnLstm(4, 6, 2)(x, torch.tensor([-1, 3, 1])), r"lengths: \[-1, 3, 1\], expected 3, each at"),
        (lambda x: grove.OnLstm(4, 6, 2)(x, torch.ones(3)), "lengths: torch.float32, expected whole numbers"),
        (
            lambda x: grove.OnLstm(4, 6, 2)(x[0], offsets=torch.ones(3)),
            "offsets: torch.float32, expected whole numbers",
        ),
        (
            lambda x: grove.OnLstm(4, 6, 2)(x[0], offsets=torch.tensor([], dtype=torch.int64)),
            r"offsets: end with \[\], expected \[5\]",
        ),
        (
            lambda x: grove.PrunedInsideOutside(4, compose_heads=2)(x[0], x[0, :, 0], offsets=torch.tensor([0, 5, 7])),
            r"offsets: end with \[7\], expected \[5\]",
        ),
        (lambda x: grove.OnLstm(4, 6, 2)(x[0]), r"x: shape \(5, 4\): give \[B, T, 4\] with lengths"),
        (lambda x: grove.OnLstm(3, 6, 2)(x), r"x: shape \(3, 5, 4\): give \[B, T, 3\] with lengths, or \[N, 3\]"),
        (lambda x: grove.CkyPooling(3)(x), r"x: shape \(3, 5, 4\): give \[B, T, 3\]"),
        (lambda x: grove.StackComposeAttention(6, 2)(x, x), r"x: shape \(3, 5, 4\): give \[B, T, 6\]"),
        (lambda x: grove.PrunedInsideOutside(8, compose_heads=2)(x, x), r"x: shape \(3, 5, 4\): give \[B, T, 8\]"),
        (lambda x: grove.OnLstm(4, 9, 2), "chunk_size: 2, but it does not divide 9"),
        (lambda x: grove.OnLstm(4, 6, 2, kind="conv_fasttrees"), "kind: conv_fasttrees is not for PyTorch"),
        (lambda x: grove.FastTrees(4, 6, 2, kind="lstm"), "kind: lstm is not for FastTrees: use fasttrees"),
        (
            lambda x: grove.StackComposeAttention(4, 2)(x, torch.zeros(3, 4)),
            r"types: shape \(3, 4\), expected \(3, 5\)",
        ),
        (lambda x: grove.StackComposeAttention(4, 2)(x, torch.full((3, 5), 3)), "types: sequence 0, position 0"),
        (lambda x: grove.StackComposeAttention(4, 2)(x, TYPES + 256), "types: sequence 0, position 0"),
        (lambda x: grove.StackComposeAttention(4, 2)(x, TYPES - 256 * (TYPES == 1)), "types: sequence 0, position 2"),
        (lambda x: grove.StackComposeAttention(4, 2)(x, TYPES + 0.9), "types: torch.float32, expected whole numbers"),
        (lambda x: grove.span_logz(x[None]), r"chart: shape \(1, 3, 5, 4\), expected \[B, T, T, L\]"),
        (lambda x: grove.span_logz(x), r"chart: shape \(3, 5, 4\), expected \[B, T, T, L\]"),
        (lambda x: grove.span_logz(x[:, :0, None, :0]), r"chart: shape \(3, 0, 1, 0\), expected \[B, T, T, L\]"),
        (
            lambda x: grove.best_trees(torch.zeros(2, 5, 5, 2), 1, torch.tensor([5])),
            r"lengths: \[5\], expected 2, each at least 0",
        ),
        (lambda x: grove.span_logz(torch.full((1, 2, 2, 1), -torch.inf)), "sequence 0: no tree is possible"),
    ],
)
def test_bad_input_is_one_line(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        call(torch.zeros(3, 5, 4))
    assert "\n" not in str(error.value)
