"""The pieces of an ALBERT: a SentencePiece model with symbols for the first token, the ends and masked tokens."""

from __future__ import annotations

import base64
import io
import json
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import sentencepiece

from accel.data.vocabularies.terminals import refusal_of

UNKNOWN, FIRST, SEPARATOR, MASK = "<unk>", "[CLS]", "[SEP]", "[MASK]"


@dataclass(frozen=True)
class AlbertPieces:
    """A numbering of pieces.

    Attributes
    ----------
    model : bytes
        The SentencePiece model. Its pieces include FIRST, SEPARATOR and MASK.
    lower_case : bool
        Whether words are read in lower case.
    keep_accents : bool
        Whether accents stay; otherwise combining marks are left out.

    Raises
    ------
    ValueError
        If `model` is not a SentencePiece model, or lacks a symbol.
    """

    model: bytes
    lower_case: bool = True
    keep_accents: bool = False

    def __post_init__(self) -> None:
        try:
            pieces = self._processor
        except RuntimeError as error:
            raise ValueError("not a SentencePiece model") from error
        for symbol in (FIRST, SEPARATOR, MASK):
            if pieces.piece_to_id(symbol) == pieces.unk_id():
                raise ValueError(f"the SentencePiece model has no piece {symbol}")

    def __len__(self) -> int:
        return int(self._processor.get_piece_size())

    @cached_property
    def ids(self) -> dict[str, int]:
        """The ids of FIRST, SEPARATOR, MASK and UNKNOWN."""
        symbols = {symbol: self._processor.piece_to_id(symbol) for symbol in (FIRST, SEPARATOR, MASK)}
        return symbols | {UNKNOWN: self._processor.unk_id()}

    def encode_words(self, words: Iterable[str]) -> list[int]:
        """Return the ids of words; where no piece fits, that of UNKNOWN."""
        text = " ".join(words)
        ids = self._processor.encode(normalised(text, self.lower_case, self.keep_accents))
        return [int(i) for i in ids or [self._processor.unk_id()] * bool(text)]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Return the words of ids."""
        return str(self._processor.decode(list(ids))).split()

    def to_json(self) -> str:
        """Return the pieces as one line of JSON; `from_json` reads it."""
        model = base64.b64encode(self.model).decode("ascii")
        fields = {"kind": "albert", "model": model, "lower_case": self.lower_case, "keep_accents": self.keep_accents}
        return json.dumps(fields, sort_keys=True)

    @staticmethod
    def from_json(text: str) -> AlbertPieces:
        """Return the pieces that `to_json` wrote."""
        try:
            fields = json.loads(text)
            model = base64.b64decode(fields["model"], validate=True)
            return AlbertPieces(model, fields["lower_case"], fields["keep_accents"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not the pieces of an ALBERT: {error}") from error

    @cached_property
    def _processor(self) -> sentencepiece.SentencePieceProcessor:
        return sentencepiece.SentencePieceProcessor(model_proto=self.model)


def normalised(text: str, lower_case: bool = True, keep_accents: bool = False) -> str:
    """Return a text as the SentencePiece model reads it: two single quotation marks are a double one.

    Examples
    --------
    >>> normalised("``Voil\u00e0''")
    '"voila"'
    """
    for quotes in ("``", "''"):
        text = text.replace(quotes, '"')
    if not keep_accents:
        text = "".join(c for c in unicodedata.normalize("NFKD", text) if unicodedata.category(c) != "Mn")
    return text.lower() if lower_case else text


def train_albert_pieces(lines: Iterable[str], size: int) -> AlbertPieces:
    """Return pieces trained on text as ALBERT's are, at most `size` of them, in lower case and without accents.

    Raises
    ------
    ValueError
        If there is no text, or `size` has no room for every letter of it.
    """
    model, texts = io.BytesIO(), list(map(normalised, lines))  # read here: SentencePiece hides the reader's errors
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=model,
            model_type="unigram",
            vocab_size=size,
            character_coverage=0.9995,
            pad_id=0,
            unk_id=1,
            bos_id=-1,
            eos_id=-1,
            control_symbols=[FIRST, SEPARATOR, MASK],
            hard_vocab_limit=False,
            max_sentence_length=2**30,  # bytes: by default longer lines are left out
            num_threads=1,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise ValueError(f"vocabulary size {size}, but {refusal_of(str(error), 'symbol')}") from None
    return AlbertPieces(model.getvalue())
