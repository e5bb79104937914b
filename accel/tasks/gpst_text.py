"""The text that a GPST learns: its files, where its sentences end, its contexts, and its vocabulary."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from accel.data.batches.contexts import cut_contexts
from accel.data.corpora.documents import LONG, Documents, load_documents, read_documents, text_files
from accel.data.files.lines import LineError
from accel.data.vocabularies.building import build_of_words
from accel.data.vocabularies.given import load_given
from accel.data.vocabularies.vocabulary import Vocabulary
from accel.tasks.numbers import at_least
from accel.tasks.vocabulary import add_vocabulary, open_to_words, size_of, stored_vocabulary
from accel.trained.opening import Model
from accel.trained.options import typed

FORMATS = ("plain", "wikitext", "file")
MAX_TOKENS = 1024


def add_text(parser: argparse.ArgumentParser) -> None:
    """Add the options for the text, its sentences, its vocabulary and its contexts."""
    content = "text whose documents end with blank lines, or a folder of such files; may be .gz or .xz"
    parser.add_argument("--data", type=Path, nargs="+", metavar="TEXT", help=f"training {content}; several are joined")
    parser.add_argument("--validation", type=Path, metavar="TEXT", help="to choose the best checkpoint by")
    parser.add_argument("--test", type=Path, metavar="TEXT", help="to evaluate the best checkpoint on")
    help_text = "wikitext: a paragraph a line, = Title = begins a document; file: each file is a document (plain)"
    parser.add_argument("--format", choices=FORMATS, default="plain", help=help_text)
    parser.add_argument(
        "--sentence-a-line", action="store_true", help="one sentence a line; else . ? or ! before a capital ends one"
    )
    help_text = ". ? or ! ends a sentence whatever follows: for text in lower case"
    parser.add_argument("--any-case", action="store_true", help=help_text)
    help_text = "what becomes of a sentence of more tokens than a context has (refuse)"
    parser.add_argument("--long-sentences", choices=LONG, default="refuse", help=help_text)
    add_vocabulary(parser, "sentencepiece")
    parser.set_defaults(vocabulary=None)
    help_text = "a run, a SentencePiece model, GPT-2's vocab.json with merges.txt, or a list of word pieces, vocab.txt"
    parser.add_argument("--vocabulary-from", type=Path, metavar="RUN|FILE", help=help_text)
    help_text = f"of a context of whole sentences ({MAX_TOKENS}, or as many as the model of --checkpoint reads)"
    parser.add_argument("--max-tokens", type=at_least(1), metavar="N", help=help_text)
    parser.add_argument("--one-document", action="store_true", help="end every context with its document")
    parser.add_argument("--one-sentence", action="store_true", help="end every context with its sentence")
    parser.add_argument("--cache", type=Path, help="where encoded text is kept (default: DIRECTORY/cache)")


def check_text(options: argparse.Namespace) -> None:
    """Raise ValueError for options that contradict each other."""
    if options.sentence_a_line and options.any_case:
        raise ValueError("--any-case: with --sentence-a-line a line is a sentence; leave one of them out")
    other = "--checkpoint" if options.checkpoint is not None else "--vocabulary-from"
    if options.checkpoint is not None or options.vocabulary_from is not None:
        for name in ("vocabulary", "vocabulary_size", *(["vocabulary_from"] if options.checkpoint is not None else [])):
            if getattr(options, name) is not None:
                raise ValueError(f"{typed(name)}: the vocabulary is that of {other}; leave it out")


def vocabulary_of(options: argparse.Namespace, pretrained: Model | None) -> Vocabulary:
    """Return the run's vocabulary: that of the pre-trained model, the stored one, a given one, or a new one."""
    if pretrained is not None:
        vocabulary: Vocabulary = pretrained.vocabulary
        return vocabulary
    if (old_vocabulary := stored_vocabulary(options)) is not None:
        return old_vocabulary
    if options.vocabulary_from is not None:
        return load_given(options.vocabulary_from)
    kind = options.vocabulary or "sentencepiece"
    reading = _reading(vars(options))
    sentences = (s.words for path in files_of(options.data) for s in read_documents(path, **reading))
    return build_of_words(sentences, kind, **size_of(kind, options.vocabulary_size))


def load_text(
    path: Any, vocabulary: Vocabulary, settings: Mapping[str, Any], max_tokens: int, cache: Path
) -> Documents:
    """Return an encoded text; `path` names a file, a folder or several, `settings` are the options of a training."""
    long = settings.get("long_sentences", "refuse")  # older trainings have no such option
    return load_documents(files_of(path), vocabulary, cache, longest=max_tokens, long=long, **_reading(settings))


def text_of(path: Any, vocabulary: Vocabulary, settings: Mapping[str, Any], max_tokens: int, cache: Path) -> Documents:
    """Return an encoded text as `load_text` does; an error at a long sentence names the options that help."""
    with open_to_words():
        text = load_text(path, vocabulary, settings, max_tokens, cache)
    try:
        cut_contexts(text, max_tokens)
    except LineError as error:
        use = "--long-sentences cut or skip"
        if settings.get("checkpoint") is None:  # the contexts of a pre-trained model cannot be larger
            use += ", or a larger --max-tokens"
        if not settings["sentence_a_line"]:
            use = f"--sentence-a-line if every line is a sentence, {use}"
        raise ValueError(f"{error}; use {use}") from error
    return text


def files_of(path: Any) -> list[Path]:
    """Return the files that one path or a list of them names."""
    return [file for entry in (path if isinstance(path, list) else [path]) for file in text_files(entry)]


def described_text(text: Documents, options: argparse.Namespace) -> tuple[str, ...]:
    """Return lines about a text: its words and documents, where its sentences end, and which option changes that."""
    n_words, parts = int(text.begins_word.sum()), {"document": len(text.documents) - 1, "file": len(text.files)}
    counts = ", ".join(f"{n:,} {name}{'s' * (n > 1)}" for name, n in ({"word": n_words} | parts).items())
    sentences = f"sentences: {n_words / len(text.lines):.0f} words on average"
    if options.sentence_a_line:
        sentences += ", one a line"
    elif options.any_case:
        sentences += "; each ends at . ? or !"
    else:
        sentences += "; each ends at . ? or ! before a capital, or with --sentence-a-line at the end of its line"
    return f"text: {counts}", sentences


def long_sentences(
    texts: Mapping[str, Documents | None], options: argparse.Namespace, max_tokens: int
) -> Iterator[str]:
    """Yield a line for every text with sentences that are too long; the line begins with the key of `texts`."""
    what = "cut" if options.long_sentences == "cut" else "left out"
    for name, text in texts.items():
        if text is not None and len(text.long):
            yield f"{name}long sentences: {len(text.long):,} of more than {max_tokens:,} tokens were {what}"


def _reading(settings: Mapping[str, Any]) -> dict[str, bool]:
    """Return the options of `read_documents`."""
    reading = {name: bool(settings.get(name)) for name in ("sentence_a_line", "any_case")}
    form = settings.get("format")
    return reading | {"wikitext": form == "wikitext", "file_is_document": form == "file"}
