"""EVALB's input: parameter files, lines of brackets, and the words and brackets of each line that count.

The rules are those of EVALB's C program without its fixed buffers: a sentence may have any length and any depth.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from accel.data.files.brackets import is_preterminal
from refimpl.trees import Tree, TreeError

Sentence = Tree | tuple[Tree, ...] | TreeError | None
"""A line of a scored file: a tree, trees side by side, the error of an unreadable line, or None for an empty one."""

LISTS, PAIRS = ("DELETE_LABEL", "DELETE_LABEL_FOR_LENGTH", "DELETE_WORD", "QUOTE_LABEL"), ("EQ_LABEL", "EQ_WORD")
"""The keywords of a parameter file that take one value, and those that take two."""
QUOTES = ("'", '"', "/")
"""The words that EVALB takes for quotation marks when it looks for a mark that is deleted in only one of the trees."""


@dataclass(frozen=True)
class EvalbParameters:
    """The settings of a parameter file; the defaults are EVALB's. `max_error` None: no limit. Spec: EVIN-1."""

    debug: int = 0
    max_error: int | None = 10
    cutoff_length: int = 40
    labelled: bool = True
    delete_labels: frozenset[str] = frozenset()
    delete_labels_for_length: frozenset[str] = frozenset()
    delete_words: frozenset[str] = frozenset()
    quote_labels: frozenset[str] = frozenset()
    equal_labels: frozenset[tuple[str, str]] = frozenset()
    equal_words: frozenset[tuple[str, str]] = frozenset()


COLLINS = EvalbParameters(
    delete_labels=frozenset({"TOP", "-NONE-", ",", ":", "``", "''", "."}),
    delete_labels_for_length=frozenset({"-NONE-"}),
    equal_labels=frozenset({("ADVP", "PRT")}),
)
"""The parameters with which F1 is reported everywhere: those of EVALB's file COLLINS.prm."""


def read_parameters(lines: Iterable[str]) -> EvalbParameters:
    """Return the settings of an EVALB parameter file; if several lines set the same number, the last line counts.

    Spec: EVIN-1.

    Raises ValueError with the line's number for a line that EVIN-1 refuses.

    >>> read_parameters(["# a comment", "CUTOFF_LEN 70"]).cutoff_length
    70
    """
    numbers = {"DEBUG": 0, "MAX_ERROR": 10, "CUTOFF_LEN": 40, "LABELED": 1, "DISC_ONLY": 0}
    values: dict[str, set[str]] = defaultdict(set)
    pairs: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for number, line in enumerate(lines, 1):
        text = line.rstrip()
        if text.startswith("#") or len(text) < 3:
            continue
        keyword, *rest = text.split(None, 1)
        if not rest:
            raise ValueError(f"line {number}: {keyword} has no value")
        fields = rest[0].split()
        if keyword in numbers:
            if not re.fullmatch(r"-?[0-9]+", fields[0]):
                raise ValueError(f"line {number}: {keyword} takes a number, not {rest[0]}")
            numbers[keyword] = int(fields[0])
        elif keyword in LISTS:
            values[keyword].add(rest[0])
        elif keyword in PAIRS:
            if len(fields) != 2:
                raise ValueError(f"line {number}: {keyword} takes two values, not {rest[0]}")
            pairs[keyword].add((fields[0], fields[1]))
        else:
            raise ValueError(
                f"line {number}: unknown keyword {keyword}: EVALB has {', '.join((*numbers, *LISTS, *PAIRS))}"
            )
        if numbers["DISC_ONLY"]:
            raise ValueError(f"line {number}: DISC_ONLY must be 0: constituents are continuous here")
    return EvalbParameters(
        debug=numbers["DEBUG"],
        max_error=numbers["MAX_ERROR"],
        cutoff_length=numbers["CUTOFF_LEN"],
        labelled=numbers["LABELED"] != 0,
        delete_labels=frozenset(values["DELETE_LABEL"]),
        delete_labels_for_length=frozenset(values["DELETE_LABEL_FOR_LENGTH"]),
        delete_words=frozenset(values["DELETE_WORD"]),
        quote_labels=frozenset(values["QUOTE_LABEL"]),
        equal_labels=frozenset(pairs["EQ_LABEL"]),
        equal_words=frozenset(pairs["EQ_WORD"]),
    )


