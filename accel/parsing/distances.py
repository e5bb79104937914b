"""The trees that a language model induces: constituents are split where its distances are greatest (FastTrees, 5.1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType

import numpy as np

from accel.autodiff.arrays import Array, host, offsets_of
from accel.data.batches.text import EOS
from accel.data.corpora.constituents import tree_of
from accel.models.fasttrees.stack import reads_neighbours
from accel.trained.kinds import DISTANCES, require
from accel.trained.opening import Model
from accel.trained.options import OptionError
from accel.trained.words import encode_words, joined
from refimpl.trees import Tree

SPLITS = ("biased", "unbiased")
LABEL = "X"  # of every induced constituent


def distances(
    ops: ModuleType, model: Model, sentences: Sequence[Sequence[str]], *, batch_size: int = 64
) -> Iterator[tuple[Array, Array]]:
    """Yield for every batch of sentences the distances [layers, N] of their N words, and where each sentence begins.

    Every sentence is read from a state of zeros; a model that reads the neighbours in a batch gets one at a time. A
    model whose vocabulary has ``<eos>`` reads one ``<eos>`` before and one after the sentence; their distances are left
    out. A word outside the vocabulary is read as ``<unk>``, if the vocabulary has it.

    Raises
    ------
    ValueError
        If a sentence is empty, or a word is outside a vocabulary without ``<unk>``; if the model has no distances.
    """
    require(model, DISTANCES)
    batch_size = 1 if reads_neighbours(model.config) else batch_size
    xp, frame = ops.xp, [model.vocabulary.ids[EOS]] if EOS in model.vocabulary.ids else []
    for start in range(0, len(sentences), batch_size):
        chunk = sentences[start : start + batch_size]
        lengths = np.array([len(sentence) for sentence in chunk])
        if not lengths.all():
            raise ValueError(f"sentence {start + 1 + int(lengths.argmin())}: empty")
        ids = [[*frame, *joined(encode_words(model, sentence)), *frame] for sentence in chunk]
        offsets = offsets_of(map(len, ids))
        is_word = np.ones(offsets[-1], bool)
        if frame:
            is_word[offsets[:-1]] = is_word[offsets[1:] - 1] = False
        tokens = xp.asarray(np.concatenate(ids).astype(np.int32))
        rows = model.module.distances(ops, model.config, model.parameters, tokens, xp.asarray(offsets))
        yield xp.ascontiguousarray(rows[:, xp.asarray(is_word)]), xp.asarray(offsets_of(lengths))


def induced_spans(
    ops: ModuleType,
    model: Model,
    sentences: Sequence[Sequence[str]],
    *,
    layer: int | None = None,
    split: str = "biased",
    batch_size: int = 64,
) -> Iterator[list[tuple[int, int]]]:
    """Yield for every sentence the spans of its constituents of two words or more, in the order in which they open.

    Spec: FT-8, by the distances of one layer.

    Parameters
    ----------
    layer : int
        From 1; None: the second, or the last if there is no second one.
    split : "biased" or "unbiased"
        A constituent is split around the word with the greatest distance, or before it.

    Raises
    ------
    OptionError
        If the model has no such layer.
    ValueError
        As `distances` does.
    """
    for layers, offsets in distances(ops, model, sentences, batch_size=batch_size):
        layer_number = layer_of(len(layers), layer, str(model.path))
        spans, begins = (host(x) for x in ops.distance_trees(layers[layer_number - 1], offsets, split=split))
        for begin, end in zip(begins[:-1].tolist(), begins[1:].tolist(), strict=True):
            yield [(i, j) for i, j in spans[begin:end].tolist()]


def layer_of(count: int, layer: int | None, name: str) -> int:
    """Return which of `count` layers, from 1, gives the distances: `layer`, or by default the second or the only one.

    Examples
    --------
    >>> layer_of(3, None, "a run"), layer_of(1, None, "a run"), layer_of(3, 3, "a run")
    (2, 1, 3)

    Raises
    ------
    OptionError
        If the model, which the message calls `name`, has no such layer.
    """
    if layer is None:
        return min(2, count)
    if not 1 <= layer <= count:
        raise OptionError("layer", f"{name} has layers 1 to {count}", layer)
    return layer


def induced_tree(
    spans: Sequence[tuple[int, int]], words: Sequence[str], labels: Mapping[tuple[int, int], str] | None = None
) -> Tree:
    """Return the tree with these constituents of two words or more; a sentence of one word is one constituent.

    Without labels every constituent has the label LABEL. Brackets within words become -LRB- and -RRB-, as in the Penn
    Treebank.

    Examples
    --------
    >>> induced_tree([(0, 2), (1, 2)], ["she", "sees", "him"]), induced_tree([], ["she"])
    (Tree('(X she (X sees him))'), Tree('(X she)'))
    """
    constituents = [(LABEL if labels is None else labels[i, j], i, j) for i, j in spans]
    return tree_of(constituents or [(LABEL, 0, 0)], words)
