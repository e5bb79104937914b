"""Minimal pairs of agreement: the other form of a verb, tables and files of forms, and their errors."""

from __future__ import annotations

import gzip
import lzma
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from accel.data.files.lines import LineError
from accel.data.generated.agreement import read_items
from accel.data.published.agreement_pairs import other_form, read_agreement
from tests.fixtures.agreement_headers import HEADER, LINZEN

TWELVE = "L!NOUN_VERB!Number=Sing\t3\t{}\t2\tVERB\tMood=Ind\tsings\tsing\tsing\t1\tNOUN\tA bird runs\n"


@pytest.mark.parametrize(
    ("singular", "plural"),
    [
        *[("is", "are"), ("has", "have"), ("does", "do"), ("goes", "go"), ("undergoes", "undergo")],
        *[("says", "say"), ("tries", "try"), ("dies", "die"), ("belies", "belie"), ("relies", "rely")],
        *[("passes", "pass"), ("mixes", "mix"), ("matches", "match"), ("pushes", "push"), ("buzzes", "buzz")],
        *[("uses", "use"), ("ceases", "cease"), ("focuses", "focus"), ("co-operates", "co-operate")],
        *[("Is", "Are"), ("Passes", "Pass"), ("GETS", "GET")],
    ],
)
def test_forms_of_a_verb(singular: str, plural: str) -> None:
    assert (other_form(singular, "VBZ"), other_form(plural, "VBP")) == (plural, singular)


def test_forms_that_are_not_known() -> None:
    unknown = [
        ("'s", "VBZ"),
        ("in", "VBZ"),
        ("pass", "VBZ"),
        ("'re", "VBP"),
        ("dOes", "VBZ"),
        ("7s", "VBZ"),
        ("", "VBP"),
    ]
    assert [other_form(*verb) for verb in unknown] == [None] * len(unknown)


def test_tables(tmp_path: Path) -> None:
    """Pairs are made from the sentences of one split, by attractors; a verb without another form is skipped."""
    path = tmp_path / "items.tsv.xz"
    rows = ["test\td\tVBZ\t1\t2\t0\t0\tthe bird sings loud", "train\td\tVBZ\t1\t2\t0\t0\tthe bird sings"]
    rows += ["test\td\tVBP\t1\t5\t1\t6\tthe birds near the tree are .", "test\td\tVBZ\t0\t1\t0\t1\tit 's ."]
    path.write_bytes(lzma.compress((HEADER + "\n".join(rows)).encode()))
    first, second, third = read_agreement(path)
    assert (first.good, first.bad) == (["the", "bird", "sings", "loud"], ["the", "bird", "sing", "loud"])
    assert first.critical == (range(2, 3), range(2, 3)) and first.place == "items.tsv.xz:2"
    assert [pair.paradigm for pair in (first, second, third)] == [
        "0 attractors", "4 attractors or more", "1 attractor",
    ]  # fmt: skip
    assert second.bad[5] == "is" and second.critical == (range(5, 6), range(5, 6))
    assert third.skipped == 'no other form of "\'s", VBZ, is known' and not third.good
    assert len(list(read_agreement(path, "train"))) == 1
    with pytest.raises(ValueError, match="no sentence is of the split dev"):
        list(read_agreement(path, "dev"))
    (tmp_path / "agr.tsv").write_text(LINZEN + "".join(f"-\tVBP\t3\t1\t1\tthe birds{i} sing\n" for i in range(20)))
    assert len(list(read_agreement(tmp_path / "agr.tsv"))) == 19


def test_both_forms_in_a_file(tmp_path: Path) -> None:
    """Wikipedia's sentences and nonsense sentences are read from a file, or from all files of a folder or archive."""
    (tmp_path / "w.gold").write_text("2\tSings\tSing\t0\n1\tis\tis\t4\n")
    (tmp_path / "w.text").write_text("the bird sings . <eos>\nit is <eos>\n")
    (tmp_path / "n.gold").write_text(TWELVE.format(0) + TWELVE.format(5))
    (tmp_path / "n.text").write_text("A bird runs . <eos>\nA pain digs .\n")
    original, generated = read_agreement(tmp_path / "n.gold")
    assert (original.paradigm, generated.paradigm) == ("NOUN_VERB, original", "NOUN_VERB, generated")
    assert original.field == original.phenomenon == "original sentences" and generated.place == "n.gold:2"
    assert (generated.good, generated.bad) == (["A", "pain", "sings", "."], ["A", "pain", "sing", "."])
    first, second = read_agreement(tmp_path / "w.gold")
    assert first.good == ["the", "bird", "Sings", "."] and first.paradigm == "0 attractors"
    assert second.skipped == "'is' is both the right form and the wrong one"
    with tarfile.open(tmp_path / "x.tar.xz", "w:xz") as packed:
        for name in ("w.gold", "w.text", "n.gold", "n.text"):
            packed.add(tmp_path / name, f"data/{name}")
    assert list(read_agreement(tmp_path)) == [original, generated, first, second]
    assert sorted(read_agreement(tmp_path / "x.tar.xz")) == sorted([original, generated, first, second])
    assert list(read_agreement(tmp_path / "x.tar.xz" / "data" / "n.gold")) == [original, generated]


