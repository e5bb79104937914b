"""The Python interface: what a trained model of any kind can do, by the functions that the commands of `grove` use.

A string is a sentence, whose words stand between blanks; a sentence may also be given by its words. A file is a `Path`.
What a model cannot do is refused with a `ValueError` that names the kinds of models that can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

import accel
from accel.autodiff.arrays import Array
from accel.data.batches.text import encode_lines, encode_text
from accel.data.corpora.gathered import given_proposals
from accel.data.corpora.sequences import GIVEN, encode_sentences, read_given, read_whole
from accel.data.corpora.treebank import Reading
from accel.evaluation.bound_and_rerank import known_to, word_perplexity
from accel.parsing import propose as proposing
from accel.parsing import trees as best_trees
from accel.parsing.gpst import Embedding, embeddings
from accel.parsing.spans import reading_of
from accel.scoring import surprisals
from accel.scoring.perplexity import Perplexity, text_perplexity
from accel.scoring.trees import check_ensemble, tree_logps
from accel.search.texts import Text, draw_text
from accel.search.translations import Translation, translations
from accel.trained.kinds import ABILITIES, GPST_TREES, PROPOSALS, TEXT_LOGPS, TREE_LOGPS, can, kind_of, require
from accel.trained.opening import Model, open_model
from accel.trained.options import OptionError
from accel.trained.words import Batch, Sentence, check_each, encode_words, sentences_of
from refimpl.trees import Tree

Trees = Sequence[str | Tree]
Floats = NDArray[np.float64]


def open_trained(path: str | Path, backend: str) -> TrainedModel:
    """Return a trained model; see `accel.trained.open`."""
    ops = accel.load(backend)
    return TrainedModel(ops, open_model(ops, path))


def _mean(scores: Floats) -> float:
    return float(scores.mean())


@dataclass(frozen=True, eq=False, repr=False)
class TrainedModel:
    """A trained model, ready to be used.

    Search options, as keywords `beam`, `word_beam`, `fast_track`, `max_open` and `max_opens`, are those of
    `grove surprisal`: `beam` for a GPST (20), all of them for a TG or a TXL (CC) (beam: 100). Scores of these models
    are sums over the parses that a search keeps, lower bounds of log p; those of all other models are exact. A word
    that no parse of the search reaches, and all words after it, have probability 0.
    """

    ops: ModuleType
    model: Model

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
        """What models of this kind give, in the words of the messages that refuse the rest."""
        return ABILITIES[self.kind]

    @property
    def config(self) -> Any:
        """The configuration, a frozen dataclass of the model's module."""
        return self.model.config

    @property
    def vocabulary(self) -> Any:
        """A `Vocabulary` of a model that reads trees or writes sentences, else `Words`."""
        return self.model.vocabulary

    @property
    def parameters(self) -> dict[str, Array]:
        """The weights by their names, arrays of the backend."""
        return self.model.parameters

    def __repr__(self) -> str:
        return f"TrainedModel({str(self.path)!r}, kind={self.kind!r})"

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
            -log p.
        prob : bool
            p.
        base_two : bool
            Logarithms to base 2, bits.
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
        parser: TrainedModel | None = None,
        proposals_per_sentence: int | None = None,
        batch_size: int = 8,
        **search: Any,
    ) -> list[Floats]:
        """Return for every sentence the surprisal of each word after those before it [n], in bits.

        Parameters
        ----------
        context_lines : int
            Of a GPST or a GPT-2: read every sentence after up to so many sentences before it in the batch.
        parser, proposals_per_sentence
            Of a TG or a TXL (CC): sum over the trees that a trained parser proposes (300 of each sentence), in place
            of a search.
        batch_size : int
            How many sentences are read side by side; this changes no result beyond rounding.
        """
        ops, model = self.ops, self.model
        proposer = None if parser is None else parser.model
        surprisals.check_options(model, proposer, proposals_per_sentence, search)
        surprisals.check_context(model, context_lines)
        words = self._readable(batch, proposer)
        if context_lines:
            documents = [0] * len(words)
            bits = surprisals.bits_after_lines(
                ops, model, words, documents, context_lines, batch_size=batch_size, **search
            )
        elif proposer is None:
            bits = surprisals.bits_of_words(ops, model, words, batch_size=batch_size, **search)
        else:
            number = 300 if proposals_per_sentence is None else proposals_per_sentence
            bits = surprisals.bits_of_words(
                ops, model, words, batch_size=batch_size, parser=proposer, n_proposals=number
            )
        return [np.array(x) for x in bits]

    def tree_score(
        self,
        given: Trees | Path,
        *,
        reading: Reading | None = None,
        ensemble_with: Sequence[TrainedModel] = (),
        ensemble: str = "mixture",
        batch_size: int = 64,
    ) -> Floats:
        """Return log p(words, tree) of every tree [n], nats; of a model of words log p of its words and their end.

        Parameters
        ----------
        given : trees, or the path of a treebank
            In brackets or as `refimpl.trees.Tree`; a model of documents takes ``(DOC ...)``.
        reading : Reading or None
            Which parts of the trees are dropped; None: as in training.
        ensemble_with, ensemble
            Other models, and how all are combined: "mixture" or "product".
        """
        models = self._ensemble(ensemble_with, ensemble)
        reading = self._reading(reading)
        sentences = list(read_whole(given, reading) if isinstance(given, Path) else read_given(given, reading))
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
        ensemble_with: Sequence[TrainedModel] = (),
        ensemble: str = "mixture",
        batch_size: int = 64,
        **of_file: Any,
    ) -> Perplexity:
        """Return the perplexity per word: exact of a model of words, of a model of trees a bound from above.

        Parameters
        ----------
        text : lines, or the path of a text
            Of a language model of words: running text. Every line ends with `<eos>`, which counts as a word.
        trees : trees, or the path of a treebank
            Every tree is the only proposal for its words.
        proposals : for every sentence its trees, or the path of a file of proposals
        of_file
            Options of `accel.data.corpora.gathered.gather` for such a file: `numbered`, `gold`, `documents`,
            `n_sentences`, `max_words`.
        """
        if sum(source is not None for source in (text, trees, proposals)) != 1:
            raise ValueError("perplexity: give one of text, trees and proposals")
        if of_file and not isinstance(proposals, Path):
            raise OptionError(next(iter(of_file)), "is for a file of proposals")
        if text is not None:
            require(self.model, TEXT_LOGPS)
            if isinstance(text, Path):
                return text_perplexity(self.ops, self.model, encode_text(text, self.vocabulary))
            return text_perplexity(self.ops, self.model, encode_lines(sentences_of(self.model, text), self.vocabulary))
        models = self._ensemble(ensemble_with, ensemble)
        if isinstance(proposals, Path):
            of_file["check"] = known_to(self.model, proposals)
        sentences = given_proposals(trees, proposals, self._reading(reading), **of_file)
        options: dict[str, Any] = {"documents": sentences.documents, "ensemble": ensemble, "batch_size": batch_size}
        return word_perplexity(self.ops, models, sentences.path, sentences.proposals, **options)

    def parse(self, batch: Batch, *, batch_size: int | None = None, **options: Any) -> list[Tree | None]:
        """Return the best tree of every sentence, with labels if the model knows any; None if a search finds none.

        Options are those of `grove parse`: `layer` and `split` of distances, `max_height` of a chart, `mode`, `beam`
        and `sync` of a GPST, search options of a TG or a TXL (CC).
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
        words = sentences_of(self.model, batch, proposing.words_of)
        return list(proposing.propose(self.ops, self.model, words, number, batch_size=batch_size))

    def sample(
        self, prefix: Sentence = "", *, context: Batch = (), words: int = 50, top_k: int = 2, seed: int = 0,
        sync: bool = True,
    ) -> Text:  # fmt: skip
        """Return a text of at most `words` words after the prefix; each is drawn from the `top_k` best parses.

        `context` are whole sentences before the prefix, of a GPST or a GPT-2. Without `sync` every action is drawn by
        itself.
        """
        [prefix_words] = sentences_of(self.model, [prefix])
        before = sentences_of(self.model, context)
        options: dict[str, Any] = {"words": words, "top_k": top_k, "seed": seed, "sync": sync}
        return draw_text(self.ops, self.model, prefix_words, context=before, **options)

    def translate(self, batch: Batch, **search: Any) -> list[Translation]:
        """Return what an encoder-decoder writes for every sentence.

        Options are those of `grove translate`: `beam`, `length_penalty`, `extra_length`, `batch_size`.
        """
        return translations(self.ops, self.model, sentences_of(self.model, batch), **search)

    def embed(self, batch: Batch, *, batch_size: int = 64) -> list[Embedding]:
        """Return the inside vectors of all words and constituents of every sentence, of a GPST."""
        require(self.model, GPST_TREES)
        words = sentences_of(self.model, batch)
        check_each(words, lambda sentence: encode_words(self.model, sentence))
        return list(embeddings(self.ops, self.model, words, batch_size=batch_size))

    def _reading(self, reading: Reading | None) -> Reading:
        return reading or self.model.reading or Reading()

    def _readable(self, batch: Batch, parser: Model | None = None) -> list[list[str]]:
        """Return the words of every sentence, each of which has surprisals."""
        surprisals.check_surprisals(self.model)
        words = sentences_of(self.model, batch)
        check_each(words, lambda sentence: surprisals.check_words(self.model, sentence, parser))
        return words

    def _ensemble(self, others: Sequence[TrainedModel], ensemble: str) -> list[Model]:
        models = [self.model, *(other.model for other in others)]
        for model in models:
            require(model, TREE_LOGPS)
        check_ensemble(models, ensemble)
        return models
