"""Files of proposal trees: of every sentence, the trees that a model of trees is summed over, or chooses from.

A file holds one tree a line: blank lines lie between sentences or, in the numbered form, every line begins with its
sentence's number, from 1, and a tab. A number that is left out is a sentence without proposals. Sentences that are not
to be used keep their place, with the reason; the models see no proposals of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby
from pathlib import Path

from accel.data.corpora.sequences import read_whole
from accel.data.corpora.treebank import Reading, Sentence, TreebankError, read_sentences
from accel.data.files.lines import LineError, read_lines
from refimpl.trees import Tree, words

Proposals = list[list[Sentence]]  # of every sentence, its different trees


@dataclass(frozen=True)
class Sentences:
    """Sentences and their proposals.

    Attributes
    ----------
    path : Path
        The file of the proposals.
    proposals : [S] lists
        Empty where a sentence is skipped.
    reasons : [S] str
        Why a sentence is skipped; "" if it is not.
    n_words : [S] int or None
        None where nothing says how many words a skipped sentence has.
    documents : list of int or None
        How many sentences each document has; None if every sentence stands alone.
    gold : [S] Tree
        With their tags; empty if there are none.
    """

    path: Path
    proposals: Proposals
    reasons: list[str]
    n_words: list[int | None]
    documents: list[int] | None = None
    gold: list[Tree] = field(default_factory=list)


def read_proposals(path: str | Path, reading: Reading, *, numbered: bool = False) -> Proposals:
    """Return the proposals of every sentence, each tree once; in the numbered form, of some sentences perhaps none.

    Raises
    ------
    TreebankError
        As `accel.data.corpora.treebank.read_sentences` does, and at the line of a tree over other words than the
        sentence's first.
    LineError
        At a line whose number is none, or is not above those before.
    """
    found = read_sentences(path, replace(reading, documents="column" if numbered else "blank"))
    numbers = {line: text.partition("\t")[0] for line, text in read_lines(path)} if numbered else {}
    proposals: Proposals = []
    for _, group in groupby(found, key=lambda sentence: sentence.document):
        first, *others = group
        different, spoken = {first.tree: first}, words(first.tree)
        for sentence in others:
            if words(sentence.tree) != spoken:
                reason = f"other words than the sentence's first proposal has, line {first.line}"
                raise TreebankError(path, sentence.line, 0, reason)
            different.setdefault(sentence.tree, sentence)
        if numbered:
            name = numbers[first.line]
            number = int(name) if name.isascii() and name.isdigit() else 0
            if number <= len(proposals):
                raise LineError(path, first.line, f"{name!r} is no sentence's number above {len(proposals)}")
            proposals += [[] for _ in range(number - 1 - len(proposals))]
        proposals.append(list(different.values()))
    return proposals


def read_single(path: str | Path, reading: Reading) -> Proposals:
    """Return the trees of a treebank, each the only proposal of its sentence or document."""
    return [[sentence] for sentence in read_whole(path, reading)]


def read_documents(path: str | Path) -> list[int]:
    """Return how many sentences each document has: a file of numbers, one a line.

    Raises
    ------
    LineError
        At a line that is no positive number; as `accel.data.files.lines.read_lines` does.
    """
    sizes = []
    for number, line in read_lines(path):
        text = line.strip()
        if not (text.isascii() and text.isdigit() and int(text)):
            raise LineError(path, number, f"{text!r} is not how many sentences a document has")
        sizes.append(int(text))
    return sizes


def gather(
    path: Path,
    proposals: Proposals,
    reading: Reading,
    *,
    numbered: bool = False,
    gold: Path | None = None,
    documents: Path | None = None,
    n_sentences: int | None = None,
    max_words: int | None = None,
) -> Sentences:
    """Return the sentences that `gold`, `documents` or `n_sentences` say there are, with their proposals.

    If the reading has documents, a sentence behind a skipped one of its document is skipped, too.

    Raises
    ------
    TreebankError, LineError
        As reading does, and for proposals over other words than the gold tree's.
    ValueError
        If there are not as many sentences as one of them says; if documents are read, and nothing says which.
    """
    if reading.documents == "none" and documents is not None:
        raise ValueError(f"{documents}: the model was trained on sentences, not on documents")
    found = [] if gold is None else list(read_sentences(gold, replace(reading, drop_preterminals=False)))
    sizes = None
    if documents is not None:
        sizes = read_documents(documents)
    elif found and reading.documents != "none":
        sizes = [len(list(group)) for _, group in groupby(found, key=lambda sentence: sentence.document)]
    if reading.documents != "none" and sizes is None:
        raise ValueError(f"{path}: the model reads documents: say which with --documents or --gold")
    told = ((gold, len(found), "trees"), (documents, sum(sizes or []), "sentences"), ("--sentences", n_sentences, ""))
    count = len(proposals)
    for source, said, unit in told:
        if source is None or said is None:
            continue
        if said < count or (said > count and not numbered):
            raise ValueError(f"{source}: {' '.join([str(said), unit]).strip()}, but {path} has {count} sentences")
        proposals, count = [*proposals, *([] for _ in range(said - count))], said
    _require_same_words(path, proposals, gold, found)
    known = [len(words(x.tree)) for x in found] or [len(words(group[0].tree)) if group else None for group in proposals]
    reasons = [_reason(group, n, max_words) for group, n in zip(proposals, known, strict=True)]
    for end, size in zip(accumulate(sizes or []), sizes or [], strict=True):
        for place in range(end - size + 1, end):
            if reasons[place - 1] and not reasons[place]:
                reasons[place] = "behind a skipped sentence of its document"
    used = [[] if reason else group for group, reason in zip(proposals, reasons, strict=True)]
    if not any(used):
        raise ValueError(f"{path}: every one of {count} sentences is skipped: {reasons[0]}")
    return Sentences(path, used, reasons, known, sizes, [x.tree for x in found])


def _reason(group: Sequence[Sentence], n_words: int | None, max_words: int | None) -> str:
    if not group:
        return "no proposals"
    return f"{n_words} words, more than {max_words}" if max_words is not None and n_words > max_words else ""


def _require_same_words(path: Path, proposals: Proposals, gold: Path | None, found: list[Sentence]) -> None:
    for group, sentence in zip(proposals, found, strict=bool(found)):
        if group and words(group[0].tree) != words(sentence.tree):
            raise TreebankError(path, group[0].line, 0, f"other words than the tree of {gold}, line {sentence.line}")


def summary(sentences: Sentences) -> Iterator[tuple[str, str]]:
    """Yield names and values that say how many of how many sentences and words are used, and why others are not."""
    reasons = Counter("too many words" if " more than " in reason else reason for reason in sentences.reasons if reason)
    used = [n for n, reason in zip(sentences.n_words, sentences.reasons, strict=True) if not reason]
    n_words, everything = sum(filter(None, used)), sentences.n_words
    if not reasons:
        yield "words", str(n_words)
        yield "sentences", str(len(used))
        return
    total = "an unknown number" if None in everything else str(sum(filter(None, everything)))
    yield "words", f"{n_words} of {total}"
    yield "sentences", f"{len(used)} of {len(everything)}"
    for reason, count in reasons.items():
        yield "skipped", f"{count}: {reason}"
