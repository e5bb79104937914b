"""The Stanford Sentiment Treebank (Socher et al., 2013): sentences and phrases, and how positive they are.

A file has one binary tree a line, each node with one of five labels, ``(3 (2 It) (4 (3 works) (2 well)))``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from accel.data.batches.sentences import Example
from accel.data.corpora.treebank import read_sentences
from accel.data.files.lines import LineError
from refimpl.trees import spans, words

FINE = ("very negative", "negative", "neutral", "positive", "very positive")
BINARY = ("negative", "positive")
_NAMES: dict[tuple[str, ...], dict[str, str | None]] = {
    FINE: {str(number): name for number, name in enumerate(FINE)},
    BINARY: {"0": "negative", "1": "negative", "2": None, "3": "positive", "4": "positive"},
}


def read_sentiment(path: str | Path, classes: tuple[str, ...] = BINARY, *, phrases: bool = False) -> Iterator[Example]:
    """Yield the sentences of a file with the class at the root of each.

    Parameters
    ----------
    classes : FINE or BINARY
        With BINARY (SST-2) neutral sentences and phrases are left out.
    phrases : bool
        Yield every constituent and word as well, each once, with the class of its first occurrence. The published
        training trees give 77,616 examples with BINARY, the usual training set of SST-2.

    Raises
    ------
    LineError
        At the faulty line: a label other than 0 to 4; an ill-formed tree; as `read_sentences` does.
    """
    if classes not in _NAMES:
        raise ValueError(f"classes must be FINE or BINARY, not {classes}")
    names = _NAMES[classes]
    phrases_read: set[tuple[str, ...]] = set()
    for tree, line, *_ in read_sentences(path):
        sentence = words(tree)
        for label, i, j in spans(tree) if phrases else [(tree.label, 0, len(sentence) - 1)]:
            if label not in names:
                raise LineError(path, line, f"unknown label {label!r}: it must be one of {' '.join(names)}")
            phrase, name = sentence[i : j + 1], names[label]
            if phrases:
                if tuple(phrase) in phrases_read:
                    continue
                phrases_read.add(tuple(phrase))
            if name is not None:
                yield Example(name, (phrase,), line)
