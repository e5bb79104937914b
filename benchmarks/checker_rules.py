"""Rules by which projects decide that a kernel is right, each as its authors publish it.

A rule takes the kernel's answer, the float64 answer, and the answer of the reference in float32; it returns whether the
kernel passes. Elements that are infinite in both answers are left out: two of the rules are not made for them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Rule = Callable[[np.ndarray, np.ndarray, np.ndarray], bool]


def close_within_a_hundredth(fast: np.ndarray, exact: np.ndarray, plain: np.ndarray) -> bool:
    """|fast - exact| <= 0.01 + 0.01 |exact|: `torch.allclose(atol=1e-2, rtol=1e-2)`, of KernelBench (2025)."""
    return bool(np.allclose(fast, exact, rtol=1e-2, atol=1e-2))


def ratio_of_errors(fast: np.ndarray, exact: np.ndarray, plain: np.ndarray) -> bool:
    """RMS(fast - exact) < 0.005 RMS(exact); passes below 1e-6: flash-linear-attention, `fla/utils/testing.py`."""
    off = np.abs(fast - exact).max(initial=0.0)
    if off <= 1e-6:
        return True
    return bool(_rms(fast - exact) / (_rms(exact) + 1e-8) < 0.005)


def ratio_of_errors_in_ci(fast: np.ndarray, exact: np.ndarray, plain: np.ndarray) -> bool:
    """The same with FLA_CI_ENV=1: a warning, no failure, where the largest error is below 0.3 or the ratio 0.01."""
    if np.isnan(fast).any():
        return False
    off = np.abs(fast - exact).max(initial=0.0)
    lenient = off <= 0.3 or _rms(fast - exact) / (_rms(exact) + 1e-8) < 0.01
    return bool(lenient or ratio_of_errors(fast, exact, plain))


def close_to_a_thousandth(fast: np.ndarray, exact: np.ndarray, plain: np.ndarray) -> bool:
    """|fast - exact| <= 1e-7 + 1e-3 |exact|: the defaults of `onnx.backend.test`, `assert_allclose`."""
    return bool(np.allclose(fast, exact, rtol=1e-3, atol=1e-7))


def twice_the_reference(fast: np.ndarray, exact: np.ndarray, plain: np.ndarray) -> bool:
    """max|fast - exact| <= 2 max|plain - exact|: flash-attention, `tests/test_flash_attn.py`."""
    return bool(np.abs(fast - exact).max(initial=0.0) <= 2 * np.abs(plain - exact).max(initial=0.0))


RULES: dict[str, Rule] = {
    "allclose 1e-2": close_within_a_hundredth,
    "error ratio": ratio_of_errors,
    "error ratio, CI": ratio_of_errors_in_ci,
    "1e-3 and 1e-7": close_to_a_thousandth,
    "twice the reference": twice_the_reference,
}


def passes(rule: Rule, fast: np.ndarray, exact: np.ndarray, plain: np.ndarray) -> bool:
    """Apply a rule to flat arrays; an infinity on one side only, or a NaN, fails."""
    if fast.shape != exact.shape:
        return False
    fast, exact, plain = (np.asarray(x, np.float64).ravel() for x in (fast, exact, plain))
    same = np.isinf(exact) & (fast == exact)
    fast, exact, plain = fast[~same], exact[~same], plain[~same]
    if not np.isfinite(fast).all():
        return False
    return rule(fast, exact, plain)


def _rms(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(x * x))) if x.size else 0.0
