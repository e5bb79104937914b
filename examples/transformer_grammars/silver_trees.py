"""Parse raw English with a parser of ours: silver trees, for trainings on more trees than there are gold ones.

    python -m examples.transformer_grammars.silver_trees --parser RUN --data standard_ebooks --out treebanks/silver

The folder of data holds train.txt.xz, valid.txt.xz and test.txt.xz: a sentence a line, blank lines between documents.
Documents are drawn evenly over the whole text: about `--words` words to train on, and 2 % as many in each of the other
splits. Words are cut as in the treebank tg_example: punctuation, hyphens, ’s and n’t are words. Every word has a
tag, that of its punctuation mark or XX, so that readers of tagged trees take these files, too. Interrupted runs resume
after the last 5,000 sentences.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from accel.data.corpora.treebank import read_sentences
from accel.data.files.lines import find_file, read_lines
from accel.evaluation.evalb_input import with_tags
from accel.tasks.numbers import at_least
from accel.trained.opening import checkpoint_of
from accel.training.directory import write_text
from examples.commands import grove
from examples.program import run_program
from examples.provenance import digests
from refimpl.trees import Tree, words

SHARES = {"train": 1.0, "valid": 0.02, "test": 0.02}
LONGEST = 60  # words of a sentence; longer ones are left out
AT_ONCE = 5000
TAGS = dict.fromkeys("“‘", "``") | dict.fromkeys("”’", "''") | dict.fromkeys(".?!", ".") | {",": ","}
TAGS |= dict.fromkeys(";:—–…", ":") | {"-LRB-": "-LRB-", "-RRB-": "-RRB-"}
BRACKETS = {"(": "-LRB-", ")": "-RRB-"}
_WORD = re.compile(
    r"""
    (?:[A-Z]\.){2,} | [A-HJ-Z]\.(?=\s)                      # initials and abbreviations keep their full stops
    | (?:Mr|Mrs|Ms|Dr|St|Messrs)\.
    | \d+(?:[.,:]\d+)*(?:st|nd|rd|th|s)?                     # numbers
    | [^\W\d_]+?(?=n’t\b) | n’t\b                            # did n’t
    | ’(?:s|ll|re|ve|d|m)\b                                  # she ’ll
    | [^\W_]+(?:’(?!(?:s|ll|re|ve|d|m|t)\b)[^\W_]+)*         # o’clock
    | \S
    """,
    re.VERBOSE,
)

SETTINGS = "silver.json"
"""The file that records the number of words, and the digests of the parser and the texts."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parser", type=Path, required=True, metavar="RUN", help="a trained span parser")
    parser.add_argument("--data", type=Path, required=True, help="a folder with train.txt, valid.txt and test.txt")
    parser.add_argument("--out", type=Path, required=True, help="a folder for the trees")
    help_text = "about this many words in train.trees (2,000,000)"
    parser.add_argument("--words", type=at_least(1), default=2_000_000, metavar="N", help=help_text)
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    texts = [find_file(options.data, f"{split}.txt") for split in SHARES]
    content = {"words": options.words} | digests([checkpoint_of(options.parser), *texts])
    if (settings := options.out / SETTINGS).exists() and json.loads(settings.read_text(encoding="utf-8")) != content:
        raise SystemExit(f"{settings}: was written with another --parser, --data or --words: give another --out")
    write_text(settings, json.dumps(content) + "\n")
    for split, share in SHARES.items():
        path = options.out / f"{split}.trees"
        if path.exists():
            continue
        sentences = drawn(read_documents(find_file(options.data, f"{split}.txt")), int(options.words * share))
        short = [sentence for sentence in sentences if len(sentence) <= LONGEST]
        trees = [tree for first in range(0, len(short), AT_ONCE)
                 for tree in parsed(options.parser, short[first : first + AT_ONCE],
                                    options.out / f"{split}-{first // AT_ONCE}.trees")]  # fmt: skip
        write_text(path, "".join(f"{tree}\n" for tree in trees))
        for part in options.out.glob(f"{split}-*"):
            part.unlink()
        print(f"{path.name}: {sum(map(len, short)):,} words in {len(short):,} sentences; longer than {LONGEST} words "
              f"and left out: {len(sentences) - len(short)}", flush=True)  # fmt: skip


def read_documents(path: Path) -> list[list[list[str]]]:
    """Return the words of every sentence of every document."""
    lines = (line for _, line in read_lines(path))
    return [[cut(line) for line in group] for blank, group in groupby(lines, key=lambda x: not x.strip()) if not blank]


def cut(line: str) -> list[str]:
    """Return the words of a line.

    >>> cut("“I can’t,” said Mr. Lorry’s well-known clerk.")
    ['“', 'I', 'ca', 'n’t', ',', '”', 'said', 'Mr.', 'Lorry', '’s', 'well', '-', 'known', 'clerk', '.']
    """
    return [BRACKETS.get(word, word) for word in _WORD.findall(line)]


def drawn(documents: Sequence[list[list[str]]], n_words: int) -> list[list[str]]:
    """Return the sentences of documents that are drawn at even distances, about `n_words` words in all."""
    total = sum(len(sentence) for document in documents for sentence in document)
    sentences, before = list[list[str]](), 0
    for document in documents:
        target = n_words * before // total
        before += sum(map(len, document))
        if sum(map(len, sentences)) <= target:
            sentences += document
    return sentences


def parsed(parser: Path, sentences: Sequence[Sequence[str]], out: Path) -> Iterator[Tree]:
    """Yield the best trees of a parser, every word with a tag; they are written to a file first, unless it exists."""
    there = [words(sentence.tree) for sentence in read_sentences(out, quiet=True)] if out.exists() else []
    if there != [list(sentence) for sentence in sentences]:
        text = out.with_suffix(".txt")
        write_text(text, "".join(f"{' '.join(sentence)}\n" for sentence in sentences))
        grove("propose", "--checkpoint", parser, "--number", 1, text, "--out", out)
    for sentence in read_sentences(out, quiet=True):
        yield with_tags(sentence.tree, [TAGS.get(word, "XX") for word in words(sentence.tree)])


if __name__ == "__main__":
    run_program(main)
