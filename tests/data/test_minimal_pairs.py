"""Minimal pairs as published: words of a text, critical words, published accuracies, and bad files."""

from __future__ import annotations

import json
import lzma
import tarfile
import zipfile
from collections import Counter
from pathlib import Path
from statistics import fmean

import pytest

from accel.data.files.lines import LineError
from accel.data.published.minimal_pairs import Pair, read_blimp, read_marvin_linzen, read_published, words_of
from tests.fixtures.minimal_pair_files import HEADER, line

ONE = {"one_prefix_method": True, "one_prefix_prefix": "The dog", "one_prefix_word_good": "sleeps",
       "one_prefix_word_bad": "sleep"}  # fmt: skip
TWO = {"two_prefix_method": True, "two_prefix_prefix_good": "Dogs", "two_prefix_prefix_bad": "The  dog",
       "two_prefix_word": " can't"}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Some turtles don't sleep.", "Some turtles do n't sleep ."),
        ("Can't Lisa's ex-wife go?", "Ca n't Lisa 's ex-wife go ?"),
        (" The boys' dog won't.", "The boys ' dog wo n't ."),
        ("Who's he, Jo? I'll say: they've left; we'd", "Who 's he , Jo? I 'll say : they 've left ; we 'd"),
        ("'s", "'s"),
        ("", ""),
    ],
)
def test_words_of_a_text(text: str, words: str) -> None:
    """Words are split as in the Penn Treebank; a mark inside a text does not end a sentence."""
    assert words_of(text) == words.split()


