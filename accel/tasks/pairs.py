"""What the tasks of sequences that become other sequences share: their job, and the share of exact answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from accel.communicator import Communicator
from accel.data.pairs import UNKNOWN, PairBatches, Pairs, TextPair, encode_pairs
from accel.data.vocabulary import Vocabulary
from accel.models import encoder_decoder
from accel.models.encoder_decoder import Config
from accel.saved import Model
from accel.settings import TrainingConfig
from accel.tasks import Job
from accel.tasks.encoder_decoder import TRAINING, sequence_accuracy


def accuracies(
    ops: ModuleType, model: Model, path: Path, pairs: Sequence[TextPair]
) -> tuple[float, dict[str | int, float]]:
    """Return the share of targets that a greedy search finds, of all pairs read from a file and of every kind.

    A target with a word that the vocabulary does not have is not found.
    """
    unknown = model.vocabulary.encode_words([UNKNOWN])
    right: dict[str | int, float] = {}
    for kind in sorted({pair.kind for pair in pairs}):
        chosen = [pair for pair in pairs if pair.kind == kind]
        encoded = encode_pairs(path, chosen, model.vocabulary, TRAINING.batch_size)
        known = [pair for pair in encoded if not np.isin(pair[1], unknown).any()]
        batches = PairBatches(known, TRAINING.batch_size, ops=ops) if known else []
        found = sequence_accuracy(ops, model.config, model.parameters, batches)
        right[kind] = found * len(known) / len(chosen)
    counts = Counter(pair.kind for pair in pairs)
    return sum(right[kind] * counts[kind] for kind in right) / len(pairs), right


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