@pytest.mark.parametrize(
    ("gold", "text"), [("w.gold.gz", "w.text.xz"), ("w.gold.xz", "w.text"), ("w.gold", "w.text.gz")]
)
def test_files_of_forms_may_be_packed(tmp_path: Path, gold: str, text: str) -> None:
    """Each file is plain or packed by itself; a .gold file and its .text have one name without that."""
    packs = {"gz": gzip.compress, "xz": lzma.compress}
    for name, content in ((gold, b"2\tsings\tsing\t0\n"), (text, b"the bird sings . <eos>\n")):
        (tmp_path / name).write_bytes(packs.get(name.rpartition(".")[2], bytes)(content))
    [pair] = read_agreement(tmp_path / gold)
    assert pair.bad == ["the", "bird", "sing", "."] and pair.place == f"{gold}:1"
    assert list(read_agreement(tmp_path)) == [pair]
    for name in ("w.text", "w.text.gz"):
        (tmp_path / name).touch()
    (tmp_path / "w.text.xz").unlink(missing_ok=True)
    for path in (tmp_path, tmp_path / gold):
        with pytest.raises(ValueError, match=r"holds both w\.text and w\.text\.gz: keep one"):
            list(read_agreement(path))


@pytest.mark.parametrize(
    ("gold", "message"),
    [
        ("2\tsings\tsing\n", ":1: 3 columns, neither 4 nor 12"),
        ("2\tsings\tsing\tx\n", ":1: the number of attractors is 'x'"),
        ("-1\tsings\tsing\t0\n", ":1: the place of the verb is '-1'"),
        ("4\tsings\tsing\t0\n", ":1: the place of the verb is 4: the sentence has 4 words"),
        ("1\tsings\tsing\t0\n", ":1: the verb is 'sings', but the sentence has 'bird' there"),
        (TWELVE.format(0).replace("sings\tsing\t", "sings\t\t"), ":1: a form of the verb is empty"),
        ("2\tsings\tsing\t0\n2\tsings\tsing\t0\n", ":2: the .text beside it has another number of lines"),
    ],
)
def test_files_that_are_not_right(tmp_path: Path, gold: str, message: str) -> None:
    (tmp_path / "x.text").write_text("the bird sings . <eos>\n")
    (tmp_path / "x.gold").write_text(gold)
    with pytest.raises(LineError) as raised:
        list(read_agreement(tmp_path / "x.gold"))
    assert str(raised.value) == f"{tmp_path / 'x.gold'}{message}"


def test_files_that_are_missing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no \.text files in it"):
        list(read_agreement(tmp_path))
    (tmp_path / "x.gold").write_text("1\ta\tb\t0\n")
    with pytest.raises(FileNotFoundError, match=r"x\.text"):
        list(read_agreement(tmp_path / "x.gold"))
    (tmp_path / "y.text").write_text("a\n")
    with pytest.raises(ValueError, match=r"x\.gold: no \.text beside it"):
        list(read_agreement(tmp_path))


def test_files_of_forms_have_no_splits(tmp_path: Path) -> None:
    for name, content in (("x.gold", "1\ta\tb\t0\n"), ("x.text", "a a\n")):
        (tmp_path / name).write_text(content)
    for path in (tmp_path, tmp_path / "x.gold"):
        assert len(list(read_agreement(path))) == 1
        with pytest.raises(ValueError, match=f"^--split: is for a table, .tsv, not for {path}: leave it out$"):
            list(read_agreement(path, "test"))


@pytest.mark.parametrize(("name", "unknown"), [("gum", 42), ("craft", 1)])
def test_forms_of_the_treebanks_verbs(data_dir: Path, name: str, unknown: int) -> None:
    """The other form of a verb's other form is the verb; the few verbs without one are clitics and one wrong tag."""
    items = read_items(data_dir / "sva" / f"derived_{name}.tsv.xz")
    verbs = Counter((item.rest[0], item.label) for item in items)
    n_missing = 0
    for (verb, label), count in verbs.items():
        other = other_form(verb, label)
        n_missing += count if other is None else 0
        assert other is None or other_form(other, {"VBZ": "VBP", "VBP": "VBZ"}[label]) == verb
    assert n_missing == unknown


def test_colorless_green(data_dir: Path) -> None:
    """7,489 sentences of Wikipedia, four of them with one form only, and 410 nonsense sentences or their originals."""
    pairs = list(read_agreement(data_dir / "sva" / "colorlessgreen_english.tar.xz"))
    counts = Counter(pair.field for pair in pairs)
    assert counts == {"Wikipedia sentences": 7489, "generated sentences": 369, "original sentences": 41}
    assert sum(bool(pair.skipped) for pair in pairs) == 4
    assert all(pair.good[0] and "<eos>" not in pair.good for pair in pairs if not pair.skipped)
