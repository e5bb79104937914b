"""Trees without labels: the spans that a model finds over the words of a sentence.

The spans of a language model come from its distances, those of a Treeformer from its charts, and those of a GPST from
its chart, its parser or a search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from types import ModuleType
from typing import Any

from accel.parsing.charts import chart_spans, spans_of_words
from accel.parsing.distances import induced_spans
from accel.parsing.gpst import MODES, spans_of
from accel.search.options import OF_TREES
from accel.trained.kinds import DISTANCES, FULL_CHARTS, GPST_TREES, SPANS, able, can, kind_of, require, with_article
from accel.trained.opening import Model
from accel.trained.options import OptionError, check_number
from accel.trained.processes import results
from accel.trained.words import check_each, encode_words, joined

Spans = list[tuple[int, int]]
BATCH = 64
"""How many sentences are parsed side by side by default."""

OPTIONS = {
    "layer": DISTANCES, "split": DISTANCES, "max_height": FULL_CHARTS,
    "mode": GPST_TREES, "beam": GPST_TREES, "sync": GPST_TREES,
}  # fmt: skip
"""For each option that only some models have: the ability that it needs."""


def check_options(model: Model, options: Mapping[str, Any]) -> None:
    """Raise OptionError for an option of `find_spans` that this model does not take, or the other options exclude."""
    require(model, SPANS)
    for name in options:
        if name in OF_TREES:
            raise OptionError(name, f"is for a TG or a TXL (CC), and {model.path} is neither")
        if name not in OPTIONS:
            raise OptionError(name, f"is no option of trees without labels: these are {', '.join(OPTIONS)}")
        if not can(model, OPTIONS[name]):
            kind = with_article(kind_of(model))
            raise OptionError(name, f"is for {OPTIONS[name]}, and {model.path} holds {kind}: leave it out")
        mode = options.get("mode") or MODES[0]
        if name in ("beam", "sync") and mode != "left-to-right":
            reason = f"is for the mode left-to-right, not for the mode {mode} of {model.path}"
            raise OptionError(name, f"{reason}: leave it out, or set the mode")
        if name in ("layer", "max_height") and options[name] is not None:
            check_number(name, options[name])


def reading_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of `encode_words` that belong to these options of `find_spans`."""
    return {"generated": options.get("mode") == "left-to-right", "max_height": options.get("max_height")}


def find_spans(
    ops: ModuleType, model: Model, sentences: Sequence[Sequence[str]], *, processes: int = 1, **options: Any
) -> Iterator[Spans]:
    """Yield for every sentence the spans of its constituents of two words or more, in the order in which they open.

    Parameters
    ----------
    options
        Options of `induced_spans`, `chart_spans` or `accel.parsing.gpst.spans_of`, as OPTIONS names them; `batch_size`.
    processes : int
        How many processes parse, with one thread each and one batch at a time; this changes no result.

    Raises
    ------
    ValueError
        If the model gives no such trees; with the number of the sentence, as `encode_words`.
    """
    require(model, SPANS)
    check_each(map(list, sentences), partial(encode_words, model, **reading_of(options)))
    spans_of_kind = SPANS_OF[kind_of(model)]
    if options.get("mode") == "left-to-right":  # this mode sorts sentences before it makes batches
        return spans_of_kind(ops, model, sentences, processes=processes, **options)
    if processes == 1:
        return spans_of_kind(ops, model, sentences, **options)
    size = options["batch_size"] = options.get("batch_size") or BATCH
    batches = (sentences[start : start + size] for start in range(0, len(sentences), size))

    def of_batch(batch: Sequence[Sequence[str]]) -> list[Spans]:
        return list(spans_of_kind(ops, model, batch, **options))

    return chain.from_iterable(results(of_batch, batches, ops, processes))


def _chart_word_spans(
    ops: ModuleType, model: Model, sentences: Sequence[Sequence[str]], **options: Any
) -> Iterator[Spans]:
    encoded = [encode_words(model, words, **reading_of(options)) for words in sentences]
    token_spans = chart_spans(ops, model, [joined(pieces) for pieces in encoded], **options)
    return (spans_of_words(spans, pieces) for spans, pieces in zip(token_spans, encoded, strict=True))


def _gpst_spans(ops: ModuleType, model: Model, sentences: Sequence[Sequence[str]], **options: Any) -> Iterator[Spans]:
    encoded = [encode_words(model, words, **reading_of(options)) for words in sentences]
    return spans_of(ops, model, encoded, **options)


SPANS_OF: dict[str, Callable[..., Iterator[Spans]]] = {
    **dict.fromkeys(able(DISTANCES), induced_spans),
    **dict.fromkeys(able(FULL_CHARTS), _chart_word_spans),
    **dict.fromkeys(able(GPST_TREES), _gpst_spans),
}
"""For every kind of model with trees without labels: the function that yields the spans of the trees."""
