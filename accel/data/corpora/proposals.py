"""Files of proposal trees: for every sentence, the trees that a model of trees sums over or chooses from.

A file holds one tree per line, with blank lines between sentences. In the numbered form every line begins with the
number of its sentence, from 1, and a tab; a missing number is a sentence without proposals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby, repeat
from pathlib import Path

from accel.data.corpora.treebank import Reading, Sentence, read_sentences
from accel.data.files.lines import LineError, place
from refimpl.trees import words


@dataclass(frozen=True)
class ProposalFile:
    """The proposals of the sentences of a file, which every iteration reads anew, one sentence at a time.

    Attributes
    ----------
    read : function
        Returns the trees of every sentence.
    counts : [S] int
        How many trees of a sentence are used: all or none.
    """

    path: Path
    read: Callable[[], Iterable[list[Sentence]]]
    counts: list[int]

    def __iter__(self) -> Iterator[list[Sentence]]:
        for group, count in zip(chain(self.read(), repeat([])), self.counts):  # noqa: B905 (the first is endless)
            if count not in (0, len(group)):
                raise ValueError(f"{self.path}: changed while it was read")
            yield group if count else []


Stream = Callable[..., Iterable[list[Sentence]]]
Proposals = Sequence[list[Sentence]] | ProposalFile  # of every sentence, its different trees


def counts_of(proposals: Proposals) -> list[int]:
    """Return how many proposals every sentence has."""
    return proposals.counts if isinstance(proposals, ProposalFile) else [len(group) for group in proposals]


def read_proposals(path: str | Path, reading: Reading, *, numbered: bool = False) -> list[list[Sentence]]:
    """Return the different proposals of every sentence; raises as `stream_proposals`."""
    return list(stream_proposals(path, reading, numbered=numbered))


def stream_proposals(
    path: str | Path,
    reading: Reading,
    *,
    numbered: bool = False,
    quiet: bool = False,
    lines: Iterable[tuple[int, str]] | None = None,
) -> Iterator[list[Sentence]]:
    """Yield the different proposals of every sentence; in the numbered form a sentence may have none.

    The progress is shown, unless `quiet`. `lines`, if given, are read instead of the file.

    Raises
    ------
    LineError
        As `accel.data.corpora.treebank.read_sentences` does, and at the line of a tree whose words are not those of
        the sentence's first tree.
    LineError
        In the numbered form, at a line without a number, or with one that is not above the last.
    """
    documents = "column" if numbered else "blank"
    whole, last = replace(reading, leave_out_untagged=False, documents=documents), 0
    sentences = read_sentences(path, whole, quiet=quiet, lines=lines)
    for _, group in groupby(sentences, key=lambda sentence: sentence.document):
        first, *rest = group
        different, sentence_words = {first.tree: first}, words(first.tree)
        for sentence in rest:
            if words(sentence.tree) != sentence_words:
                reason = (
                    f"other words than the sentence's first proposal has, {place(path, first.line)}: "
                    f"{'give every sentence its number' if numbered else 'put a blank line between sentences'}"
                )
                raise LineError(path, sentence.line, reason)
            different.setdefault(sentence.tree, sentence)
        if numbered:
            number = int(first.name) if first.name.isascii() and first.name.isdigit() else 0
            if number <= last:
                reason = f"{first.name!r} is not a number above {last}: the numbers of the sentences must rise"
                raise LineError(path, first.line, reason)
            yield from ([] for _ in range(number - 1 - last))
            last = number - 1
        last += 1
        yield list(different.values())
