"""The trees that a trained model finds, whatever its kind: what it reads of a sentence, and which spans it finds there.

A language model has distances, a Treeformer charts, a GPST a chart, a parser and a search.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

from accel.models.encoder_decoder import model as encoder_decoder
from accel.models.gpst import model as gpst
from accel.parsing.charts import chart_spans, encode_words, require_chart, spans_of_words
from accel.parsing.distances import induced_spans, require_distances
from accel.parsing.gpst import pieces_of, require_trees, spans_of
from accel.trained.opening import Model

Spans = list[tuple[int, int]]

CHARTS_OF = {"paper": "treeformer", "released": "treeformer_released"}
DISTANCES, CHARTS, TREES = "distances", "full charts", "GPST's trees"
OPTIONS = {"layer": DISTANCES, "split": DISTANCES, "max_height": CHARTS, "mode": TREES, "beam": TREES, "sync": TREES}
"""What those options are for that only some models have a use for."""


def kind_of(model: Model) -> str:
    """Return what a model is called by the commands that parse."""
    if model.module is encoder_decoder:
        return CHARTS_OF.get(model.config.chart, "encoder_decoder")
    return str(getattr(model.config, "kind", model.module.NAME))


def source_of(model: Model) -> str:
    """Return what the trees of a model are made of: DISTANCES, CHARTS or TREES.

    Raises
    ------
    ValueError
        If it has none of them.
    """
    for module, source, require in ((encoder_decoder, CHARTS, require_chart), (gpst, TREES, require_trees)):
        if model.module is module:
            require(model)
            return source
    require_distances(model)
    return DISTANCES


def read_words(model: Model, words: Sequence[str], *, mode: str = "inside", max_height: int | None = None) -> Any:
    """Return what `find_spans` takes of a sentence: the words, where distances are found, or the ids of every word.

    Raises
    ------
    ValueError
        If the model cannot read it, so, from a chart of such a height: no words, an unknown one, or too many.
    """
    source = source_of(model)
    if source == CHARTS:
        return encode_words(model, words, max_height)
    if source == TREES:
        return pieces_of(model, words) if mode == "left-to-right" else encode_words(model, words)
    encode_words(model, words)
    return words


def find_spans(ops: ModuleType, model: Model, sentences: Sequence[Any], **chosen: Any) -> Iterator[Spans]:
    """Yield for every sentence, as `read_words` gives it, the spans of its constituents of two words or more.

    Parameters
    ----------
    chosen
        Options of `induced_spans`, `chart_spans` or `accel.parsing.gpst.spans_of`, as OPTIONS names them; `batch_size`.
    """
    source = source_of(model)
    if source == DISTANCES:
        return induced_spans(ops, model, sentences, **chosen)
    if source == TREES:
        return spans_of(ops, model, sentences, **chosen)
    tokens = [[i for ids in words for i in ids] for words in sentences]
    found = chart_spans(ops, model, tokens, **chosen)
    return (spans_of_words(spans, words) for spans, words in zip(found, sentences, strict=True))
