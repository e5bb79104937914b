"""`grove prepare`: published treebanks as files of trees for training, with their counts beside the published ones.

Every file has a tree a line and a blank line after each document, so that it serves models of sentences and of
documents. The command also writes text: a sentence a line, with the words over which induced trees are scored.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from itertools import chain, groupby
from pathlib import Path
from typing import NamedTuple

from accel.commands.opened import check_folder, check_outs, figures, replaced
from accel.data.corpora.sequences import read_treebank
from accel.data.corpora.treebank import Reading, Sentence, read_sentences
from accel.data.files.brackets import without_preterminals
from accel.data.files.lines import LineError
from accel.data.files.progress import progress
from accel.data.published.rnng_oracles import read_oracle
from accel.data.published.treebank_folders import (
    BLLIP_LG,
    SPLITS,
    documents_of,
    mrg_files,
    part_files,
    read_document,
    read_parts,
    section_files,
)
from accel.data.published.wsj import CONVENTIONS, read_gold
from accel.data.vocabularies import building
from accel.data.vocabularies.terminals import unknown_class
from accel.data.vocabularies.vocabulary import Vocabulary, VocabularyError
from accel.trained.options import OptionError
from refimpl.trees import Tree, tree_from_actions, words


class Counts(NamedTuple):
    """The sentences and words of a file, without traces."""

    sentences: int
    words: int


WSJ = {
    "2-21": Counts(39_832, 950_028),
    "22": Counts(1_700, 40_117),
    "23": Counts(2_416, 56_684),
    "24": Counts(1_346, 32_853),
}
BLLIP = {"valid": Counts(1_500, 34_925), "test": Counts(3_000, 72_455)}  # Transformer Grammars, footnote 2
PTB_IDS = {"trees": 23_888, "words": 23_835}  # Transformer Grammars, Figure 9


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        choices=SOURCES,
        help="the Penn Treebank, BLLIP, any .mrg files, an oracle of RNNG; text: words of trees",
    )
    parser.add_argument(
        "path",
        type=Path,
        metavar="PATH",
        help="ptb: the folder of the sections 00 to 24; bllip, mrg: a folder; rnng, text: a file",
    )
    parser.add_argument("--out", type=Path, required=True, help="ptb, bllip: a directory; mrg, rnng, text: the file")
    parser.add_argument(
        "--sections",
        nargs=3,
        metavar=("TRAIN", "VALID", "TEST"),
        help="of ptb (2-21 24 23, as Dyer et al. have them; others validate on 22)",
    )
    parser.add_argument(
        "--ids",
        type=Path,
        metavar="FILE",
        help="of bllip, a line each: split, folder or file, number of trees (BLLIP-LG)",
    )
    parser.add_argument("--raw", action="store_true", help="of rnng: words as they are, not their unknown classes")
    parser.add_argument("--convention", choices=CONVENTIONS, help="of text, which words: as of grove induction (kim)")


def run(options: argparse.Namespace) -> int:
    for name, what in (("sections", "ptb"), ("ids", "bllip"), ("raw", "rnng"), ("convention", "text")):
        if getattr(options, name) and options.what != what:
            raise OptionError(name, f"is for {what}: leave it out")
    if options.what in ("mrg", "rnng", "text"):
        check_outs(options, "out", reads=mrg_files(options.path) if options.what == "mrg" else ())
    else:
        check_folder(options.out)
    SOURCES[options.what](options)
    return 0


def _ptb(options: argparse.Namespace) -> None:
    """Write every split twice: as it is, and without tags, with classes in place of words that models do not know."""
    sections = dict(zip(SPLITS, options.sections or ("2-21", "24", "23"), strict=True))
    files = {split: section_files(options.path, text) for split, text in sections.items()}
    options.out.mkdir(parents=True, exist_ok=True)
    for split, text in sections.items():
        documents = (list(read_document(path)) for path in files[split])
        counts = _write(options.out / f"{split}.trees", progress(documents, len(files[split]), "document", label=split))
        _print_counts(split, counts, WSJ.get(text))
    paths = {split: options.out / f"{split}.trees" for split in SPLITS}
    vocabulary = building.build(map(without_preterminals, read_treebank(paths["train"])), "unknown_classes")
    for split, path in paths.items():
        groups = groupby(read_sentences(path, Reading(documents="blank")), key=lambda sentence: sentence.document)
        documents = ([_with_classes(path, sentence, vocabulary) for sentence in group] for _, group in groups)
        _write(options.out / f"{split}.unk.trees", documents)
    held_out = chain.from_iterable(read_treebank(paths[split]) for split in SPLITS[1:])
    _print_vocabulary(vocabulary, held_out, is_published=sections["train"] == "2-21")


def _with_classes(path: Path, sentence: Sentence, vocabulary: Vocabulary) -> Tree:
    """Return the tree without its tags, and with the class of every word that the vocabulary lacks."""
    try:
        ids = vocabulary.encode(without_preterminals(sentence.tree))
    except VocabularyError as error:
        raise LineError(path, sentence.line, f"{error}: give more training sections") from error
    return tree_from_actions(vocabulary.decode(ids))


def _print_vocabulary(vocabulary: Vocabulary, held_out: Iterable[Tree], *, is_published: bool) -> None:
    """Print the parts of the vocabulary, and its sizes beside those that the paper prints."""
    known_words = set(vocabulary.terminals)
    n_classes = sum(word.split("-")[0] == "UNK" for word in known_words)
    unknown = {word for tree in held_out for word in words(tree)} - known_words
    n_elsewhere = len({unknown_class(word, known_words) for word in unknown} - known_words)
    _print("known words", len(known_words) - n_classes)
    _print("unknown classes", n_classes)
    _print("classes elsewhere", n_elsewhere)
    _print("labels", len(vocabulary.labels))
    _print("ids of trees", len(vocabulary), PTB_IDS["trees"] if is_published else None)
    _print("ids of words", 2 + len(known_words), PTB_IDS["words"] if is_published else None)


def _bllip(options: argparse.Namespace) -> None:
    parts = BLLIP_LG if options.ids is None else read_parts(options.ids)
    for part in parts:
        part_files(options.path, part)  # raises an error for one that is missing, before anything is written
    options.out.mkdir(parents=True, exist_ok=True)
    for split in SPLITS:
        split_parts = [part for part in parts if part.split == split]
        if split_parts:
            documents = chain.from_iterable(documents_of(options.path, part) for part in split_parts)
            counts = _write(options.out / f"{split}.trees", progress(documents, None, "document", label=split))
            _print_counts(split, counts, BLLIP.get(split) if options.ids is None else None)


def _mrg(options: argparse.Namespace) -> None:
    files = mrg_files(options.path)
    documents = (list(read_document(path)) for path in files)
    _print_file(options.out, _write(options.out, progress(documents, len(files), "document")))


def _rnng(options: argparse.Namespace) -> None:
    trees = ([tree] for tree in read_oracle(options.path, raw=options.raw))
    _print_file(options.out, _write(options.out, trees, separator=""))


def _text(options: argparse.Namespace) -> None:
    """Write the words of gold sentences, a sentence a line."""
    n_sentences = n_words = 0
    with _complete(options.out) as file:
        for sentence in read_gold(options.path, options.convention or "kim"):
            for word in sentence.words:
                if word.split() != [word]:
                    reason = f"the word {word!r} has a blank, and text is split at blanks: write the word without it"
                    raise LineError(options.path, sentence.line, reason)
            file.write(" ".join(sentence.words) + "\n")
            n_sentences, n_words = n_sentences + 1, n_words + len(sentence.words)
    _print_file(options.out, Counts(n_sentences, n_words))


SOURCES: dict[str, Callable[[argparse.Namespace], None]] = {
    "ptb": _ptb, "bllip": _bllip, "mrg": _mrg, "rnng": _rnng, "text": _text,
}  # fmt: skip


def _write(path: Path, documents: Iterable[list[Tree]], separator: str = "\n") -> Counts:
    """Write the trees of every document, and the separator after each; return the numbers of trees and words."""
    n_sentences = n_words = 0
    with _complete(path) as file:
        for trees in documents:
            file.writelines(f"{tree}\n" for tree in trees)
            file.write(separator)
            n_sentences += len(trees)
            n_words += sum(len(words(tree)) for tree in trees)
    return Counts(n_sentences, n_words)


@contextmanager
def _complete(path: Path) -> Iterator[TextIOWrapper]:
    """Open a file for writing that appears when it is complete; "-" is standard output."""
    with replaced(path) as file:
        text = TextIOWrapper(file, encoding="utf-8")
        try:
            yield text
        finally:
            text.detach()  # which leaves standard output open


def _print_file(path: Path, counts: Counts) -> None:
    with figures(path):
        _print_counts("", counts, None)


def _print_counts(split: str, counts: Counts, published: Counts | None) -> None:
    for name, value in counts._asdict().items():
        _print(f"{split} {name}".strip(), value, getattr(published, name, None))


def _print(name: str, value: int, published: int | None = None) -> None:
    note = "" if published is None else " (as published)" if value == published else f" (published: {published})"
    print(f"{name:<17} {value}{note}")
