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
        "exact" of a model of words; of one of trees "upper bound" or, where it reads documents, "after greedy trees".
    logp : float
        Of all words, nats.
    n_words : int
    sentence_logps : tuple of float or None
        None where a sentence is skipped; empty of running text.
    mean_proposals : float or None
        How many trees a sentence has; None of running text.
    n_ends : int
        Ends of sequences that count in `logp`, and not in `n_words`: of a model of words one a sentence or document.
    tree_logps : tuple of tuples of float
        Of every sentence, of every proposal, nats; empty of running text.
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
