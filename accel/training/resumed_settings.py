"""Which settings of a training differ from those of its checkpoint, and which of them a resumed run may change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from typing import Any

from accel.training.settings import TrainingConfig

FREE = (
    "recompute", "steps", "stop_after", "restart_after", "checkpoint_every", "checkpoint_seconds", "keep_checkpoints",
)  # fmt: skip
"""The settings of training that may change when a run is resumed."""
FOLLOW_STEPS = ("warmup_steps",)
"""The settings that may change when the number of steps changes: a task may derive them from it."""

Change = tuple[Any, Any]  # the saved value of a setting, and its present value


def changes(saved: Mapping[str, Any], config: Any, training: TrainingConfig) -> dict[str, Change]:
    """Return the settings of model and training by name that differ from those in the state of a checkpoint.

    A setting that the checkpoint of an older version lacks had its default, or its value in `FORMER` of its class.
    """
    different = {}
    for settings, old in ((config, saved.get("config", {})), (training, saved.get("training", {}))):
        default = {f.name: f.default for f in fields(settings) if f.default is not MISSING}
        old = default | dict(getattr(settings, "FORMER", {})) | old
        new = json.loads(json.dumps(asdict(settings)))
        different |= {name: (old.get(name), value) for name, value in new.items() if old.get(name) != value}
    return different


def results(saved: Mapping[str, Any], training: TrainingConfig) -> list[float]:
    """Return the results of the validations so far, for a run that goes on from the state of a checkpoint.

    The last step is always validated. If the run now gets more steps, this result is dropped unless a validation is due
    at that step anyway: so the run has the results of a run that had the larger number of steps from its beginning. The
    parameters of that validation stay the best checkpoint until a later one is better.
    """
    values, before = list(saved.get("results", [])), saved.get("training", {})
    is_lengthened = saved["step"] == before.get("steps", 0) < training.steps
    return values[:-1] if is_lengthened and saved["step"] % before["validate_every"] else values


def may_change(name: str, different: Mapping[str, Change]) -> bool:
    """Return whether a resumed run may change a setting; `different` has all settings that change."""
    return name in FREE or (name in FOLLOW_STEPS and "steps" in different)
