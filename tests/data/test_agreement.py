"""Items of subject-verb agreement, read and generated."""

from __future__ import annotations

import lzma
from collections import Counter
from pathlib import Path

import pytest

from accel.data.batches.sentences import encode_examples
from accel.data.files.lines import LineError
from accel.data.generated.agreement import CLASSES, SPLITS, Item, examples, generate, read_items
from accel.data.generated.grammar import ENGLISH
from accel.data.vocabularies.words import build_words
from tests.fixtures.agreement_headers import HEADER, LINZEN

LINE = "train\td\tVBZ\t1\t2\t0\t0\tthe bird sings\n"


def test_the_words_before_the_verb(tmp_path: Path) -> None:
    path = tmp_path / "items.tsv.xz"
    text = HEADER + LINE + "test\td\tVBP\t1\t5\t1\t1\tthe birds near the tree sing\r\n"
    path.write_bytes(lzma.compress(text.encode()))
    items = read_items(path)
    assert items == [
        Item("VBZ", ("the", "bird"), 2, "train", 0, 0, ("sings",)),
        Item("VBP", ("the", "birds", "near", "the", "tree"), 3, "test", 1, 1, ("sing",)),
    ]
    words = build_words([item.words for item in items])
    encoded = encode_examples(path, examples(items), words.encode, CLASSES, 1)
    assert encoded.labels.tolist() == [0, 1] and encoded.offsets.tolist() == [0, 2, 7]


def test_linzens_layout_is_shared_out(tmp_path: Path) -> None:
    path = tmp_path / "agr.tsv"
    rows = [f"-\tVBP\t3\t{i % 2}\t{i % 2 * (i % 3 > 0)}\tthe birds{i} sing\n" for i in range(200)]
    path.write_text(LINZEN + "".join(rows))
    items = read_items(path)
    assert all(item.words == ("the", f"birds{item.line - 2}") for item in items)
    counts = Counter(item.split for item in items)
    assert counts["train"] == 18 and counts["dev"] == 2
    left_out = {*range(2, 202)} - {item.line for item in items}
    assert counts["test"] == 180 - len(left_out) and all((n - 2) % 2 and (n - 2) % 3 == 0 for n in left_out)
    assert items == read_items(path)
    assert [item.line for item in items if item.split == "train"] != list(range(2, 20))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("split\tlabel\tsentence\n" + LINE, ":1: the header has no column 'verb_index'"),
        (HEADER.replace("split\t", ""), ":1: the header has no column 'split'"),
        (HEADER, ":1: no lines after the header"),
        ("", ": an empty file"),
        (HEADER + LINE + "\n", ":3: 1 columns, the header has 8"),
        (HEADER + LINE.replace("VBZ", "VBD"), ":2: unknown label 'VBD': it must be one of VBZ VBP"),
        (HEADER + LINE.replace("train", "valid"), ":2: unknown split 'valid': it must be one of train dev test"),
        (HEADER + LINE.replace("\t2\t", "\tx\t"), ":2: verb_index is 'x', not a number"),
        (HEADER + LINE.replace("\t2\t", "\t0\t"), ":2: verb_index 0 is not that of a word after the first: 3 words"),
        (HEADER + LINE.replace("\t2\t", "\t3\t"), ":2: verb_index 3 is not that of a word after the first: 3 words"),
        (
            HEADER + LINE.replace("the bird sings", ""),
            ":2: verb_index 2 is not that of a word after the first: 0 words",
        ),
    ],
)
def test_bad_files_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "items.tsv"
    path.write_text(text)
    with pytest.raises(LineError) as error:
        read_items(path)
    assert str(error.value) == f"{path}{message}"


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_generated_items_agree_with_their_subject(split: str) -> None:
    items = generate(103, seed=2, split=split)
    number = {word: n for n in ("sg", "pl") for _, word in ENGLISH.lexicon[f"noun.{n}"]}
    for line, item in enumerate(items, 1):
        nouns = [number[word] for word in item.words if word in number]
        assert item.label == {"sg": "VBZ", "pl": "VBP"}[nouns[0]] and item.line == line and item.split == split
        assert item.n_intervening == item.n_diff_intervening == len(nouns) - 1
        assert all(noun != nouns[0] for noun in nouns[1:])
    assert len(items) == 103
    assert {item.n_diff_intervening for item in items} == ({2} if split == "test" else {0, 1})
    assert 30 < sum(item.label == "VBZ" for item in items) < 73


def test_generated_items_follow_the_seed() -> None:
    first, again, other, dev = generate(12, 1), generate(12, 1), generate(12, 2), generate(12, 1, split="dev")
    assert first == again and len({tuple(item.words for item in items) for items in (first, other, dev)}) == 3
    with pytest.raises(ValueError, match="unknown split 'valid': choose one of train, dev, test"):
        generate(3, 1, split="valid")
    with pytest.raises(ValueError, match="count must be at least 1, not 0"):
        generate(0, 1)


@pytest.mark.parametrize(("name", "counts"), [("gum", (2399, 393, 417)), ("craft", (7578, 1197, 3602))])
def test_real_items(data_dir: Path, name: str, counts: tuple[int, ...]) -> None:
    items = read_items(data_dir / "sva" / f"derived_{name}.tsv.xz")
    per_split = Counter(item.split for item in items)
    assert tuple(per_split[split] for split in SPLITS) == counts
    assert all(item.words and item.n_diff_intervening <= item.n_intervening for item in items)