def read_sentences(lines: Iterable[str]) -> list[Sentence]:
    """Return one sentence for each line, as EVALB reads: an empty line is a sentence without a prediction.

    Spec: EVIN-2.  Unlike `read_trees` it raises nothing, removes nothing and ends every tree with its line.

    >>> read_sentences(["(S (NN bird))", "", "(DT a) (NN bird)", "(S (NN bird)"])
    [Tree('(S (NN bird))'), None, (Tree('(DT a)'), Tree('(NN bird)')), TreeError('line 4, column 12: unclosed bracket')]
    """
    return [_read_sentence(line, number) for number, line in enumerate(lines, 1)]


_TOKEN = re.compile(r"\([^()\s]*|\)|[^()\s]+", re.ASCII)  # as in C, spaces are those of ASCII


def _read_sentence(line: str, number: int) -> Sentence:
    stack: list[tuple[str, list[Tree | str]]] = [("", [])]
    for token in _TOKEN.finditer(line):
        text, column = token.group(), token.start() + 1
        if text.startswith("("):
            stack.append((text[1:], []))
        elif len(stack) == 1:
            reason = "extra closing bracket" if text == ")" else f"word outside the brackets: {text}"
            return TreeError(number, column, reason)
        elif text == ")":
            label, children = stack.pop()
            stack[-1][1].append(Tree(label, tuple(children)))
        else:
            stack[-1][1].append(text)
    if len(stack) > 1:
        return TreeError(number, len(line.rstrip()), "unclosed bracket")
    trees = tuple(node for node in stack[0][1] if isinstance(node, Tree))
    return trees if len(trees) > 1 else trees[0] if trees else None


@dataclass
class Bracket:
    """A constituent as EVALB keeps it. Spec: EVIN-3, EVIN-4."""

    label: str
    start: int  # words start to end - 1
    end: int
    parent: int  # the bracket around it, -1 for none


@dataclass
class Quote:
    """A quotation mark and the place where it was read. Spec: EVIN-4."""

    tag: str
    word: str
    index: int  # number of words before it
    bracket: int  # number of brackets that open before it
    parent: int


class Side:
    """One side of the comparison: the words that count, the brackets over them, the quotation marks.

    Spec: EVIN-3.

    >>> side = Side(Tree("TOP", (Tree("S-1", (Tree("NN", ("bird",)), Tree(".", (".",)))),)), COLLINS)
    >>> side.length, side.words, side.constituents(COLLINS)
    (2, [('NN', 'bird')], [('S', 0, 1)])
    """

    def __init__(self, sentence: Sentence, parameters: EvalbParameters) -> None:
        self.unreadable = str(sentence) if isinstance(sentence, TreeError) else ""
        self.length = 0
        self.words: list[tuple[str, str]] = []  # (tag, word)
        self.brackets: list[Bracket] = []
        self.quotes: list[Quote] = []
        self.parent = -1
        agenda: list[Tree | str | int] = [sentence] if isinstance(sentence, Tree) else []
        if isinstance(sentence, tuple):
            agenda.extend(reversed(sentence))
        while agenda:
            node = agenda.pop()
            if isinstance(node, int):  # the end of this bracket
                self.brackets[node].end = len(self.words)
                self.parent = self.brackets[node].parent
            elif isinstance(node, str):
                self.unreadable = self.unreadable or f"More than two elements in a bracket ({node})"
            elif is_preterminal(node):
                self._read_word(node.label, str(node.children[0]), parameters)
            else:
                self.brackets.append(Bracket(node.label, len(self.words), -1, self.parent))
                self.parent = len(self.brackets) - 1
                agenda.append(self.parent)
                agenda.extend(reversed(node.children))

    def _read_word(self, tag: str, word: str, parameters: EvalbParameters) -> None:
        self.length += tag not in parameters.delete_labels_for_length
        if tag in parameters.quote_labels and word in QUOTES:
            self.quotes.append(Quote(tag, word, len(self.words), len(self.brackets), self.parent))
        if tag not in parameters.delete_labels and word not in parameters.delete_words:
            self.words.append((tag, word))

    def reinsert(self, number: int) -> None:
        """Put a deleted quotation mark back among the words. Spec: EVIN-4."""
        quote = self.quotes[number]
        self.words.insert(quote.index, (quote.tag, quote.word))
        for bracket in self.brackets[quote.bracket :]:
            bracket.start += 1
            bracket.end += 1
        ancestor = quote.parent
        while ancestor >= 0:
            self.brackets[ancestor].end += 1
            ancestor = self.brackets[ancestor].parent
        for later in self.quotes[number:]:
            later.index += 1

    def constituents(self, parameters: EvalbParameters) -> list[tuple[str, int, int]]:
        """Return (label, start, end) of the brackets that count, function tags cut off. Spec: EVIN-3."""
        same = equivalents(parameters.equal_labels)
        deleted = {label for one in parameters.delete_labels for label in same(one)}
        brackets = [(bare_label(b.label), b.start, b.end) for b in self.brackets if b.start < b.end]
        return [bracket for bracket in brackets if bracket[0] not in deleted]


