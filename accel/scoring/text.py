"""Exact log-probabilities of text under a language model of words, which reads from left to right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import NamedTuple

import numpy as np

from accel.autodiff.arrays import Array, host, offsets_of
from accel.data.batches.text import EOS, TextBatches
from accel.data.corpora.treebank import Corpus
from accel.models.fasttrees import language_model
from accel.models.fasttrees.stack import reads_neighbours
from accel.scoring.trees import event_logps
from accel.trained.kinds import TEXT_LOGPS, require
from accel.trained.opening import Model

LENGTH = 70  # steps at a time; changes the memory needed, not the result


class _Sentences(NamedTuple):
    """A batch of whole sentences."""

    ids: Array
    labels: Array
    offsets: Array
    fresh: bool = True


def require_ends(model: Model) -> None:
    """Raise ValueError unless the model is one of words with `<eos>`, which stands between lines."""
    require(model, TEXT_LOGPS)
    if EOS not in model.vocabulary.ids:
        use = f"train with a vocabulary that has {EOS}"
        raise ValueError(f"{model.path}: a language model without {EOS}, which has to stand between lines: {use}")


def text_logp(ops: ModuleType, model: Model, ids: np.ndarray) -> tuple[float, int]:
    """Return the sum of log p over the words of a text, nats, and their number, line ends included.

    The text is given by its ids [n], as `encode_text` or `encode_lines` return them. The first word is not predicted,
    since no word precedes it. The text is one column, in which a released convolution has no neighbours.

    Raises
    ------
    ValueError
        If the text has a single word, or the model is not one of words, or has no `<eos>`.
    """
    require_ends(model)
    state, total, count = None, 0.0, 0
    for batch in TextBatches(ids, 1, ops=ops, length=LENGTH):
        logp, state = language_model.token_logps(ops, model.config, model.parameters, batch, state)
        total += float(logp.sum(dtype=ops.xp.float64))
        count += batch.n_labels
    return total, count


def sentence_logps(
    ops: ModuleType, model: Model, sentences: Sequence[Sequence[str]], *, batch_size: int = 64
) -> Iterator[np.ndarray]:
    """Yield for every sentence log p of its words and of the end of the line [n + 1], nats.

    Each sentence is read by itself, after an end of line; a model that reads the neighbours in a batch gets one at a
    time.
    """
    require_ends(model)
    batch_size = 1 if reads_neighbours(model.config) else batch_size
    xp = ops.xp
    for start in range(0, len(sentences), batch_size):
        encoded = [model.vocabulary.encode([EOS, *words, EOS]) for words in sentences[start : start + batch_size]]
        offsets = offsets_of(len(ids) - 1 for ids in encoded)
        ids, labels = (
            xp.asarray(np.concatenate([np.array(side, np.int32) for side in sides]))
            for sides in ([ids[:-1] for ids in encoded], [ids[1:] for ids in encoded])
        )
        batch = _Sentences(ids, labels, xp.asarray(offsets.astype(np.int64)))
        logp, _ = language_model.token_logps(ops, model.config, model.parameters, batch)
        yield from np.split(host(logp).astype(np.float64), offsets[1:-1])


def terminal_logps(
    ops: ModuleType,
    model: Model,
    sentences: Sequence[Sequence[int]],
    *,
    batch_size: int = 64,
    others: Sequence[Model] = (),
    ensemble: str = "mixture",
) -> Iterator[np.ndarray]:
    """Yield for every sentence log p of its terminals and of the end symbol [n + 1] under a txl_terminals, nats.

    Each sentence is read by itself, after the start symbol. With `others` the models are an ensemble.
    """
    if not len(sentences):
        return
    counts = np.array([len(tokens) for tokens in sentences], np.int32)
    ids = np.array([i for tokens in sentences for i in tokens], np.int32)
    corpus = Corpus(ids, offsets_of(counts), counts, counts)  # actions without any brackets
    yield from event_logps(ops, [model, *others], corpus, batch_size=batch_size, ensemble=ensemble)
