"""The sentences that a model of trees is asked about, with their proposals, gold trees and documents.

Some sentences are skipped: each keeps its place and has a reason, and models do not read its proposals.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, groupby
from pathlib import Path
from tempfile import mkstemp
from typing import Any, NamedTuple
from weakref import finalize

from accel.data.corpora.proposals import ProposalFile, Proposals, Stream, counts_of, stream_proposals
from accel.data.corpora.sequences import GIVEN, Trees, read_given, read_whole
from accel.data.corpora.treebank import Reading, Sentence, read_sentences
from accel.data.files.lines import LineError, place, read_lines, read_once
from refimpl.trees import Tree, words


class Draw(NamedTuple):
    """A drawn tree: its place among the different trees of its sentence, and its log-probability, nats."""

    tree: int
    logp: float


@dataclass(frozen=True)
class Sentences:
    """Sentences and their proposals.

    Attributes
    ----------
    path : Path
        The file of the proposals.
    proposals : lists of every sentence
        Empty where a sentence is skipped. Those of a file are read anew for every iteration.
    reasons : [S] str
        Why a sentence is skipped; "" if it is not.
    n_words : [S] int or None
        None if the number of words of a skipped sentence is unknown.
    documents : list of int or None
        The number of sentences of each document; None if there are no documents.
    gold : [S] Tree
        The gold trees, with their tags; empty without gold trees.
    draws : [S] lists of Draw
        Empty if the proposals were not drawn, see `accel.data.corpora.draws`.
    """

    path: Path
    proposals: Proposals
    reasons: list[str]
    n_words: list[int | None]
    documents: list[int] | None = None
    gold: list[Tree] = field(default_factory=list)
    draws: list[list[Draw]] = field(default_factory=list)

    @property
    def n_proposals(self) -> list[int]:
        """How many proposals every sentence has."""
        return counts_of(self.proposals)


def given_proposals(
    trees: Path | Trees | None,
    proposals: Path | Sequence[Trees] | None,
    reading: Reading,
    left_out: list[int] | None = None,
    **of_file: Any,
) -> Sentences:
    """Return sentences whose only proposals are `trees`, or whose proposals are given: from a file or from memory.

    For a file of proposals, `of_file` are the options of `gather`. For a file of trees, `read_whole` fills `left_out`.
    """
    if isinstance(proposals, Path):
        stream = partial(stream_proposals, proposals, reading, numbered=of_file.get("numbered", False))
        return gather(proposals, stream, reading, **of_file)
    if proposals is not None and reading.documents != "none":
        raise ValueError("proposals: the model reads documents: give a file of proposals, with gold or documents")
    if isinstance(trees, Path):
        groups = [[sentence] for sentence in read_whole(trees, reading, left_out)]
    elif trees is not None:
        groups = [[sentence] for sentence in read_given(trees, reading)]
    else:
        groups = [_different(number, group, reading) for number, group in enumerate(proposals or (), 1)]
    n_words: list[int | None] = [len(words(group[0].tree)) if group else None for group in groups]
    reasons = ["" if group else "no proposals" for group in groups]
    return Sentences(trees if isinstance(trees, Path) else Path(GIVEN), groups, reasons, n_words)


def _different(number: int, group: Trees, reading: Reading) -> list[Sentence]:
    """Return the different proposals of a sentence; LineError with the sentence's number if their words differ."""
    try:
        sentences = list(read_given(group, reading))
    except LineError as error:
        raise LineError(GIVEN, error.line, f"{error.reason}, in sentence {number}", error.column) from error
    for other in sentences:
        if words(other.tree) != words(sentences[0].tree):
            reason = f"other words than the first tree of sentence {number} has: give the trees of each by themselves"
            raise LineError(GIVEN, other.line, reason)
    return list({sentence.tree: sentence for sentence in sentences}.values())


def read_document_sizes(path: str | Path) -> list[int]:
    """Return the number of sentences of each document, from a file with one number per line.

    Raises
    ------
    LineError
        At a line that is no positive number; as `accel.data.files.lines.read_lines` does.
    """
    sizes = []
    for number, line in read_lines(path):
        text = line.strip()
        if not (text.isascii() and text.isdigit() and int(text)):
            raise LineError(path, number, f"{text!r} is not a number of sentences of a document")
        sizes.append(int(text))
    return sizes


