"""Treebank files, read as a stream, and the corpora of action ids that they become, encoded once and memory-mapped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from accel.autodiff.arrays import offsets_of
from accel.data.files.brackets import Brackets, Read, is_preterminal, without_preterminals
from accel.data.files.encoded import Growing, load_encoded
from accel.data.files.lines import LineError, errors_at, place, read_lines
from accel.data.files.progress import progress
from accel.data.vocabularies.vocabulary import Vocabulary
from refimpl.trees import ActionType, Tree, TreeError, words

DOCUMENT = "DOC"
NONE_TAGGED = "no tree is left: each has a word without a part-of-speech tag; use --keep-tags"
UNTAGGED = (
    "not every word has a part-of-speech tag to drop: leave such trees of a treebank out (--leave-out-untagged), "
    "or take all trees as they are (--keep-tags)"
)
_FORMAT = 1  # of the encoded files; part of their hash
_DTYPES = {"actions": np.int32, "offsets": np.int64, "terminals": np.int32, "words": np.int32}


@dataclass(frozen=True)
class Reading:
    """How a treebank file is read.

    Attributes
    ----------
    drop_traces, drop_function_tags, drop_preterminals : bool
        As in `accel.data.files.brackets.read_trees`. Part-of-speech tags (pre-terminals) are dropped only if every
        word has its own: without tags ``(VP sings)`` looks like a tag, and dropping it would lose a constituent.
    leave_out_untagged : bool
        Whether a tree in which a tag holds several words, or a word has no tag, is left out where tags are dropped;
        otherwise it is an error.
    documents : "none", "blank" or "column"
        "none": one tree per sentence. "blank": one tree ``(DOC ...)`` of the sentences between blank lines. "column":
        one tree ``(DOC ...)`` of the sentences whose line begins with the same name and a tab.
    """

    drop_traces: bool = False
    drop_function_tags: bool = False
    drop_preterminals: bool = False
    documents: str = "none"
    leave_out_untagged: bool = False

    def __post_init__(self) -> None:
        if self.documents not in ("none", "blank", "column"):
            raise ValueError(f'documents must be "none", "blank" or "column", not {self.documents!r}')


class Sentence(NamedTuple):
    """A tree, the line where it starts, and the number of its document, with its name if documents have names.

    A tree ``(DOC ...)`` has the `lines` of its sentences, too, if they are those of a file.
    """

    tree: Tree
    line: int
    document: int
    name: str = ""
    lines: tuple[int, ...] = ()


@dataclass(frozen=True)
class Corpus:
    """Encoded trees: `actions` [A] int32 ids without start symbols, `offsets` [n+1] int64 where each tree begins,
    and how many `terminals` and `words` [n] int32 it has (they differ when words are cut into pieces)."""

    actions: np.ndarray
    offsets: np.ndarray
    terminals: np.ndarray
    words: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, tree: int) -> np.ndarray:
        return self.actions[self.offsets[tree] : self.offsets[tree + 1]]


def read_sentences(
    path: str | Path,
    reading: Reading = Reading(),  # noqa: B008 (frozen)
    left_out: list[int] | None = None,
    *,
    quiet: bool = False,
    lines: Iterable[tuple[int, str]] | None = None,
) -> Iterator[Sentence]:
    """Yield the trees of a file, plain, .xz or .gz, one at a time; the lines of those left out go into `left_out`.

    The progress is shown, unless `quiet`. `lines`, if given, are read instead of the file.

    Raises
    ------
    LineError
        At the faulty line and column: an ill-formed tree, a byte that is not UTF-8, a line without its document's name,
        a broken archive, a file without trees, a tree without tags where tags are to be dropped.
    """
    empty, lines = True, read_lines(path) if lines is None else lines
    try:
        for entry, document, name in progress(
            _read_trees(path, reading, lines), label=f"reading {place(path)}", quiet=quiet
        ):
            empty = False
            if entry.is_tagged or not reading.drop_preterminals:
                yield Sentence(entry.tree, entry.line, document, name)
            elif not reading.leave_out_untagged:
                raise LineError(path, entry.line, UNTAGGED)
            elif left_out is not None:
                left_out.append(entry.line)
    except TreeError as error:
        raise LineError(path, error.line, error.reason, error.column) from error
    if empty:
        raise LineError(path, 0, "no trees in this file: give trees in brackets")


def _read_trees(
    path: str | Path, reading: Reading, lines: Iterable[tuple[int, str]]
) -> Iterator[tuple[Read, int, str]]:
    """Yield every tree with the number and the name of its document."""
    brackets = Brackets(reading.drop_traces, reading.drop_function_tags, reading.drop_preterminals)
    number, name, is_new = -1, "", True
    for line, text in lines:
        if not brackets.is_open:
            if not text.strip(" \t\r\f\v"):
                is_new = is_new or reading.documents != "none"
                continue
            if reading.documents == "column":
                line_name, tab, tree_text = text.partition("\t")
                if not tab:
                    reason = "no name of a document, or number of a sentence, and tab before the tree: write one"
                    raise LineError(path, line, reason, 1)
                is_new = is_new or line_name != name
                name, text = line_name, " " * len(line_name) + tab + tree_text
            number += is_new
            is_new = False
        for entry in brackets.read(line, text):
            yield entry, number, name
            number += reading.documents == "none"
    brackets.end()


def without_tags(path: str | Path, sentence: Sentence, reading: Reading) -> Sentence | None:
    """Return the sentence without its part-of-speech tags, if they are to be dropped; None if it is left out.

    Raises
    ------
    LineError
        If tags are to be dropped and not every word has its own, unless such trees are left out.
    """
    if not reading.drop_preterminals:
        return sentence
    if tags(sentence.tree) is not None:
        return sentence._replace(tree=without_preterminals(sentence.tree))
    if reading.leave_out_untagged:
        return None
    raise LineError(path, sentence.line, UNTAGGED)


def tags(tree: Tree) -> list[str] | None:
    """Return the part-of-speech tag of every word; None if a word is not alone in its bracket.

    Examples
    --------
    >>> tags(Tree("S", (Tree("DT", ("the",)), Tree("NN", ("bird",)))))
    ['DT', 'NN']
    """
    labels = []
    agenda: list[Tree] = [tree]
    while agenda:
        node = agenda.pop()
        if is_preterminal(node):
            labels.append(node.label)
            continue
        constituents = [child for child in node.children if isinstance(child, Tree)]
        if len(constituents) < len(node.children):
            return None
        agenda += reversed(constituents)
    return labels


class Survey(NamedTuple):
    """What trees have: the share of words with a tag of their own, and whether any tree has traces or function tags."""

    tagged: float
    traces: bool
    function_tags: bool


def survey(path: str | Path, reading: Reading, count: int = 1000) -> Survey:
    """Return the survey of the first `count` trees of a file; raises as `read_sentences` does."""
    n_words = n_tagged = 0
    labels: set[str] = set()
    for sentence in islice(read_sentences(path, replace(reading, drop_preterminals=False)), count):
        agenda = [sentence.tree]
        while agenda:
            node = agenda.pop()
            constituents = [child for child in node.children if isinstance(child, Tree)]
            n_words += len(node.children) - len(constituents)
            n_tagged += is_preterminal(node)
            labels.add(node.label)
            agenda += constituents
    has_function_tags = any("-" in label[1:-1] and label[0] != "-" for label in labels)
    return Survey(n_tagged / n_words, "-NONE-" in labels, has_function_tags)


def encode_trees(trees: Iterable[Tree], vocabulary: Vocabulary, before: Sequence[int] = ()) -> Corpus:
    """Return a corpus of trees in memory, each with the action ids `before` in front of its own."""
    trees = list(trees)
    ids = [[*before, *vocabulary.encode(tree)] for tree in trees]
    actions = np.array([i for tree in ids for i in tree], np.int32)
    offsets = offsets_of(map(len, ids))
    is_terminal = vocabulary.type_of[actions] == ActionType.T
    terminals = np.add.reduceat(is_terminal, offsets[:-1], dtype=np.int32) if trees else np.zeros(0, np.int32)
    return Corpus(actions, offsets, terminals, np.array([len(words(tree)) for tree in trees], np.int32))


def encode_each(path: str | Path, trees: Iterable[tuple[Tree, int]], vocabulary: Vocabulary) -> list[int]:
    """Return the action ids of trees, one tree after the other; the trees come with their lines.

    Raises
    ------
    LineError
        At the line of a tree with a word or a label that the vocabulary does not have.
    """
    ids: list[int] = []
    for tree, line in trees:
        with errors_at(path, line):
            ids += vocabulary.encode(tree)
    return ids


def load_corpus(
    path: str | Path,
    vocabulary: Vocabulary,
    cache: str | Path,
    reading: Reading = Reading(),  # noqa: B008 (frozen)
) -> Corpus:
    """Return the corpus of a file, memory-mapped from a folder in `cache` that is named after the file and a hash.

    The hash covers the file's bytes, the vocabulary and the reading; an existing folder is used again. The file is
    encoded as a stream, so that neither file nor corpus needs to fit into memory. The folder appears when it is
    complete.

    Raises
    ------
    LineError
        As `read_sentences` does, and for a word or a label that the vocabulary does not have.
    """
    description = f"{_FORMAT} {reading} {vocabulary.to_json()}"
    return Corpus(**load_encoded(path, cache, description, _DTYPES, lambda to: _encode(path, vocabulary, reading, to)))


def _encode(path: str | Path, vocabulary: Vocabulary, reading: Reading, to: dict[str, Growing]) -> None:
    actions = to["actions"]
    to["offsets"].append([0])
    for _, group in groupby(read_sentences(path, reading), key=lambda s: s.document):
        trees = [(sentence.tree, sentence.line) for sentence in group]
        ids = encode_each(path, trees, vocabulary)
        if reading.documents != "none":
            with errors_at(path, 0):
                ids = vocabulary.wrap(DOCUMENT, ids)
        encoded = np.array(ids, np.int32)
        actions.append(encoded)
        to["offsets"].append([actions.size])
        to["terminals"].append([np.count_nonzero(vocabulary.type_of[encoded] == ActionType.T)])
        to["words"].append([sum(len(words(tree)) for tree, _ in trees)])
