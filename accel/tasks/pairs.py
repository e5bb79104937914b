"""What the tasks of sequences that become other sequences share: their job, and the share of exact answers."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from accel.communicator import Communicator
from accel.data.pairs import UNKNOWN, Pair, PairBatches, Pairs
from accel.data.vocabulary import Vocabulary
from accel.models import encoder_decoder
from accel.models.encoder_decoder import Config
from accel.saved import Model
from accel.settings import TrainingConfig
from accel.tasks import Job
from accel.tasks.encoder_decoder import TRAINING, sequence_accuracy


def exact_match(ops: ModuleType, model: Model, pairs: list[Pair]) -> float:
    """Return the share of targets that a greedy search finds; those with an unknown word cannot be written."""
    vocabulary: Vocabulary = model.vocabulary
    unknown = vocabulary.encode_words([UNKNOWN])
    known = [pair for pair in pairs if not np.isin(pair[1], unknown).any()]
    if not known:
        return 0.0
    found = sequence_accuracy(ops, model.config, model.parameters, PairBatches(known, TRAINING.batch_size, ops=ops))
    return found * len(known) / len(pairs)


def job_of_pairs(
    config: Config,
    training: TrainingConfig,
    vocabulary: Vocabulary,
    pairs: Pairs,
    held_out: Pairs,
    ops: ModuleType,
    group: Communicator,
) -> Job:
    """Return the job of learning pairs, with some held out to validate on."""
    read: dict[str, Any] = {"ops": ops, "rank": group.rank, "ranks": group.size}
    return Job(
        encoder_decoder,
        config,
        training,
        vocabulary,
        PairBatches(pairs, training.batch_size, seed=training.seed, epochs=None, **read),
        lambda: PairBatches(held_out, training.batch_size, **read),
        f"{len(pairs):,} pairs, {len(held_out):,} held out, {len(vocabulary):,} ids ({vocabulary.kind})",
    )
