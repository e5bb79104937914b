"""Sentences and gold constituents of the Penn Treebank for the evaluation of induced trees (Htut et al., 2018).

Words are those under one of 36 tags, which leaves out punctuation, currency signs, brackets and traces. They are in
lower case, and every run of digits becomes N (so 12.5 is N.N, as in the released code; the usual text of language
models has N). Constituents without such words are removed. Chains of constituents over the same words remain, for the
recall of labels; they do not change F1, which counts equal spans once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from accel.data.corpora.treebank import read_sentences, tags
from accel.data.files.brackets import cut_label, without_preterminals
from accel.data.files.lines import LineError
from refimpl.trees import Tree, spans, words

WORD_TAGS = frozenset(
    "CC CD DT EX FW IN JJ JJR JJS LS MD NN NNS NNP NNPS PDT POS PRP PRP$ RB RBR RBS RP SYM TO UH VB VBD VBG VBN VBP VBZ"
    " WDT WP WP$ WRB".split()
)
CONVENTIONS = ("wsj", "wsj10", "kim", "plain")
SHORT = 10  # the most words of a sentence of WSJ10


class GoldSentence(NamedTuple):
    """The words, and (label, i, j) of every constituent: its label cut at -, = or #, words i to j inclusive.

    `line` is where its tree starts in its file, from 1.
    """

    words: list[str]
    constituents: list[tuple[str, int, int]]
    line: int = 0


def filtered(tree: Tree, *, digits: bool = False) -> GoldSentence | None:
    """Return the words and constituents of a tree with tags; None if a word has no tag. `digits` keeps digits.

    Examples
    --------
    >>> subject, cost = Tree("NP-SBJ", (Tree("DT", ("The",)), Tree("NN", ("cost",)))), Tree("CD", ("12.5",))
    >>> filtered(Tree("S", (subject, Tree("VP", (Tree("VBZ", ("is",)), Tree("$", ("$",)), cost)), Tree(".", (".",)))))
    GoldSentence(words=['the', 'cost', 'is', 'N.N'], constituents=[('S', 0, 3), ('NP', 0, 1), ('VP', 2, 3)], line=0)
    """
    word_tags = tags(tree)
    if word_tags is None:
        return None
    is_kept = [tag in WORD_TAGS for tag in word_tags]
    n_kept_before = [0, *accumulate(map(int, is_kept))]
    lowered = [word.lower() for word, keep in zip(words(tree), is_kept, strict=True) if keep]
    return GoldSentence(
        lowered if digits else [re.sub("[0-9]+", "N", word) for word in lowered],
        [
            (cut_label(label), n_kept_before[i], n_kept_before[j + 1] - 1)
            for label, i, j in spans(without_preterminals(tree))
            if n_kept_before[i] < n_kept_before[j + 1]
        ],
    )


def read_gold(path: str | Path, convention: str = "wsj") -> Iterator[GoldSentence]:
    """Yield the sentences of a treebank, without those that lose all words.

    Parameters
    ----------
    path : str or Path
        Trees in brackets, plain, .xz or .gz.
    convention : "wsj", "wsj10", "kim" or "plain"
        "wsj": all sentences; "wsj10": those of at most ten words after filtering; "kim": all, with their digits (the
        data of Kim et al. 2019, which GPST reads); "plain": all words of trees without tags, unchanged.

    Raises
    ------
    LineError
        As `accel.data.corpora.treebank.read_sentences` does; at the line of a tree that lacks tags; if no sentence
        is left.
    """
    if convention not in CONVENTIONS:
        raise ValueError(f"unknown convention {convention!r}: choose one of {', '.join(CONVENTIONS)}")
    empty = True
    for tree, line, *_ in read_sentences(path):
        if convention == "plain":
            gold = GoldSentence(words(tree), [(cut_label(label), i, j) for label, i, j in spans(tree)])
        else:
            gold = filtered(tree, digits=convention == "kim")
        if gold is None:
            raise LineError(path, line, "not every word has a part-of-speech tag (the convention plain needs none)")
        if gold.words and (convention != "wsj10" or len(gold.words) <= SHORT):
            empty = False
            yield gold._replace(line=line)
    if empty:
        raise LineError(path, 0, f"the convention {convention} leaves no sentence of this file")
