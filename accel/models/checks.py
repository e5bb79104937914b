"""Checks of the fields of a configuration, which raise ValueError with the field, the mistake and the value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def require_positive(config: Any, *names: str) -> None:
    """Require fields of at least 1."""
    for name in names:
        if getattr(config, name) < 1:
            raise ValueError(f"{name}: must be positive, is {getattr(config, name)}")


def require_not_negative(config: Any, *names: str) -> None:
    """Require fields of at least 0."""
    for name in names:
        if getattr(config, name) < 0:
            raise ValueError(f"{name}: must not be negative, is {getattr(config, name)}")


def require_rates(config: Any, *names: str) -> None:
    """Require fields from 0 to below 1."""
    for name in names:
        if not 0.0 <= getattr(config, name) < 1.0:
            raise ValueError(f"{name}: must lie in [0, 1), is {getattr(config, name)}")


def require_choices(config: Any, **choices: Sequence[str]) -> None:
    """Require fields that are each one of their choices."""
    for name, values in choices.items():
        if getattr(config, name) not in values:
            raise ValueError(f"{name}: unknown {getattr(config, name)!r}: choose one of {', '.join(values)}")