def bare_label(label: str) -> str:
    """Return the label up to its first ``-`` or ``=``. Spec: EVIN-3.

    >>> bare_label("NP-SBJ=2"), bare_label("-NONE-")
    ('NP', '')
    """
    return re.split("[-=]", label, maxsplit=1)[0]


def equivalents(pairs: Iterable[tuple[str, str]]) -> Callable[[str], set[str]]:
    """Return a function from a symbol to the set of the symbol and its partners in the pairs; pairs do not chain.

    Spec: EVIN-3.

    >>> sorted(equivalents([("ADVP", "PRT"), ("PRT", "RP")])("ADVP"))
    ['ADVP', 'PRT']
    """
    partners: dict[str, set[str]] = defaultdict(set)
    for a, b in pairs:
        partners[a].add(b)
        partners[b].add(a)
    return lambda symbol: {symbol} | partners.get(symbol, set())


def restore_quotes(gold: Side, predicted: Side, parameters: EvalbParameters) -> None:
    """Put back the quotation marks that one side deletes where the other side, with another tag, does not.

    Spec: EVIN-4.

    >>> parameters = EvalbParameters(delete_labels=frozenset({"``"}), quote_labels=frozenset({"``", "NN"}))
    >>> gold = Side(Tree("S", (Tree("``", ("'",)), Tree("NN", ("a",)))), parameters)
    >>> predicted = Side(Tree("S", (Tree("NN", ("'",)), Tree("NN", ("a",)))), parameters)
    >>> restore_quotes(gold, predicted, parameters)
    >>> gold.words
    [('``', "'"), ('NN', 'a')]
    """
    for i, theirs in enumerate(predicted.quotes):
        place = theirs.index
        for j, ours in enumerate(gold.quotes):
            if ours.index == place and ours.tag != theirs.tag:
                if ours.tag in parameters.delete_labels and theirs.tag not in parameters.delete_labels:
                    gold.reinsert(j)
                elif theirs.tag in parameters.delete_labels and ours.tag not in parameters.delete_labels:
                    predicted.reinsert(i)


def with_tags(tree: Tree, tags: Sequence[str | None]) -> Tree:
    """Return a tree with these part-of-speech tags added, one for each word; None where a word keeps its own tag.

    Spec: EVIN-5.  EVALB cannot read a word without a tag; models of trees without tags take those of the gold tree.

    Raises ValueError if there are not as many tags as words.

    >>> with_tags(Tree("S", (Tree("NP", ("the", "bird")), Tree("VP", ("sings",)))), ["DT", "NN", "VBZ"])
    Tree('(S (NP (DT the) (NN bird)) (VP (VBZ sings)))')
    """
    stack: list[tuple[str, list[Tree | str]]] = [("", [])]
    agenda: list[Tree | str | None] = [tree]
    n_words = 0
    while agenda:
        node = agenda.pop()
        if node is None:  # the end of a constituent
            label, children = stack.pop()
            stack[-1][1].append(Tree(label, tuple(children)))
        elif isinstance(node, Tree):
            stack.append((node.label, []))
            agenda += [None, *reversed(node.children)]
        else:
            if n_words < len(tags):
                tag = tags[n_words]
                stack[-1][1].append(node if tag is None else Tree(tag, (node,)))
            n_words += 1
    if n_words != len(tags):
        raise ValueError(f"{len(tags)} tags for {n_words} words")
    (tagged,) = stack[0][1]
    assert isinstance(tagged, Tree)
    return tagged
