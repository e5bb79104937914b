"""The abilities of every kind of model: one table, and the error for an ability that a model lacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from accel.models.albert.config import KINDS as ALBERTS
from accel.models.fasttrees.stack import KINDS as NETWORKS
from accel.trained.opening import Model

TREE_LOGPS = "log-probabilities of trees"
TEXT_LOGPS = "log-probabilities of text"
SURPRISALS = "surprisals of words"
TEXTS = "texts"
SEARCHES = "searches from word to word"
CONTEXTS = "contexts of several sentences"
LABELLED_TREES = "labelled trees"
PROPOSALS = "proposal trees"
SPANS = "trees without labels"
DISTANCES = "distances"
FULL_CHARTS = "full charts"
GPST_TREES = "trees of GPST"
ATTENTION = "attention between actions"
TRANSLATIONS = "translations"

CHARTS = {"none": "encoder_decoder", "paper": "treeformer", "released": "treeformer_released"}
"""The kind of an encoder-decoder, by its chart."""


def _abilities() -> dict[str, frozenset[str]]:
    of_trees = {TREE_LOGPS, ATTENTION, SURPRISALS, TEXTS}
    of_contexts = {SURPRISALS, SEARCHES, CONTEXTS, TEXTS}
    table = {
        "tg": of_trees | {LABELLED_TREES, SEARCHES},
        "txl_cc": of_trees | {LABELLED_TREES, SEARCHES},
        "txl_terminals": of_trees,
        "span_parser": {PROPOSALS},
        "gpst": of_contexts | {SPANS, GPST_TREES},
        "gpt2": of_contexts - {SEARCHES},
    }
    for network in NETWORKS:
        induced = set() if network == "lstm" else {SPANS, DISTANCES}
        table |= {network: induced | {TEXT_LOGPS, SURPRISALS}, f"{network} classifier": induced}
    for chart, kind in CHARTS.items():
        induced = set() if chart == "none" else {SPANS, FULL_CHARTS}
        table |= {kind: induced | {TRANSLATIONS}, f"{kind} classifier": induced}
    table |= dict.fromkeys((*ALBERTS, *(f"{kind} classifier" for kind in ALBERTS)), set())
    return {kind: frozenset(abilities) for kind, abilities in table.items()}


_ALBERT = {chart: kind for kind, chart in ALBERTS.items()}
ABILITIES = _abilities()
"""The abilities of every kind of model."""

_KIND_OF: dict[str, Callable[[Any], str]] = {
    "transformer_grammar": lambda config: str(config.model),
    "span_parser": lambda config: "span_parser",
    "gpst": lambda config: str(config.model),
    "language_model": lambda config: str(config.kind),
    "sentence_classifier": lambda config: f"{config.kind} classifier",
    "albert": lambda config: _ALBERT[config.chart] + (" classifier" if config.n_classes else ""),
    "encoder_decoder": lambda config: CHARTS[config.chart] + (" classifier" if config.n_classes else ""),
}


def kind_of(model: Model) -> str:
    """Return the kind of a model, a key of ABILITIES."""
    return _KIND_OF[model.module.NAME](model.config)


def network_of(model: Model) -> str:
    """Return the kind of a model as options name it; a classifier has the name of its network."""
    return kind_of(model).removesuffix(" classifier")


def can(model: Model, ability: str) -> bool:
    """Return whether a model has that ability."""
    return ability in ABILITIES[kind_of(model)]


def able(ability: str) -> list[str]:
    """Return the kinds of models that have that ability."""
    return [kind for kind, abilities in ABILITIES.items() if ability in abilities]


def with_article(kind: str) -> str:
    """Return the name of a kind of model after its article.

    >>> with_article("encoder_decoder"), with_article("lstm classifier"), with_article("fasttrees")
    ('an encoder_decoder', 'an lstm classifier', 'a fasttrees')
    """
    return f"{'an' if kind[0] in 'aeio' or kind.startswith('lstm') else 'a'} {kind}"


def require(model: Model, ability: str) -> None:
    """Raise ValueError if a model does not have that ability."""
    if not can(model, ability):
        kind = kind_of(model)
        use = "; use grove surprisal, or grove evaluate RUN --data FILE" if kind in ("gpst", "gpt2") else ""
        raise ValueError(
            f"{model.path}: holds {with_article(kind)}, which gives no {ability}; models that do: "
            f"{', '.join(able(ability))}{use if ability == TEXT_LOGPS else ''}"
        )