def test_blimp(tmp_path: Path) -> None:
    """Critical words follow one prefix or two, with blanks as published; files are in folders or archives."""
    (tmp_path / "b.jsonl").write_text(line() + line(**ONE))
    (tmp_path / "a.jsonl").write_text(
        line("Dogs can't sleep.", "The dog can't sleep.", field="syntax/semantics", **TWO)
    )
    pairs = list(read_blimp(tmp_path))
    good, bad = ["The", "dog", "sleeps", "."], ["The", "dog", "sleep", "."]
    assert pairs[0].critical == (range(1, 3), range(2, 4)) and pairs[0].field == "syntax_semantics"
    assert pairs[1] == Pair("b.jsonl:1", "toy", "agreement", "morphology", good, bad)
    assert pairs[2] == pairs[1]._replace(place="b.jsonl:2", critical=(range(2, 3), range(2, 3)))
    assert list(read_blimp(tmp_path / "b.jsonl")) == pairs[1:]
    (tmp_path / "c.jsonl.xz").write_bytes(lzma.compress(line().encode()))
    assert list(read_blimp(tmp_path / "c.jsonl.xz")) == [pairs[1]._replace(place="c.jsonl.xz:1")]
    with tarfile.open(tmp_path / "x.tar.xz", "w:xz") as packed, zipfile.ZipFile(tmp_path / "x.zip", "w") as zipped:
        for name in ("a.jsonl", "b.jsonl"):
            packed.add(tmp_path / name, f"./data/{name}")
            zipped.write(tmp_path / name, f"data/{name}")
    assert list(read_blimp(tmp_path / "x.tar.xz")) == list(read_blimp(tmp_path / "x.zip")) == pairs
    assert list(read_blimp(tmp_path / "x.zip/data/b.jsonl")) == pairs[1:]
    bare = {name: value for name, value in json.loads(line()).items() if "prefix" not in name}
    (tmp_path / "own.jsonl").write_text(json.dumps(bare))
    assert list(read_blimp(tmp_path / "own.jsonl")) == [pairs[1]._replace(place="own.jsonl:1", critical=None)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", ":1:2: not JSON: Expecting property name"),
        ("[]", ":1: 'UID' is missing"),
        ("[" * 99999, ":1: not JSON: too many brackets within one another"),
        (line() + line("The \ud83d sleeps."), ":2: \\ud83d is half of a character: write both halves, or leave it out"),
        (
            line(UID=None),
            ":1: 'UID' is missing: give every line UID, field, linguistics_term, sentence_good, sentence_bad, as BLiMP",
        ),
        (line(field=7), ":1: 'field' is 7, of type int"),
        (line() + line(two_prefix_method="no"), ":2: 'two_prefix_method' is 'no', of type str"),
        (line(bad=" "), ":1: bad: a sentence without words"),
        (line(**ONE | {"one_prefix_word_good": None}), ":1: 'one_prefix_word_good' is missing"),
        (
            line(**ONE | {"one_prefix_prefix": "A dog"}),
            ":1: one_prefix_prefix, one_prefix_word_good: 'A dog sleeps' does",
        ),
        (line(**TWO), ":1: two_prefix_prefix_good, two_prefix_word: \"Dogs ca n't\" does not begin 'The dog sleeps .'"),
        (line(**ONE | {"one_prefix_word_bad": ""}), ":1: one_prefix_prefix, one_prefix_word_bad: 'The dog' does not"),
        ("", ": an empty file"),
    ],
)
def test_files_that_are_not_blimp(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "toy.jsonl"
    path.write_text(text)
    with pytest.raises(LineError) as raised:
        list(read_blimp(path))
    assert str(raised.value).startswith(f"{path}{message}")


def test_no_files_of_blimp(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no \.jsonl files in it"):
        list(read_blimp(tmp_path))
    (tmp_path / "text").write_text("words")
    with pytest.raises(ValueError, match="text: neither a .jsonl file, a folder nor an archive"):
        list(read_blimp(tmp_path / "text"))
    with pytest.raises(FileNotFoundError):
        list(read_blimp(tmp_path / "none.jsonl"))


def test_marvin_linzen(tmp_path: Path) -> None:
    """The critical word is the one that differs; a line of three sentences is two pairs."""
    rows = [
        "simple_agrmt\ts\tthe dog laughs\tthe dog laugh\t",
        "simple_reflexives\tx\the sees himself\the sees herself\t",
    ]
    rows += ["simple_npi\tpast\tno dog ever slept\tthe dog ever slept\tmost dogs ever slept"]
    (tmp_path / "ml.tsv.xz").write_bytes(lzma.compress((HEADER + "\n".join(rows) + "\n").encode()))
    agreement, reflexive, npi, third = read_marvin_linzen(tmp_path / "ml.tsv.xz")
    field = "subject-verb agreement"
    good, bad = ["the", "dog", "laughs"], ["the", "dog", "laugh"]
    one = range(2, 3), range(2, 3)
    assert agreement == Pair("ml.tsv.xz:2", "simple_agrmt", field, field, good, bad, one)
    assert reflexive.field == "reflexive anaphora" and reflexive.critical == one
    assert npi.critical is None and npi.bad == ["the", "dog", "ever", "slept"] and npi.paradigm == "simple_npi"
    assert (third.paradigm, third.good, third.bad[0]) == ("simple_npi, third sentence", npi.good, "most")
    assert third.field == "negative polarity items, third sentence" and third.place == "ml.tsv.xz:4"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("template\tgood\tbad\n", ":1: the columns are template case good bad third"),
        (HEADER, ":1: no lines after the header"),
        (HEADER + "a\tb\tc d\tc e\n", ":2: 4 columns, not 5"),
        (HEADER + "\tb\tc d\tc e\t\n", ":2: template is empty"),
        (HEADER + "a\tb\t\tc e\t\n", ":2: good: a sentence without words"),
        (HEADER + "a\tb\tc d\tc e\t \n", ":2: third: a sentence without words"),
        (HEADER + "a\tb\tc d\tc e\t\na\tb\tc d\te f\t\n", ":3: good and bad differ in other than one word"),
        (HEADER + "a\tb\tc d\tc d e\t\n", ":2: good and bad differ in other than one word"),
    ],
)
def test_files_that_are_not_marvin_linzen(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "ml.tsv"
    path.write_text(text)
    with pytest.raises(LineError) as raised:
        list(read_marvin_linzen(path))
    assert str(raised.value) == f"{path}{message}"


def test_published_accuracies(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    rows = [
        '{"UID": "a", "linguistics_term": "t", "lm": 0.5, "other": 1}',
        '{"UID": "b", "linguistics_term": "t", "lm": 0}',
    ]
    path.write_text("\n".join(rows))
    assert read_published(path) == {"lm": {("a", "t"): 0.5, ("b", "t"): 0.0}, "other": {("a", "t"): 1.0}}
    for row, message in (
        ("{", "2: not JSON"),
        ('{"UID": "\\udc80", "linguistics_term": "t"}', r" \\udc80 is half of a character"),
        ('{"UID": "a"}', " 'linguistics_term' is missing"),
        ('{"UID": "c", "linguistics_term": "t", "lm": "1"}', " 'lm' is '1', of type str"),
        ('{"UID": "c", "linguistics_term": "t", "lm": 50}', " lm: 50.0 is not between 0 and 1"),
        ('{"UID": "a", "linguistics_term": "t", "lm": 1}', " a t: a second line"),
    ):
        path.write_text("\n".join([*rows, row]))
        with pytest.raises(LineError, match=f":3:{message}"):
            read_published(path)


def test_all_of_blimp(data_dir: Path) -> None:
    """67 paradigms of 1,000 pairs, 40 with critical words; in seven pairs, both sentences are the same."""
    pairs = list(read_blimp(data_dir / "blimp" / "blimp_data.tar.xz"))
    assert set(Counter(pair.paradigm for pair in pairs).values()) == {1000} and len(pairs) == 67000
    assert len({pair.paradigm for pair in pairs if pair.critical}) == 40
    assert {pair.field for pair in pairs} == {"morphology", "semantics", "syntax", "syntax_semantics"}
    assert Counter(pair.paradigm for pair in pairs if pair.good == pair.bad) == {
        "principle_A_case_2": 5,
        "passive_1": 2,
    }
    assert {pair.good[-1] for pair in pairs} == {".", "?"}
    published = read_published(data_dir / "blimp" / "models_summary.jsonl")
    for accuracies in published.values():
        assert {key for key in accuracies if key[0] != "overall"} == {
            (pair.paradigm, pair.phenomenon) for pair in pairs
        }


def test_published_means(data_dir: Path) -> None:
    """The published accuracy of a phenomenon, and of all, is the mean over its paradigms, as in Grove."""
    for accuracies in read_published(data_dir / "blimp" / "models_summary.jsonl").values():
        paradigms = {key: value for key, value in accuracies.items() if key[0] != "overall"}
        for (uid, phenomenon), value in accuracies.items():
            if uid == "overall":
                group = [share for (_, name), share in paradigms.items() if phenomenon in (name, "overall")]
                assert value == pytest.approx(fmean(group), abs=1e-9)


def test_all_of_marvin_linzen(data_dir: Path) -> None:
    """163,124 lines; 10,824 of them make two pairs."""
    pairs = list(read_marvin_linzen(data_dir / "marvin_linzen" / "emnlp2018.tsv.xz"))
    assert len(pairs) == 163124 + 10824 and len({pair.paradigm for pair in pairs}) == 22 + 4
    assert Counter(pair.critical is None for pair in pairs) == {False: 152300, True: 2 * 10824}
