"""The options of training, which a resumed run shares with the run that it continues."""

from __future__ import annotations

from dataclasses import dataclass

from accel.models.checks import require_choices, require_not_negative, require_positive
from accel.training.schedule import learning_rate, noam

OPTIMIZERS = ("adam", "sgd", "nt_asgd")
SCHEDULES = ("cosine", "linear", "constant", "plateau", "noam")
SELECTIONS = ("loss", "accuracy")


@dataclass(frozen=True)
class TrainingConfig:
    """Steps, optimiser, learning rate, clipping, and how often to validate and to save.

    The defaults are those of Transformer Grammars (Figure 9). With the schedules "constant" and "plateau" every step
    has `maximum_rate`, times the factor of `accel.training.schedule.plateau`; "noam" reaches it after the warm-up.

    Parameters whose names begin with `own_rate_of` have the maximum `own_rate` instead: at every step their rate is
    multiplied by `own_rate / maximum_rate`.
    """

    batch_size: int = 64
    steps: int = 50_000
    warmup_steps: int = 6_000
    initial_rate: float = 1e-7
    maximum_rate: float = 7.1e-4
    final_rate: float = 3e-7
    clip_norm: float | None = 3.0
    validate_every: int = 500
    checkpoint_every: int = 500
    seed: int = 0
    optimizer: str = "adam"  # or "sgd", or "nt_asgd": averaged as soon as the validation loss stalls
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    schedule: str = "cosine"
    own_rate_of: str = ""
    own_rate: float | None = None
    factor: float = 0.5  # of the rate on a plateau
    patience: int = 2  # validations without progress
    nonmonotone: int = 5  # validations that NT-ASGD waits
    select: str = "loss"  # or "accuracy": the validation result that selects the best checkpoint and the plateau
    keep_checkpoints: int = 0  # how many of the last checkpoints to keep, each under its step, for an average

    def __post_init__(self) -> None:
        require_positive(self, "batch_size", "steps", "validate_every", "checkpoint_every")
        require_not_negative(self, "seed", "weight_decay", "patience", "nonmonotone", "keep_checkpoints")
        require_choices(self, optimizer=OPTIMIZERS, schedule=SCHEDULES, select=SELECTIONS)
        if self.optimizer == "nt_asgd" and self.select != "loss":
            raise ValueError("select: NT-ASGD selects by the loss")
        if (self.own_rate is None) != (not self.own_rate_of):
            raise ValueError("own_rate, own_rate_of: set both or neither")
        if self.own_rate is not None and self.maximum_rate <= 0:
            raise ValueError(f"own_rate: compares with maximum_rate, which must be positive, is {self.maximum_rate}")
        if self.schedule in ("cosine", "linear") and not 0 <= self.warmup_steps < self.steps:
            raise ValueError(f"warmup_steps: {self.warmup_steps} do not fit into {self.steps} steps")
        if self.clip_norm is not None and self.clip_norm <= 0:
            raise ValueError(f"clip_norm: must be positive or None, is {self.clip_norm}")

    @property
    def may_go_on(self) -> bool:
        """Whether a run may be resumed with more steps, because the rates do not depend on their number."""
        return self.schedule not in ("cosine", "linear")

    def rate(self, step: int) -> float:
        """Return the learning rate of update `step`, counted from 0, before the factor of the validations."""
        if self.schedule == "noam":
            return noam(step, warmup=self.warmup_steps, maximum=self.maximum_rate)
        if self.may_go_on:
            return self.maximum_rate
        return learning_rate(
            step,
            steps=self.steps,
            warmup=self.warmup_steps,
            initial=self.initial_rate,
            maximum=self.maximum_rate,
            final=self.final_rate,
            linear=self.schedule == "linear",
        )
