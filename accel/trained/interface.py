"""The Python interface: what a trained model of any kind can do, by the functions that the commands of `grove` use.

A string is a sentence, whose words are separated by blanks; a list of words is a sentence, too. A file is a `Path`.
What a model cannot do raises a `ValueError` that names the kinds of models that can.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import accel
from accel.parsing import propose as proposing
from accel.parsing import trees as best_trees
from accel.parsing.gpst import Embedding, embeddings
from accel.parsing.spans import reading_of
from accel.search.texts import Text, draw_text
from accel.search.translations import Translation, translations
from accel.trained.kinds import GPST_TREES, PROPOSALS, TREE_LOGPS, can, require
from accel.trained.opening import open_model
from accel.trained.options import check_number
from accel.trained.scorer import Scorer
from accel.trained.words import Batch, Sentence, check_each, encode_words, line_reader, sentences_of, words_of
from refimpl.trees import Tree


def open_trained(path: str | Path, backend: str) -> TrainedModel:
    """Return a trained model; see `accel.trained.open`."""
    ops = accel.load(backend)
    return TrainedModel(ops, open_model(ops, path))


class TrainedModel(Scorer):
    """A trained model, ready to be used: it scores words and trees (`Scorer`), parses, writes texts and translates."""

    def __repr__(self) -> str:
        return f"TrainedModel({str(self.path)!r}, kind={self.kind!r})"

    def parse(self, batch: Batch, *, batch_size: int | None = None, **options: Any) -> list[Tree | None]:
        """Return the best tree of every sentence, with labels if the model knows any; None if a search finds none.

        Options are those of `grove parse`: `layer` and `split` for distances, `max_height` for a chart, `mode`, `beam`
        and `sync` for a GPST, search options for a TG or a TXL (CC).
        """
        best_trees.check_options(self.model, options)
        labelled = can(self.model, TREE_LOGPS) or can(self.model, PROPOSALS)
        words = sentences_of(self.model, batch, proposing.words_of if labelled else None)
        reading = reading_of({} if labelled else options)
        check_each(words, lambda sentence: encode_words(self.model, sentence, **reading))
        return list(best_trees.parse(self.ops, self.model, words, batch_size=batch_size, **options))

    def propose(self, batch: Batch, number: int = 300, *, batch_size: int = 16) -> list[list[tuple[Tree, float]]]:
        """Return for every sentence a parser's `number` most probable trees, best first, with log q of each, nats."""
        require(self.model, PROPOSALS)
        check_number("number", number)
        check_number("batch_size", batch_size)
        words = sentences_of(self.model, batch, proposing.words_of)
        return list(proposing.propose(self.ops, self.model, words, number, batch_size=batch_size))

    def sample(
        self, prefix: Sentence = "", *, context: Batch = (), words: int = 50, top_k: int = 2, seed: int = 0,
        sync: bool = True,
    ) -> Text:  # fmt: skip
        """Return a text of at most `words` words after the prefix; each is drawn from the `top_k` best parses.

        `context` are whole sentences before the prefix, for a GPST or a GPT-2. Without `sync` every action is drawn by
        itself.
        """
        prefix_words = words_of("prefix", prefix, line_reader(self.model))
        before = sentences_of(self.model, context, name="context")
        options: dict[str, Any] = {"words": words, "top_k": top_k, "seed": seed, "sync": sync}
        return draw_text(self.ops, self.model, prefix_words, context=before, **options)

    def translate(self, batch: Batch, **search: Any) -> list[Translation]:
        """Return the translation of every sentence by an encoder-decoder.

        Options are those of `grove translate`: `beam`, `length_penalty`, `extra_length`, `batch_size`.
        """
        return translations(self.ops, self.model, sentences_of(self.model, batch), **search)

    def embed(self, batch: Batch, *, batch_size: int = 64) -> list[Embedding]:
        """Return the inside vectors of all words and constituents of every sentence, from a GPST."""
        require(self.model, GPST_TREES)
        check_number("batch_size", batch_size)
        words = sentences_of(self.model, batch)
        check_each(words, lambda sentence: encode_words(self.model, sentence))
        return list(embeddings(self.ops, self.model, words, batch_size=batch_size))
