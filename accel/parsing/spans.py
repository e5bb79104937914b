"""Trees without labels, of every kind of model that gives them: which spans it has over the words of a sentence.

A language model has distances, a Treeformer charts, a GPST a chart, a parser and a search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from accel.parsing.charts import chart_spans, spans_of_words
from accel.parsing.distances import induced_spans
from accel.parsing.gpst import spans_of
from accel.trained.kinds import DISTANCES, FULL_CHARTS, GPST_TREES, SPANS, able, kind_of, require
from accel.trained.opening import Model
from accel.trained.words import encode_words, joined

Spans = list[tuple[int, int]]

OPTIONS = {
    "layer": DISTANCES, "split": DISTANCES, "max_height": FULL_CHARTS,
    "mode": GPST_TREES, "beam": GPST_TREES, "sync": GPST_TREES,
}  # fmt: skip
"""What those options are for that only some models have a use for."""


def reading_of(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of `encode_words` with which a model reads a sentence whose spans are chosen so."""
    return {"generated": chosen.get("mode") == "left-to-right", "max_height": chosen.get("max_height")}


def find_spans(ops: ModuleType, model: Model, sentences: Sequence[Sequence[str]], **chosen: Any) -> Iterator[Spans]:
    """Yield for every sentence the spans of its constituents of two words or more, in the order in which they open.

    Parameters
    ----------
    chosen
        Options of `induced_spans`, `chart_spans` or `accel.parsing.gpst.spans_of`, as OPTIONS names them; `batch_size`.

    Raises
    ------
    ValueError
        If the model gives no such trees; as `encode_words`.
    """
    require(model, SPANS)
    return SPANS_OF[kind_of(model)](ops, model, sentences, **chosen)


def _of_charts(ops: ModuleType, model: Model, sentences: Sequence[Sequence[str]], **chosen: Any) -> Iterator[Spans]:
    encoded = [encode_words(model, words, **reading_of(chosen)) for words in sentences]
    of_tokens = chart_spans(ops, model, [joined(pieces) for pieces in encoded], **chosen)
    return (spans_of_words(spans, pieces) for spans, pieces in zip(of_tokens, encoded, strict=True))


def _of_gpst(ops: ModuleType, model: Model, sentences: Sequence[Sequence[str]], **chosen: Any) -> Iterator[Spans]:
    encoded = [encode_words(model, words, **reading_of(chosen)) for words in sentences]
    return spans_of(ops, model, encoded, **chosen)


SPANS_OF: dict[str, Callable[..., Iterator[Spans]]] = {
    **dict.fromkeys(able(DISTANCES), induced_spans),
    **dict.fromkeys(able(FULL_CHARTS), _of_charts),
    **dict.fromkeys(able(GPST_TREES), _of_gpst),
}
"""For every kind of model with such trees what yields their spans."""
