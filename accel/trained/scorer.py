"""Scores, surprisals and perplexities that a trained model gives to words and trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

import accel
from accel.autodiff.arrays import Array, host
from accel.data.batches.text import encode_lines, encode_text
from accel.data.corpora.gathered import given_proposals
from accel.data.corpora.sequences import GIVEN, Trees, encode_sentences, read_given, read_whole
from accel.data.corpora.treebank import Reading
from accel.evaluation.bound_and_rerank import known_to, word_perplexity
from accel.scoring import surprisals
from accel.scoring.perplexity import Perplexity, text_perplexity
from accel.scoring.trees import tree_logps
from accel.trained.arguments import check_of_file, check_reading, check_trees, model_of, models_of
from accel.trained.ensembles import ENSEMBLES, check_ensemble
from accel.trained.kinds import ABILITIES, TEXT_LOGPS, TREE_LOGPS, kind_of, require
from accel.trained.opening import Model
from accel.trained.options import OptionError, check_number
from accel.trained.words import Batch, check_each, sentences_of

Floats = NDArray[np.float64]


def _mean(scores: Floats) -> float:
    return float(scores.mean())


def _unpickled(kind: type[Scorer], backend: str, module: str, weights: dict[str, Any], *rest: Any) -> Scorer:
    ops, (path, config, vocabulary, reading, of_characters) = accel.load(backend), rest
    parameters = {name: ops.xp.asarray(value) for name, value in weights.items()}
    return kind(ops, Model(path, config, parameters, vocabulary, reading, import_module(module), of_characters))


@dataclass(frozen=True, eq=False, repr=False)
class Scorer:
    """A trained model and the backend that it computes on.

    Search options are the keywords `beam`, `word_beam`, `fast_track`, `max_open` and `max_opens`, as in
    `grove surprisal`: `beam` for a GPST (default 20), all of them for a TG or a TXL (CC) (default beam 100). For these
    models the log p of the first words of a sentence is a sum over the parses that a search keeps, a lower bound; the
    score of a word is the difference of two such bounds. Scores of all other models are exact. A word that no parse of
    the search reaches, and all words after it, have probability 0.
    """

    ops: ModuleType
    model: Model

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what pickle stores: modules by their names, and the weights as NumPy arrays."""
        model = self.model
        weights = {name: host(value) for name, value in model.parameters.items()}
        rest = (model.path, model.config, model.vocabulary, model.reading, model.of_characters)
        return _unpickled, (type(self), self.ops.name, model.module.__name__, weights, *rest)

    @property
    def path(self) -> Path:
        """The checkpoint."""
        return self.model.path

    @property
    def kind(self) -> str:
        """The kind of the model, such as "tg"."""
        return kind_of(self.model)

    @property
    def abilities(self) -> frozenset[str]:
        """What models of this kind can give, in the words that error messages use."""
        return ABILITIES[self.kind]

    @property
    def config(self) -> Any:
        """The configuration, a frozen dataclass of the model's module."""
        return self.model.config

    @property
    def vocabulary(self) -> Any:
        """A `Vocabulary` if the model reads trees or writes sentences, `AlbertPieces` for an ALBERT, else `Words`."""
        return self.model.vocabulary

    @property
    def parameters(self) -> dict[str, Array]:
        """The weights by their names, arrays of the backend."""
        return self.model.parameters

    def sequence_score(
        self,
        batch: Batch,
        reduction: Callable[[Floats], Any] = _mean,
        prob: bool = False,
        base_two: bool = False,
        *,
        batch_size: int = 8,
        **search: Any,
    ) -> list[Any]:
        """Return for every sentence `reduction` of the scores of its tokens [n], by default their mean log p in nats.

        Every token counts, the first one too; the end of the sentence does not. Options as in `token_score`.
        """
        scores = self.token_score(batch, prob=prob, base_two=base_two, batch_size=batch_size, **search)
        return [reduction(np.array([score for _, score in tokens])) for tokens in scores]

    def token_score(
        self,
        batch: Batch,
        surprisal: bool = False,
        prob: bool = False,
        base_two: bool = False,
        *,
        batch_size: int = 8,
        **search: Any,
    ) -> list[list[tuple[str, float]]]:
        """Return for every sentence its tokens, words or pieces, with log p of each after those before it, in nats.

        Parameters
        ----------
        surprisal : bool
            Return -log p.
        prob : bool
            Return p.
        base_two : bool
            Return logarithms to base 2, bits.
        """
        words = self._readable(batch)
        surprisals.check_options(self.model, None, None, search)
        tokens = surprisals.bits_of_tokens(self.ops, self.model, words, batch_size=batch_size, **search)
        scored = ((symbols, surprisals.scores_of(bits, surprisal, prob, base_two)) for symbols, bits in tokens)
        return [list(zip(symbols, scores, strict=True)) for symbols, scores in scored]

    def word_score(
        self, batch: Batch, surprisal: bool = False, prob: bool = False, base_two: bool = False, **options: Any
    ) -> list[list[tuple[str, float]]]:
        """Return for every sentence its words with the scores of `token_score`, summed over the pieces of a word.

        Other options are those of `word_surprisals`.
        """
        words = sentences_of(self.model, batch)
        all_bits = self.word_surprisals(words, **options)
        scores = (surprisals.scores_of(bits.tolist(), surprisal, prob, base_two) for bits in all_bits)
        return [list(zip(*pair, strict=True)) for pair in zip(words, scores, strict=True)]

    def word_surprisals(
        self,
        batch: Batch,
        *,
        context_lines: int = 0,
        parser: Scorer | None = None,
        proposals_per_sentence: int | None = None,
        batch_size: int = 8,
        **search: Any,
    ) -> list[Floats]:
        """Return for every sentence the surprisal of each word after those before it [n], in bits.

        Parameters
        ----------
        context_lines : int
            For a GPST or a GPT-2: read every sentence after up to this many sentences before it in the batch.
        parser, proposals_per_sentence
            For a TG or a TXL (CC): sum over the trees that a trained parser proposes (by default 300 for a sentence),
            in place of a search.
        batch_size : int
            How many sentences are read side by side; this changes no result beyond rounding.
        """
        ops, model = self.ops, self.model
        proposer = None if parser is None else model_of("parser", parser)
        surprisals.check_options(model, proposer, proposals_per_sentence, search)
        surprisals.check_context(model, context_lines)
        context_lines = int(context_lines)  # differences of unsigned numbers of NumPy are not negative
        check_number("batch_size", batch_size)
        words = self._readable(batch, proposer)
        if context_lines:
            documents = [0] * len(words)
            bits = surprisals.bits_after_lines(
                ops, model, words, documents, context_lines, batch_size=batch_size, **search
            )
        else:
            options = {"parser": proposer, "n_proposals": proposals_per_sentence or 300, **search}
            bits = surprisals.bits_of_words(ops, model, words, batch_size=batch_size, **options)
        return [np.array(x) for x in bits]

    def tree_score(
        self,
        given: Trees | Path,
        *,
        reading: Reading | None = None,
        ensemble_with: Sequence[Scorer] = (),
        ensemble: str = "mixture",
        batch_size: int = 64,
    ) -> Floats:
        """Return log p(words, tree) of every tree [n], nats; for a model of words, log p of its words and their end.

        Parameters
        ----------
        given : a tree or several, or the path of a treebank
            In brackets or as `refimpl.trees.Tree`; a model of documents takes ``(DOC ...)``.
        reading : Reading or None
            Which parts of the trees are dropped; None: as in training.
        ensemble_with, ensemble
            Other models, and how all are combined: "mixture" or "product".
        """
        models = self._ensemble(ensemble_with, ensemble)
        reading = self._reading(reading)
        check_number("batch_size", batch_size)
        check_trees("given", given)
        sentences = list(read_whole(given, reading) if isinstance(given, Path) else read_given(given, reading))
        if not sentences:
            return np.zeros(0)
        corpus = encode_sentences(given if isinstance(given, Path) else GIVEN, sentences, self.vocabulary)
        logps = tree_logps(self.ops, models, corpus, ensemble=ensemble, batch_size=batch_size)
        return np.array(list(logps), np.float64)

    def perplexity(
        self,
        text: Batch | Path | None = None,
        *,
        trees: Trees | Path | None = None,
        proposals: Sequence[Trees] | Path | None = None,
        reading: Reading | None = None,
        ensemble_with: Sequence[Scorer] = (),
        ensemble: str = "mixture",
        batch_size: int = 64,
        **of_file: Any,
    ) -> Perplexity:
        """Return the perplexity per word: exact for a model of words, an upper bound for a model of trees.

        Parameters
        ----------
        text : lines, or the path of a text
            For a language model of words: running text. Every line ends with `<eos>`, which counts as a word.
        trees : a tree or several, or the path of a treebank
            Every tree is the only proposal for its words.
        proposals : for every sentence its trees, or the path of a file of proposals
        of_file
            Options of `accel.data.corpora.gathered.gather` for a file of proposals: `numbered`, `gold`, `documents`,
            `n_sentences`, `max_words`.
        """
        if sum(source is not None for source in (text, trees, proposals)) != 1:
            raise ValueError("perplexity: give one of text, trees and proposals")
        check_of_file(of_file, proposals)
        check_number("batch_size", batch_size)
        for name, source in (("text", text), ("trees", trees), ("proposals", proposals)):
            if source is not None:
                check_trees(name, source)
        if text is not None:
            require(self.model, TEXT_LOGPS)
            if ensemble_with or ensemble != ENSEMBLES[0]:
                raise OptionError("ensemble_with", "language models of words make no ensemble: leave it out")
            if reading is not None:
                raise OptionError("reading", "is for trees, and a text has none: leave it out")
            if isinstance(text, Path):
                return text_perplexity(self.ops, self.model, encode_text(text, self.vocabulary))
            lines = sentences_of(self.model, text, name="text")
            return text_perplexity(self.ops, self.model, encode_lines(lines, self.vocabulary))
        models = self._ensemble(ensemble_with, ensemble)
        if isinstance(proposals, Path):
            of_file["check"] = known_to(self.model, proposals)
        sentences = given_proposals(trees, proposals, self._reading(reading), **of_file)
        if not sentences.proposals:
            raise ValueError("perplexity: no trees are given")
        options: dict[str, Any] = {"documents": sentences.documents, "ensemble": ensemble, "batch_size": batch_size}
        return word_perplexity(self.ops, models, sentences.path, sentences.proposals, **options)

    def _readable(self, batch: Batch, parser: Model | None = None) -> list[list[str]]:
        """Return the words of every sentence; raise ValueError if the model has no surprisals of them."""
        surprisals.check_surprisals(self.model)
        words = sentences_of(self.model, batch)
        check_each(words, lambda sentence: surprisals.check_words(self.model, sentence, parser))
        return words

    def _reading(self, reading: Reading | None) -> Reading:
        check_reading(reading)
        return reading or self.model.reading or Reading()

    def _ensemble(self, others: Sequence[Scorer], ensemble: str) -> list[Model]:
        models = [self.model, *models_of("ensemble_with", others)]
        for model in models:
            require(model, TREE_LOGPS)
        check_ensemble(models, ensemble)
        return models
