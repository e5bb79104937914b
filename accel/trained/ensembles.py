"""Which models make an ensemble: those of one vocabulary with the same events, actions of trees or words."""

from __future__ import annotations

from collections.abc import Sequence

from accel.trained.kinds import kind_of, with_article
from accel.trained.opening import Model

ENSEMBLES = ("mixture", "product")


def check_ensemble(models: Sequence[Model], ensemble: str = "mixture") -> None:
    """Raise ValueError unless the models have the same vocabulary and the same events."""
    if ensemble not in ENSEMBLES:
        raise ValueError(f"unknown ensemble {ensemble!r}: choose one of {', '.join(ENSEMBLES)}")
    if not models:
        raise ValueError("an ensemble needs at least one model")
    first = models[0]
    for model in models[1:]:
        if of_words(model) != of_words(first):
            kinds = f"{with_article(kind_of(model))} and {with_article(kind_of(first))}"
            raise ValueError(f"{model.path}: {kinds} make no ensemble: give models of one kind")
        if model.vocabulary != first.vocabulary:
            raise ValueError(f"{model.path}: its vocabulary differs from that of {first.path}: train them with one")


def of_words(model: Model) -> bool:
    """Return whether the events are words, not the actions of a tree."""
    return kind_of(model) == "txl_terminals"
