"""Vocabularies from elsewhere: published examples of GPT-2 and BERT, SentencePiece models, runs, and broken files."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from accel.data.vocabularies import byte_pairs, word_pieces
from accel.data.vocabularies.building import build
from accel.data.vocabularies.given import load_given
from accel.data.vocabularies.vocabulary import Vocabulary, VocabularyError
from accel.trained.words import count_unknown
from refimpl.trees import Tree

PAIRS = "l o w e r s t i d n Ġ Ġl Ġn Ġlo Ġlow er Ġlowest Ġnewer Ġwider <unk> <|endoftext|>".split()
MERGES = "#version: 0.2\nĠ l\nĠl o\nĠlo w\ne r\n"
PIECES = "[UNK] [CLS] [SEP] want ##want ##ed wa un runn ##ing ,".split()


@pytest.fixture
def gpt2(tmp_path: Path) -> Path:
    """A folder with the files of the GPT-2 tokenizer's test in the library transformers."""
    (tmp_path / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(PAIRS)}))
    (tmp_path / "merges.txt").write_text(MERGES)
    return tmp_path


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    """The word list of the BERT tokenizer's test, by BERT's authors."""
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in PIECES))
    return tmp_path / "vocab.txt"


def spelled(vocabulary: Vocabulary, *words: str) -> list[str]:
    return [vocabulary.symbols[i] for i in vocabulary.encode_words(words)]


def test_byte_pairs_of_gpt2(gpt2: Path) -> None:
    for path in (gpt2, gpt2 / "vocab.json", gpt2 / "merges.txt"):
        vocabulary = load_given(path)
        assert spelled(vocabulary, "lower", "newer") == ["Ġlow", "er", "Ġ", "n", "e", "w", "er"]
    ids = vocabulary.encode_words(["lower", "newer", "low"])
    assert vocabulary.begins_word[ids].tolist() == [True, False, True, False, False, False, False, True]
    assert vocabulary.decode(ids) == ["lower", "newer", "low"]
    assert len(vocabulary) == 2 + len(PAIRS) and Vocabulary.from_json(vocabulary.to_json()) == vocabulary
    assert spelled(vocabulary, "x") == ["<unk>"]


def test_every_byte_has_a_character() -> None:
    """Characters are those of GPT-2: byte 0 is Ā, a blank is Ġ, and a printable character stands for itself."""
    characters = byte_pairs.CHARACTERS
    assert len(set(characters.values())) == 256 and not any(x.isspace() for x in characters.values())
    assert [characters[byte] for byte in (0, 32, 33, 127, 160, 161, 173, 255)] == list("ĀĠ!ġł¡Ńÿ")


@given(st.text(st.characters(exclude_categories=("Cs", "Z", "C")), min_size=1, max_size=9))
def test_words_of_all_characters_come_back(word: str) -> None:
    alphabet = Vocabulary("byte_pairs", tuple(sorted(byte_pairs.CHARACTERS.values())), (), "Ġ a\na b".encode())
    pieces = byte_pairs.cut(word, {("Ġ", "a"): 0, ("a", "b"): 1})
    assert byte_pairs.joined(pieces) == word and pieces[0].startswith("Ġ")
    assert not any(piece.startswith("Ġ") for piece in pieces[1:])
    assert alphabet.kind == "byte_pairs" and len(alphabet) == 258


@given(st.text(st.sampled_from("a'éstvlm3²Ⅷ.!日dr-"), min_size=1, max_size=8))
def test_runs_are_those_of_gpt2_s_pattern(word: str) -> None:
    pattern = pytest.importorskip("regex", reason="the extra translate is not installed").compile(
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    )
    assert byte_pairs.runs(word) == pattern.findall(f" {word}")


def test_word_pieces_of_bert(bert: Path) -> None:
    for path in (bert, bert.parent):
        vocabulary = load_given(path)
        assert spelled(vocabulary, "unwanted", "running") == ["un", "##want", "##ed", "runn", "##ing"]
    assert spelled(vocabulary, "unwantedX", "running") == ["[UNK]", "runn", "##ing"]
    assert spelled(vocabulary, "UNwantéd,running") == ["un", "##want", "##ed", ",", "runn", "##ing"]
    assert spelled(vocabulary, "<unk>", "\u200b") == ["[UNK]", "[UNK]"]
    ids = vocabulary.encode_words(["unwanted", "running"])
    assert vocabulary.decode(ids) == ["unwanted", "running"]
    assert vocabulary.begins_word[ids].tolist() == [True, False, False, True, False]
    assert Vocabulary.from_json(vocabulary.to_json()) == vocabulary


def test_known_words_that_bert_spells_otherwise_are_not_unknown(bert: Path) -> None:
    """Decoding changes a capital and splits at punctuation; only a word of which a part has no piece is unknown."""
    model: Any = SimpleNamespace(vocabulary=load_given(bert), reading=None)
    assert model.vocabulary.decode(model.vocabulary.encode_words(["UnWanted,"])) == ["unwanted", ","]
    assert count_unknown(model, ["UnWanted,", "unwanted", "zebra"]) == 1


