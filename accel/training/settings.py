"""The options of training, which a resumed run shares with the run that it continues."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from accel import PRECISIONS
from accel.models.checks import (
    FLAG,
    NOT_NEGATIVE,
    POSITIVE,
    RATE,
    SHARE,
    TEXT,
    Rule,
    at_least,
    check,
    one_of,
    or_none,
    reasons_unread,
    refusal,
)
from accel.training.schedule import learning_rate, noam

TINY = 2.0**-126  # the least normal number of float32; a training takes smaller ones for 0
OPTIMIZERS = ("adam", "sgd", "nt_asgd")
DECAYS = ("penalty", "decoupled")
SCHEDULES = ("cosine", "linear", "constant", "plateau", "noam")
SELECTIONS = ("loss", "accuracy", "f1", "matthews")
_READ_BY: tuple[Rule, ...] = (
    (("warmup_steps",), "schedule", ("cosine", "linear", "noam")),
    (("initial_rate", "final_rate"), "schedule", ("cosine", "linear")),
    (("initial_rate",), "warmup", at_least(1)),
    (("factor", "patience", "least_rate"), "schedule", ("plateau",)),
    (("beta1", "beta2", "epsilon"), "optimizer", ("adam",)),
    (("nonmonotone", "restart_after"), "optimizer", ("nt_asgd",)),
    (("decay",), "weight_decay", POSITIVE),
)
_OF_VALIDATIONS = (
    "validate_every", "select", "stop_after", "factor", "patience", "least_rate", "nonmonotone", "restart_after",
)  # fmt: skip


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
    checkpoint_seconds: float = 120.0  # save also when the last checkpoint is this old
    seed: int = 0
    optimizer: str = "adam"  # or "sgd", or "nt_asgd": averaged as soon as the validation loss stalls
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    decay: str = "penalty"  # added to the gradient; or "decoupled": weights shrink by rate times weight_decay
    schedule: str = "cosine"
    own_rate_of: str = ""
    own_rate: float | None = None
    factor: float = 0.5  # of the rate on a plateau
    patience: int = 2  # validations without progress
    least_rate: float = 0.0  # below which the rate does not fall on a plateau
    stop_after: int = 0  # validations in a row without progress that end the training; 0: never
    nonmonotone: int = 5  # validations that NT-ASGD waits
    restart_after: int = 0  # the validation at which NT-ASGD begins a new average; its stall ends the training; 0: none
    select: str = "loss"  # one of `SELECTIONS`: the validation result that decides on best checkpoint and plateau
    keep_checkpoints: int = 0  # how many of the last checkpoints to keep, each under its step, for an average
    recompute: bool = False  # compute layers again in the backward pass, instead of keeping their arrays
    precision: str = "float32"  # or "tf32", "bf16": of the factors of matrix products on a GPU, see `grove train`
    micro_batch: int | None = None  # of a process's batch in memory at a time, in the unit of `batch_size`; None: all

    def __post_init__(self) -> None:
        one, zero = at_least(1), at_least(0)
        check(
            self, batch_size=one, steps=one, warmup_steps=zero, initial_rate=NOT_NEGATIVE, maximum_rate=NOT_NEGATIVE,
            final_rate=NOT_NEGATIVE, clip_norm=or_none(POSITIVE), validate_every=one, checkpoint_every=one,
            checkpoint_seconds=POSITIVE, seed=zero,
            optimizer=one_of(OPTIMIZERS), beta1=RATE, beta2=RATE, epsilon=POSITIVE,
            weight_decay=NOT_NEGATIVE, decay=one_of(DECAYS), schedule=one_of(SCHEDULES), own_rate_of=TEXT,
            own_rate=or_none(NOT_NEGATIVE), factor=SHARE, patience=zero, nonmonotone=zero,
            restart_after=zero, least_rate=NOT_NEGATIVE, stop_after=zero,
            select=one_of(SELECTIONS), keep_checkpoints=zero, micro_batch=or_none(one), recompute=FLAG,
            precision=one_of(PRECISIONS),
        )  # fmt: skip
        if self.epsilon < TINY:
            raise refusal("epsilon", self.epsilon, "float32 does not hold so small a number", f"{TINY:.2g} or more")
        if self.seed >= 2**64:
            raise refusal("seed", self.seed, "it has more than 64 bits", "a number below 2**64")
        if self.optimizer == "nt_asgd" and self.select != "loss":
            raise refusal("select", self.select, "nt_asgd selects by the loss", "loss, or another optimizer")
        if self.least_rate > self.maximum_rate:
            raise refusal("least_rate", self.least_rate, "maximum_rate is less", f"at most {self.maximum_rate}")
        if self.own_rate is None and self.own_rate_of:
            raise refusal("own_rate", None, f"own_rate_of is {self.own_rate_of!r}", "a rate, or no own_rate_of")
        if self.own_rate is not None and not self.own_rate_of:
            raise refusal("own_rate_of", "", "there is an own_rate", "the beginning of parameters' names")
        if self.own_rate is not None and self.maximum_rate <= 0:
            raise refusal("maximum_rate", self.maximum_rate, "own_rate is a multiple of it", "a number above 0")
        if self.final_rate > self.maximum_rate and not self.may_go_on:
            raise refusal("final_rate", self.final_rate, "maximum_rate is less", f"at most {self.maximum_rate}")

    @property
    def may_go_on(self) -> bool:
        """Whether the rates do not depend on the number of steps, so that a longer run begins with the same steps."""
        return self.schedule not in ("cosine", "linear")

    @property
    def warmup(self) -> int:
        """The steps of the warm-up: `warmup_steps`, or a tenth of `steps` if "cosine" or "linear" cannot fit them.

        >>> [TrainingConfig(steps=steps, warmup_steps=30).warmup for steps in (300, 31, 30, 20, 5)]
        [30, 30, 3, 2, 0]
        """
        return self.warmup_steps if self.may_go_on or self.warmup_steps < self.steps else self.steps // 10

    def summary(self) -> str:
        """Return the steps and the warm-up in words.

        >>> TrainingConfig(steps=20, warmup_steps=30).summary()
        '20 steps; the learning rate rises for 2 of them, as warmup_steps=30 does not fit'
        """
        text, rises = f"{self.steps:,} step{'s' * (self.steps > 1)}", "the learning rate rises for"
        if self.schedule in ("constant", "plateau") or not self.warmup_steps:
            return text
        if self.warmup >= self.steps:
            use = f"--set warmup_steps={max(1, self.steps // 10)}"
            return f"{text}; {rises} all of them, as warmup_steps is {self.warmup_steps:,}; use {use} to let it fall"
        reason = f", as warmup_steps={self.warmup_steps} does not fit" if self.warmup < self.warmup_steps else ""
        return f"{text}; {rises} {self.warmup:,} of them{reason}"

    def unread(self, names: Iterable[str], *, has_validation: bool) -> tuple[str, ...]:
        """Return up to two lines: the settings among `names` that nothing reads, and what a missing validation changes.

        >>> TrainingConfig(schedule="constant", warmup_steps=9).unread(["warmup_steps", "steps"], has_validation=True)
        ('not read: warmup_steps=9 (schedule=constant)',)
        >>> TrainingConfig(schedule="plateau").unread(["patience"], has_validation=False)
        ('not read: patience=2 (no validation)', 'no validation: the learning rate stays (schedule=plateau)')
        >>> [TrainingConfig(warmup_steps=n).unread(["initial_rate"], has_validation=True) for n in (0, 9)]
        [('not read: initial_rate=1e-07 (warmup=0)',), ()]
        """
        names = list(names)
        of_validations = [] if has_validation else [name for name in names if name in _OF_VALIDATIONS]
        reasons = dict.fromkeys(of_validations, "no validation") | reasons_unread(self, names, _READ_BY)
        effects = {
            "the learning rate stays (schedule=plateau)": self.schedule == "plateau",
            "nothing is averaged (optimizer=nt_asgd)": self.optimizer == "nt_asgd",
            f"all steps are made (stop_after={self.stop_after})": self.stop_after > 0,
        }
        lines = {
            "not read": [f"{name}={getattr(self, name)} ({reason})" for name, reason in reasons.items()],
            "no validation": [text for text, holds in effects.items() if holds and not has_validation],
        }
        return tuple(f"{name}: {', '.join(parts)}" for name, parts in lines.items() if parts)

    def rate(self, step: int) -> float:
        """Return the learning rate of update `step`, counted from 0, without the factor that validations give."""
        if self.schedule == "noam":
            return noam(step, warmup=self.warmup_steps, maximum=self.maximum_rate)
        if self.may_go_on:
            return self.maximum_rate
        return learning_rate(
            step,
            steps=self.steps,
            warmup=self.warmup,
            initial=self.initial_rate,
            maximum=self.maximum_rate,
            final=self.final_rate,
            linear=self.schedule == "linear",
        )