def gather(
    path: Path,
    stream: Stream,
    reading: Reading,
    *,
    check: Callable[[list[Sentence]], None] = lambda group: None,
    numbered: bool = False,
    gold: Path | None = None,
    documents: Path | None = None,
    n_sentences: int | None = None,
    max_words: int | None = None,
) -> Sentences:
    """Return the sentences and their proposals; `gold`, `documents` and `n_sentences` each fix the number of sentences.

    If the reading has documents, the sentences after a skipped one of their document are skipped, too.

    Parameters
    ----------
    stream : function
        Yields the proposals of every sentence of the file; each later reading calls it again with `quiet=True`. An
        input that can be read only once, such as a pipe, is copied to a temporary file; `stream` then gets its `lines`,
        too.
    check : function
        Gets the proposals of every sentence that has some and is not too long; raises if they cannot be used.

    Raises
    ------
    LineError
        As the readers do, and for proposals whose words are not those of the gold tree.
    ValueError
        If the numbers of sentences differ; if the model reads documents, and neither `gold` nor `documents` gives them;
        if it reads sentences, and `documents` is given; if every sentence is skipped.
    """
    if reading.documents == "none" and documents is not None:
        raise ValueError(f"{documents}: the model was trained on sentences, not on documents")
    gold_sentences = [] if gold is None else list(read_sentences(gold, replace(reading, drop_preterminals=False)))
    sizes = None
    if documents is not None:
        sizes = read_document_sizes(documents)
    elif gold_sentences and reading.documents != "none":
        sizes = [len(list(group)) for _, group in groupby(gold_sentences, key=lambda sentence: sentence.document)]
    if reading.documents != "none" and sizes is None:
        raise ValueError(f"{path}: the model reads documents: give them with --documents or --gold")
    counts = (
        (gold, len(gold_sentences), "trees"),
        (documents, sum(sizes or []), "sentences"),
        ("--sentences", n_sentences, ""),
    )
    stated = max((n for source, n, _ in counts if source is not None and n is not None), default=0)
    if gold is not None and len(gold_sentences) < stated:
        raise ValueError(f"{gold}: {len(gold_sentences)} trees for {stated} sentences: give one tree for each")
    first, again = (stream, partial(stream, quiet=True)) if path.is_file() else _copied(path, stream)
    n_trees, lengths, other_words = list[int](), list[int | None](), None
    for number, group in enumerate(first()):
        gold_sentence = gold_sentences[number] if number < len(gold_sentences) else None
        reference = gold_sentence or (group[0] if group else None)
        lengths.append(None if reference is None else len(words(reference.tree)))
        n_trees.append(len(group))
        if gold_sentence is not None:
            other_words = other_words or _other_words(path, group, gold, gold_sentence)
        if not _reason(len(group), lengths[-1], max_words):
            check(group)
    count = len(n_trees)
    for source, n_stated, unit in counts:
        if source is None or n_stated is None:
            continue
        if n_stated < count or (n_stated > count and not numbered):
            stated = " ".join([str(n_stated), unit]).strip()
            raise ValueError(f"{source}: {stated}, but {path} has {count} sentences: give as many")
        n_trees, count = [*n_trees, *[0] * (n_stated - count)], n_stated
    if other_words is not None:
        raise other_words
    rest = range(len(lengths), count)
    lengths += [len(words(gold_sentences[number].tree)) if gold_sentences else None for number in rest]
    reasons = [_reason(n, length, max_words) for n, length in zip(n_trees, lengths, strict=True)]
    for end, size in zip(accumulate(sizes or []), sizes or [], strict=True):
        for number in range(end - size + 1, end):
            if reasons[number - 1] and not reasons[number]:
                reasons[number] = "after a skipped sentence of its document"
    n_used = [0 if reason else n for n, reason in zip(n_trees, reasons, strict=True)]
    if not any(n_used):
        raise ValueError(f"{path}: every one of {count} sentences is skipped: {reasons[0]}")
    return Sentences(path, ProposalFile(path, again, n_used), reasons, lengths, sizes, [x.tree for x in gold_sentences])


def _copied(path: Path, stream: Stream) -> tuple[Stream, Stream]:
    """Return two functions that yield the proposals of an input that can be read only once.

    The first copies the input while it reads; the second reads the copy, which is deleted with this function.
    """
    number, name = mkstemp(prefix="grove-")
    os.close(number)
    copy = Path(name)

    def again() -> Iterable[list[Sentence]]:
        return stream(quiet=True, lines=read_lines(path, copy.open("rb")))

    finalize(again, copy.unlink)
    return partial(stream, lines=read_once(path, copy)), again


def _reason(n_trees: int, n_words: int | None, max_words: int | None) -> str:
    if not n_trees or n_words is None:
        return "no proposals"
    return f"{n_words} words, more than {max_words}" if max_words is not None and n_words > max_words else ""


def _other_words(path: Path, group: list[Sentence], gold: Path | None, gold_sentence: Sentence) -> LineError | None:
    """Return an error if the proposals are not over the words of the gold tree."""
    if not group or words(group[0].tree) == words(gold_sentence.tree):
        return None
    reason = f"other words than the gold tree has, {place(gold or '', gold_sentence.line)}: give both in one order"
    return LineError(path, group[0].line, reason)


def summary(sentences: Sentences) -> Iterator[tuple[str, str]]:
    """Yield names and values: how many of all sentences and words are used, and why the others are skipped."""
    reasons = Counter("too many words" if " more than " in reason else reason for reason in sentences.reasons if reason)
    used_lengths = [n for n, reason in zip(sentences.n_words, sentences.reasons, strict=True) if not reason]
    n_words, all_lengths = sum(filter(None, used_lengths)), sentences.n_words
    if not reasons:
        yield "words", str(n_words)
        yield "sentences", str(len(used_lengths))
        return
    total = "an unknown number" if None in all_lengths else str(sum(filter(None, all_lengths)))
    yield "words", f"{n_words} of {total}"
    yield "sentences", f"{len(used_lengths)} of {len(all_lengths)}"
    for reason, count in reasons.items():
        yield "skipped", f"{count}: {reason}"