def test_words_are_cut_as_by_bert() -> None:
    """The examples are those of the test by BERT's authors."""
    assert word_pieces.parts("ah\u535a\u63a8zz", lower=False) == ["ah", "\u535a", "\u63a8", "zz"]
    assert word_pieces.parts("HeLLo!how", lower=True) == ["hello", "!", "how"]
    assert word_pieces.parts("HeLLo!how", lower=False) == ["HeLLo", "!", "how"]
    assert word_pieces.parts("H\u00e9llo", lower=True) == ["hello"]
    assert word_pieces.parts("a\x00b\ufffdc", lower=True) == ["abc"]
    assert word_pieces.cut("a" * 101, {"a", "##a"}, lower=True) == ["[UNK]"]
    assert len(word_pieces.cut("a" * 100, {"a", "##a"}, lower=True)) == 100


@pytest.mark.parametrize("with_bytes", [False, True])
def test_a_sentencepiece_model(tmp_path: Path, with_bytes: bool) -> None:
    """Control symbols have no ids; a word that cannot be spelled is <unk>, or bytes."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["the bird sings", "the birds sing"] * 20), model_writer=model, model_type="bpe",
        vocab_size=290 if with_bytes else 25, byte_fallback=with_bytes, minloglevel=2, hard_vocab_limit=False,
    )  # fmt: skip
    (tmp_path / "a.model").write_bytes(model.getvalue())
    vocabulary = load_given(tmp_path / "a.model")
    assert not {"<s>", "</s>"} & set(vocabulary.terminals)
    ids = vocabulary.encode_words(["birds", "zebra", "the"])
    assert vocabulary.decode(ids) == ["birds", "zebra" if with_bytes else "<unk>", "the"]
    assert spelled(vocabulary, "\u200b")  # normalisation removes it
    assert ("<unk>" in vocabulary.terminals) != with_bytes
    assert Vocabulary.from_json(vocabulary.to_json()) == vocabulary


def test_the_vocabulary_of_a_run_without_its_labels(tmp_path: Path) -> None:
    vocabulary = build([Tree("S", (Tree("NP", ("dogs",)), "sleep"))])
    (tmp_path / "vocabulary.json").write_text(vocabulary.to_json())
    for path in (tmp_path, tmp_path / "vocabulary.json"):
        assert load_given(path) == Vocabulary("words", ("dogs", "sleep"), ())


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.model", "no model", "a.model: not a SentencePiece model; give a run, a SentencePiece model, a folder"),
        ("vocab.txt", "a\nb\n", r"vocab.txt: not a list of word pieces: it does not have \[UNK\]; give a run"),
        ("vocabulary.json", '{"words": ["a"], "unknown": null}', "vocabulary.json: not a vocabulary: 'model'; give"),
        ("vocab.json", '{"a": 1}', "vocab.json: not a list of byte pairs: it does not have 'Ġ', a blank"),
        ("vocab.json", "{", "vocab.json: Expecting property name .*; give a run"),
        ("readme", "", "no vocabulary in this folder; give a run"),
    ],
)
def test_broken_files_are_named(tmp_path: Path, name: str, text: str, reason: str) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / "merges.txt").write_text(MERGES)
    with pytest.raises(ValueError, match=reason) as error:
        load_given(tmp_path if name == "readme" else tmp_path / name)
    assert "\n" not in str(error.value)


def test_broken_merges_are_named(gpt2: Path) -> None:
    (gpt2 / "merges.txt").write_text("#version: 0.2\nĠ l\nl x\n")
    with pytest.raises(ValueError, match=r"merges.txt: merge 2, 'l x': not two pieces whose pair is in vocab.json"):
        load_given(gpt2)
    (gpt2 / "merges.txt").unlink()
    with pytest.raises(FileNotFoundError):
        load_given(gpt2)
    closed = Vocabulary("byte_pairs", ("a", "Ġ"), (), "Ġ a".encode())
    with pytest.raises(VocabularyError, match="the word 'b' cannot be spelled with the pieces of the vocabulary"):
        closed.encode_words(["b"])


def test_the_unknown_word_is_one_piece() -> None:
    """This holds if the training data have <unk>; other words are spelled as before."""
    trees = [Tree("S", ("<unk>", "birds", "sing", "<unk>"))] * 3
    vocabulary = build(trees, "sentencepiece", 300, fit=True)
    ids = vocabulary.encode_words(["birds", "<unk>", "sing"])
    assert vocabulary.decode(ids) == ["birds", "<unk>", "sing"] and spelled(vocabulary, "<unk>") == ["<unk>"]
    assert vocabulary.begins_word[vocabulary.encode_words(["<unk>"])].tolist() == [True]
    assert vocabulary.decode(vocabulary.encode(trees[0])) == ["(S", "<unk>", "birds", "sing", "<unk>", "S)"]
