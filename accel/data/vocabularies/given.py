"""Vocabularies that others have made: SentencePiece models, the byte pairs of GPT-2, the word pieces of BERT.

Their pieces get the ids of our numbering. A word that cannot be spelled with them is the unknown word.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sentencepiece

from accel.data.vocabularies.byte_pairs import MARK
from accel.data.vocabularies.vocabulary import UNKNOWN, Vocabulary
from accel.data.vocabularies.word_pieces import UNKNOWN_PIECE

STORED, PAIRS, MERGES, PIECES = "vocabulary.json", "vocab.json", "merges.txt", "vocab.txt"
_FORMS = f"a run, a SentencePiece model, a folder with GPT-2's {PAIRS} and {MERGES}, or a list of word pieces, {PIECES}"


def load_given(path: str | Path) -> Vocabulary:
    """Return the vocabulary of a run, without its labels, or of files that another program wrote.

    Parameters
    ----------
    path : str or Path
        A run's folder or its vocabulary; a SentencePiece model; a folder with GPT-2's vocab.json and merges.txt, or one
        of the two; a list of word pieces, or a folder with a vocab.txt.

    Raises
    ------
    ValueError
        If it is none of these, or is broken; it names the file.
    FileNotFoundError
        If it does not exist.
    """
    path = Path(path)
    name = next((name for name in (STORED, PAIRS, PIECES) if (path / name).is_file()), None)
    if path.is_dir() and name is None:
        raise ValueError(f"{path}: no vocabulary in this folder; give {_FORMS}")
    file = path / name if name is not None else path
    if file.name in (PAIRS, MERGES):
        return _byte_pairs(file.with_name(PAIRS), file.with_name(MERGES))
    data = file.read_bytes()
    with _named(file):
        if file.suffix == ".json":
            return _of_run(data)
        return _word_pieces(data) if file.suffix == ".txt" else _sentencepiece(data)


@contextmanager
def _named(file: Path) -> Iterator[None]:
    """Name the file whose content is not what it should be."""
    try:
        yield
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{file}: {error}; give {_FORMS}") from error


def _of_run(data: bytes) -> Vocabulary:
    vocabulary = Vocabulary.from_json(data.decode("utf-8"))
    return Vocabulary(vocabulary.kind, vocabulary.terminals, (), vocabulary.model)


def _byte_pairs(pairs: Path, merges: Path) -> Vocabulary:
    """Return the vocabulary of GPT-2's two files; ValueError if they are not such files."""
    with _named(pairs):
        ids = json.loads(pairs.read_text(encoding="utf-8"))
    if not isinstance(ids, dict) or MARK not in ids:
        raise ValueError(f"{pairs}: not a list of byte pairs: it does not have {MARK!r}, a blank")
    with _named(merges):
        lines = merges.read_text(encoding="utf-8").splitlines()
    ordered = [line for line in lines if line and not line.startswith("#version")]
    for number, line in enumerate(ordered, 1):
        if len(line.split(" ")) != 2 or line.replace(" ", "") not in ids:
            raise ValueError(f"{merges}: merge {number}, {line!r}: not two pieces whose pair is in {pairs.name}")
    return Vocabulary("byte_pairs", tuple(sorted(ids)), (), "\n".join(ordered).encode())


def _word_pieces(data: bytes) -> Vocabulary:
    pieces = [line for line in data.decode("utf-8").splitlines() if line]
    if UNKNOWN_PIECE not in pieces:
        raise ValueError(f"not a list of word pieces: it does not have {UNKNOWN_PIECE}")
    return Vocabulary("word_pieces", tuple(sorted(set(pieces))), ())


def _sentencepiece(data: bytes) -> Vocabulary:
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.load_from_serialized_proto(data)
    except RuntimeError:
        raise ValueError("not a SentencePiece model") from None
    ids = (i for i in range(processor.get_piece_size()) if not (processor.is_control(i) or processor.is_unknown(i)))
    pieces = {processor.id_to_piece(i) for i in ids}
    if not processor.encode("a", out_type=str)[0].startswith("\u2581"):
        raise ValueError("a SentencePiece model without a mark where words begin (add_dummy_prefix)")
    has_bytes = any(processor.is_byte(i) for i in range(processor.get_piece_size()))
    return Vocabulary("sentencepiece", tuple(sorted(pieces | (set() if has_bytes else {UNKNOWN}))), (), data)
