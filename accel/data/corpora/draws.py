"""Files of drawn trees, a line each: ``i ||| log-probability ||| tree``, with i the number of the sentence from 0.

RNNG (Dyer et al., 2016) draws with replacement and writes log q, the log-probability of the tree in a single draw.
`grove propose --sample` draws without replacement and writes the log-probability that the tree is among the drawn ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from accel.data.corpora.gathered import Draw, Sentences
from accel.data.corpora.treebank import Reading, Sentence, without_tags
from accel.data.files.brackets import read_trees
from accel.data.files.lines import LineError, place, read_lines
from accel.data.files.progress import progress
from refimpl.trees import TreeError, words

_MARK = "|||"


def stream_draws(
    path: str | Path,
    reading: Reading,
    *,
    with_replacement: bool,
    quiet: bool = False,
    lines: Iterable[tuple[int, str]] | None = None,
) -> Iterator[tuple[list[Sentence], list[Draw]]]:
    """Yield the different trees of every sentence, and the draws; a sentence whose number is missing has none.

    The options are those of `accel.data.corpora.proposals.stream_proposals`.

    Raises
    ------
    LineError
        At a line of another form, or whose number is below the one before; without replacement at a tree that comes
        again; if there is no draw; as `read_lines` does; at an ill-formed tree, or one with other words than the
        sentence's first tree.
    """
    last = -1
    draws = progress(
        _read(path, reading, read_lines(path) if lines is None else lines),
        label=f"reading {place(path)}",
        quiet=quiet,
    )
    for number, group in groupby(draws, key=lambda line: line[0].document):
        first, *rest = group
        different, places, of_sentence = [first[0]], {first[0].tree: 0}, [Draw(0, first[1])]
        for sentence, logp in rest:
            if words(sentence.tree) != words(first[0].tree):
                reason = f"other words than the sentence's first tree has, line {first[0].line}"
                raise LineError(path, sentence.line, reason)
            if sentence.tree in places and not with_replacement:
                raise LineError(path, sentence.line, "the same tree again: it was drawn with replacement")
            if sentence.tree not in places:
                places[sentence.tree] = len(different)
                different.append(sentence)
            of_sentence.append(Draw(places[sentence.tree], logp))
        yield from (([], []) for _ in range(number - 1 - last))
        yield different, of_sentence
        last = number
    if last < 0:
        raise LineError(path, 0, "no draws in this file: give lines of number ||| log-probability ||| tree")


def beside(
    path: str | Path, drawn: Iterable[tuple[list[Sentence], list[Draw]]], certain: Sequence[list[Sentence]]
) -> Iterator[tuple[list[Sentence], list[Draw]]]:
    """Yield, for every sentence, the certain trees and the other drawn trees, and all of them as draws (IS-2).

    Both lists are empty for a sentence without draws, because the sum over the trees outside `certain` cannot be
    estimated.

    Parameters
    ----------
    path
        The file of the draws, for errors.
    drawn : iterable of trees and draws
        Drawn without replacement. Sentences after the last one have no draws.
    certain : [S] lists of Sentence
        Trees that are used in any case. Each becomes a draw with log-probability 0, at the line of the sentence's first
        drawn tree.

    Raises
    ------
    LineError
        For draws of a sentence that `certain` does not have, or over other words.
    """
    rest = iter(certain)
    for trees, draws in drawn:
        certain_trees = next(rest, None)
        if trees and certain_trees is None:
            raise LineError(path, trees[0].line, f"more sentences than the other trees have: {len(certain)}")
        if trees and certain_trees and words(trees[0].tree) != words(certain_trees[0].tree):
            raise LineError(path, trees[0].line, "other words than the other trees of the sentence have")
        yield _joined(certain_trees or [], trees, draws) if draws else ([], [])
    yield from (([], []) for _ in rest)


def _joined(certain: list[Sentence], trees: list[Sentence], draws: list[Draw]) -> tuple[list[Sentence], list[Draw]]:
    """Return the certain trees of a sentence and its other drawn trees, and all of them as draws."""
    line, known_trees = trees[0].line, {sentence.tree for sentence in certain}
    others = [draw for draw in draws if trees[draw.tree].tree not in known_trees]
    logps = [0.0] * len(certain) + [draw.logp for draw in others]
    union = [sentence._replace(line=line) for sentence in certain] + [trees[draw.tree] for draw in others]
    return union, [Draw(n, logp) for n, logp in enumerate(logps)]


def with_draws(sentences: Sentences, draws: list[list[Draw]]) -> Sentences:
    """Return the sentences with their draws, none where a sentence is skipped."""
    counts = sentences.n_proposals
    longer = [*draws, *([] for _ in range(len(counts) - len(draws)))]
    pairs = zip(longer, counts, strict=True)
    return replace(sentences, draws=[of_sentence if count else [] for of_sentence, count in pairs])


def _read(path: str | Path, reading: Reading, lines: Iterable[tuple[int, str]]) -> Iterator[tuple[Sentence, float]]:
    """Yield the tree and the log-probability of every line; blank lines have none."""
    whole, last = replace(reading, leave_out_untagged=False, documents="none"), 0
    for line_number, line in lines:
        if not line.strip():
            continue
        number, *rest = line.split(_MARK, 2)
        name, logp = number.strip(), _logp(rest[0]) if len(rest) == 2 else None
        if logp is None or not (name.isascii() and name.isdigit()):
            raise LineError(path, line_number, "not a sentence's number from 0 ||| a log-probability ||| a tree")
        if int(name) < last:
            raise LineError(path, line_number, f"sentence {name} after sentence {last}: sort the lines by sentence")
        last = int(name)
        blank = " " * (len(line) - len(rest[1]))  # so that columns are those of the line
        try:
            [tree] = read_trees(
                [blank + rest[1]], drop_traces=whole.drop_traces, drop_function_tags=whole.drop_function_tags
            )
        except TreeError as error:
            raise LineError(path, line_number, error.reason, error.column) from error
        except ValueError:
            raise LineError(path, line_number, "not one tree after the log-probability") from None
        sentence = without_tags(path, Sentence(tree, line_number, last), whole)
        assert sentence is not None  # nothing is left out
        yield sentence, logp


def _logp(text: str) -> float | None:
    """Return the log-probability that a text names, None if it names none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if -float("inf") < value <= 1e-6 else None
