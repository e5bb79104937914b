"""The perplexity per word of a text, with its parts."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import numpy as np

from accel.scoring.text import text_logp
from accel.trained.opening import Model
from refimpl.transformer_grammars.marginal import perplexity


@dataclass(frozen=True)
class Perplexity:
    """A perplexity per word with its parts.

    Attributes
    ----------
    perplexity : float
    meaning : str
        "exact" for a model of words; for a model of trees "upper bound", or "after greedy trees" if it reads documents.
    logp : float
        The sum over all words, nats.
    n_words : int
    sentence_logps : tuple of float or None
        None where a sentence is skipped; empty for running text.
    mean_proposals : float or None
        How many trees a sentence has on average, skipped ones left out; None for running text.
    n_ends : int
        Ends of sequences, which count in `logp` but not in `n_words`: one per sentence or document of a model of words.
    tree_logps : tuple of tuples of float
        For every sentence, log p of every proposal, nats; empty for running text.
    """

    perplexity: float
    meaning: str
    logp: float
    n_words: int
    sentence_logps: tuple[float | None, ...] = ()
    mean_proposals: float | None = None
    n_ends: int = 0
    tree_logps: tuple[tuple[float, ...], ...] = ()

    @property
    def with_ends(self) -> float:
        """The perplexity per word and end."""
        return perplexity([self.logp], self.n_words + self.n_ends)

    @property
    def is_bound(self) -> bool:
        """Whether the perplexity of the model itself may be lower."""
        return self.meaning == "upper bound"


def text_perplexity(ops: ModuleType, model: Model, ids: np.ndarray) -> Perplexity:
    """Return the exact perplexity of a text under a model of words; raises as `text_logp` does."""
    logp, n_words = text_logp(ops, model, ids)
    return Perplexity(perplexity([logp], n_words), "exact", logp, n_words)
