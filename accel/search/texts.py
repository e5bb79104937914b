"""Texts that a model writes: words drawn by top-k sampling of parses and words together, after a prefix.

A GPT-2 and a TXL (terminals) have no parses: each word is drawn from the k most probable words. The text of a TG or a
TXL (CC) ends with its tree at the latest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import ModuleType

from accel.data.vocabularies.vocabulary import END_ID, OF_PIECES, VocabularyError
from accel.search.pools import Limits
from accel.search.word_level import sample
from accel.trained.kinds import CONTEXTS, GPST_TREES, LABELLED_TREES, TEXTS, can, kind_of, require, with_article
from accel.trained.opening import Model
from accel.trained.options import OptionError, check_number
from accel.trained.words import as_in_trees
from refimpl.trees import ActionType


@dataclass(frozen=True)
class Text:
    """The words of a text: those of its prefix as they were given, then those drawn, as the vocabulary spells them.

    The first piece that a GPST or a GPT-2 draws may continue the last word of the prefix. The vocabulary spells the
    prefix, too, then.

    Attributes
    ----------
    words : tuple of str
    full : int or None
        The number of tokens in a context, if the context was full before all words were drawn; else None.
    """

    words: tuple[str, ...]
    full: int | None = None

    def __str__(self) -> str:
        return " ".join(self.words)


def draw_text(
    ops: ModuleType,
    model: Model,
    prefix: Sequence[str] = (),
    *,
    context: Sequence[Sequence[str]] = (),
    words: int = 50,
    top_k: int = 2,
    seed: int = 0,
    sync: bool = True,
) -> Text:
    """Return the words of `prefix`, and at most `words` words drawn after them.

    Spec: WS-4, WS-7. For a GPST or a GPT-2, `context` are whole sentences before the prefix. There are fewer words if
    the text ends earlier, or if the context of the model is full. Without `sync` every action is drawn by itself, among
    the `top_k` best of all actions.

    Raises
    ------
    ValueError
        If the model writes no texts, and as `accel.search.word_level.sample`.
    OptionError
        If an option is too small, or not for this model; if the model cannot read the prefix or the context.
    """
    require(model, TEXTS)
    for name, value, least in (("words", words, 1), ("top_k", top_k, 1), ("seed", seed, 0)):
        check_number(name, value, least)
    seed = int(seed)  # a number of NumPy would overflow in `mix`
    if not sync and not (can(model, GPST_TREES) or can(model, LABELLED_TREES)):
        kind = with_article(kind_of(model))
        raise OptionError("sync", f"is for actions between words, and {model.path} holds {kind}: leave it out")
    tokens = _encoded(model, "prefix", prefix)
    if not can(model, CONTEXTS):
        if context:
            raise OptionError("context", f"{model.path} reads every sentence by itself")
        texts = sample(ops, model, Limits(top_k), seed=seed, prefix=tokens, sync=sync)
        return _begun(model, prefix, tokens, _first_words(model, texts, tokens, words))
    before = [_encoded(model, "context", sentence, number) for number, sentence in enumerate(context, 1)]
    n_before, room = sum(map(len, before)), model.config.n_positions - 1
    left = room - n_before - len(tokens)
    place = f"{len(tokens)} tokens" + (f" after {n_before} of the context" if before else "")
    if left < 1:
        raise OptionError("prefix", f"{place} leave no room for a word: a context of the model has {room}")
    if words > left:
        raise OptionError("words", f"after a prefix of {place} at most {left} fit into a context of the model", words)
    limits = Limits(top_k, one_pool=True)
    texts = sample(ops, model, limits, seed=seed, prefix=tokens, end=END_ID, context=before, sync=sync)
    return _begun(model, prefix, tokens, _first_words(model, texts, tokens, words, room - n_before))


def _begun(model: Model, prefix: Sequence[str], tokens: Sequence[int], text: Text) -> Text:
    """Return the text with the words of its prefix, which are these tokens, as they were given."""
    spelled = tuple(model.vocabulary.decode(tokens))
    if text.words[: len(spelled)] != spelled:  # the first piece continues the last word
        return text
    return replace(text, words=(*prefix, *text.words[len(spelled) :]))


def _first_words(
    model: Model, texts: Iterator[tuple[int, ...]], prefix: Sequence[int], count: int, room: int | None = None
) -> Text:
    """Return the text once it has `count` words after the tokens of its prefix, ends, or has `room` tokens."""
    vocabulary, decoded = model.vocabulary, model.vocabulary.decode(prefix)
    n_words = len(decoded) + count
    full = None
    for actions in texts:
        tokens = [i for i in actions if i >= 0 and vocabulary.type_of[i] == ActionType.T]
        decoded = vocabulary.decode(i for i in tokens if i != END_ID)
        if len(decoded) >= n_words + (vocabulary.kind in OF_PIECES):  # pieces: a word ends when the next one begins
            break
        if len(tokens) == room:
            full = model.config.n_positions - 1 if len(decoded) < n_words else None
            break
    return Text(tuple(decoded[:n_words]), full)


def _encoded(model: Model, name: str, words: Sequence[str], number: int = 0) -> list[int]:
    """Return the ids of the words of an option; of a context, those of the sentence with this number, from 1."""
    place = f"sentence {number}: " if number else ""
    try:
        ids: list[int] = model.vocabulary.encode_words(as_in_trees(model, words))
    except VocabularyError as error:
        raise OptionError(name, f"{place}{error}") from error
    if number and not ids:
        raise OptionError(name, f"{place}an empty sentence: leave it out")
    return ids
