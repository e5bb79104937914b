"""`grove prepare`: folders of trees become files for training, and their counts are printed."""

from __future__ import annotations

import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from accel.data.corpora.sequences import read_treebank
from accel.data.corpora.treebank import Reading
from accel.data.vocabularies.building import build
from refimpl.trees import words

Grove = Callable[..., str]
ONE = "( (S (NP-SBJ (DT The) (NN ouzel)) (VP (VBD saw) (NP (DT the) (NN bird))) (NP (-NONE- *))) )\n"
TWO = "( (S (NP-SBJ (DT The) (NN bird)) (VP (VBD saw) (NP (DT the) (NN Dipper)))) )\n"
THREE = "( (S (NP (DT The) (NN bird)) (VP (VBD saw) (NP (DT the) (NN 3-D)))) )\n"


@pytest.fixture
def treebank(tmp_path: Path) -> Path:
    """A treebank with sections 2, 3 and 4, which have two files, one file and one file."""
    for name, text in {"02/wsj_0201": ONE + TWO, "02/wsj_0202": TWO, "03/wsj_0301": THREE, "04/wsj_0401": ONE}.items():
        path = tmp_path / "wsj" / f"{name}.mrg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "wsj"


def test_sections_become_splits(treebank: Path, tmp_path: Path, grove: Grove) -> None:
    out = tmp_path / "trees"
    report = grove("prepare", "ptb", treebank, "--out", out, "--sections", "2", "3", "4")
    assert report.splitlines() == [
        "train sentences   3",
        "train words       15",
        "valid sentences   1",
        "valid words       5",
        "test sentences    1",
        "test words        5",
        "known words       5",
        "unknown classes   2",
        "classes elsewhere 1",
        "labels            3",
        "ids of trees      15",
        "ids of words      9",
    ]
    assert (out / "train.trees").read_text().splitlines() == [
        "(S (NP (DT The) (NN ouzel)) (VP (VBD saw) (NP (DT the) (NN bird))))",
        "(S (NP (DT The) (NN bird)) (VP (VBD saw) (NP (DT the) (NN Dipper))))",
        "",
        "(S (NP (DT The) (NN bird)) (VP (VBD saw) (NP (DT the) (NN Dipper))))",
        "",
    ]
    assert (out / "train.unk.trees").read_text().splitlines()[0] == "(S (NP The UNK-LC) (VP saw (NP the bird)))"
    assert (out / "valid.unk.trees").read_text() == "(S (NP The bird) (VP saw (NP the UNK)))\n\n"


def test_labels_that_training_lacks_are_named(treebank: Path, tmp_path: Path, mistake: Grove) -> None:
    (treebank / "04" / "wsj_0401.mrg").write_text(ONE + TWO.replace("(VP", "(XP"))
    wrong = mistake("prepare", "ptb", treebank, "--out", tmp_path / "trees", "--sections", "2", "3", "4")
    reason = "the label 'XP' is not in the vocabulary of 3 labels: give more training sections"
    assert wrong == f"{tmp_path}/trees/test.trees:2: {reason}"


def test_classes_are_those_of_the_vocabulary_that_training_builds(treebank: Path, tmp_path: Path, grove: Grove) -> None:
    out = tmp_path / "trees"
    report = grove("prepare", "ptb", treebank, "--out", out, "--sections", "2", "3", "4")
    plain = build(read_treebank(out / "train.trees", Reading(drop_preterminals=True)), "unknown_classes")
    with_classes = build(read_treebank(out / "train.unk.trees"))
    assert set(plain.terminals) - set(with_classes.terminals) == {"UNK"}  # no word of training has this class
    assert f"ids of trees      {len(plain)}\n" in report


def test_full_sections_are_compared_with_published_counts(treebank: Path, tmp_path: Path, grove: Grove) -> None:
    for section in (*range(2, 22), 23, 24):
        (treebank / f"{section:02}").mkdir(exist_ok=True)
        (treebank / f"{section:02}" / "x.mrg").write_text(TWO)
    report = grove("prepare", "ptb", treebank, "--out", tmp_path / "trees")
    assert "train sentences   25 (published: 39832)" in report and "valid words       5 (published: 32853)" in report
    assert "ids of trees      16 (published: 23888)" in report and "ids of words      10 (published: 23835)" in report


def test_parts_of_bllip_become_splits(tmp_path: Path, grove: Grove, mistake: Grove) -> None:
    for year, first in (("1987", "w7"), ("1988", "w8")):
        for number in (1, 2, 3):
            for story in (0, 1):
                path = tmp_path / "bllip" / year / f"{first}_{number:03}" / f"{first}_{number:03}.{story:03}"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("(S1 (S (NP#1 (PRP it))\n  (VP (VBD rose))))\n" * 2)
    ids = tmp_path / "ids"
    ids.write_text("train 1987/w7_003\ntrain 1988/w8_003\nvalid 1987/w7_001 3\ntest 1988/w8_002 1\n")
    report = grove("prepare", "bllip", tmp_path / "bllip", "--ids", ids, "--out", tmp_path / "trees")
    assert [line.split()[-1] for line in report.splitlines()] == ["8", "16", "3", "6", "1", "2"]
    documents = list(read_treebank(tmp_path / "trees" / "valid.trees", Reading(documents="blank")))
    assert [len(words(tree)) for tree in documents] == [4, 2] and len(documents[0].children) == 2
    assert str(documents[1]) == "(DOC (S (NP (PRP it)) (VP (VBD rose))))"
    ids.write_text("test 1987/w7_001 5\n")
    wrong = mistake("prepare", "bllip", tmp_path / "bllip", "--ids", ids, "--out", tmp_path / "trees")
    assert wrong.endswith("1987/w7_001: 5 trees are asked for, 1 more than there are")
    assert sorted(path.name for path in (tmp_path / "trees").iterdir()) == ["test.trees", "train.trees", "valid.trees"]


def test_nothing_is_written_if_a_folder_is_missing(tmp_path: Path, mistake: Grove) -> None:
    (tmp_path / "wrong").mkdir()
    for source in ("bllip", "ptb"):
        reason = mistake("prepare", source, tmp_path / "wrong", "--out", tmp_path / "trees")
        assert reason.startswith(f"{tmp_path / 'wrong'}") and not (tmp_path / "trees").exists()


def test_bllip_lg_is_checked_against_footnote_2(tmp_path: Path, grove: Grove) -> None:
    folders = [f"1987/w7_{i:03}" for i in range(1, 128)] + [f"1988/w8_{i:03}" for i in range(1, 109)]
    for name in [*folders, *(f"1989/w9_{i:03}" for i in range(10, 42))]:
        (tmp_path / "bllip" / name).mkdir(parents=True)
        large = "001" in name or "002" in name or name in ("1989/w9_010", "1989/w9_011")
        (tmp_path / "bllip" / name / "story").write_text("(S1 (S (NN x)))\n" * (1000 if large else 1))
    report = grove("prepare", "bllip", tmp_path / "bllip", "--out", tmp_path / "trees")
    assert report.splitlines() == [
        "train sentences   261",
        "train words       261",
        "valid sentences   1500 (as published)",
        "valid words       1500 (published: 34925)",
        "test sentences    3000 (as published)",
        "test words        3000 (published: 72455)",
    ]


def test_folders_and_oracles_become_files(treebank: Path, tmp_path: Path, grove: Grove) -> None:
    report = grove("prepare", "mrg", treebank, "--out", tmp_path / "all.trees")
    assert report == "sentences         5\nwords             25\n"
    assert (tmp_path / "all.trees").read_text().count("\n\n") == 4
    (tmp_path / "oracle").write_text("# (S (NN It))\nIt\nUNK\nNT(S)\nSHIFT\nREDUCE\n\n")
    grove("prepare", "rnng", tmp_path / "oracle", "--out", tmp_path / "unk.trees")
    grove("prepare", "rnng", tmp_path / "oracle", "--out", tmp_path / "raw.trees", "--raw")
    assert [(tmp_path / f"{name}.trees").read_text() for name in ("unk", "raw")] == ["(S UNK)\n", "(S It)\n"]


def test_a_word_that_a_text_would_split_is_refused(tmp_path: Path, mistake: Grove) -> None:
    """Trees are split at plain blanks, text also at no-break spaces: a word with one would become two words."""
    (tmp_path / "some.trees").write_text("(S a b)\n(S 10\u00a0000 dogs)\n", encoding="utf-8")
    wrong = mistake("prepare", "text", tmp_path / "some.trees", "--convention", "plain", "--out", tmp_path / "text")
    assert wrong.startswith(f"{tmp_path}/some.trees:2: the word '10\\xa0000' has a blank, and text is split at blanks")
    assert not (tmp_path / "text").exists()


def test_options_of_other_sources_are_refused(treebank: Path, tmp_path: Path, mistake: Grove) -> None:
    out = ("--out", tmp_path / "trees")
    assert mistake("prepare", "ptb", treebank, *out, "--raw") == "--raw: is for rnng: leave it out"
    sections = ("--sections", "2", "3", "4")
    assert mistake("prepare", "mrg", treebank, *out, *sections) == "--sections: is for ptb: leave it out"
    assert mistake("prepare", "rnng", treebank, *out, "--ids", "x") == "--ids: is for bllip: leave it out"
    assert mistake("prepare", "ptb", treebank, *out).endswith(
        "wsj: no folder 05 in it: give the folder that holds the sections, such as parsed/mrg/wsj"
    )


def test_the_sample_of_the_wall_street_journal(data_dir: Path, tmp_path: Path, grove: Grove) -> None:
    """The files are in folders as in the treebank: the first files of sections 00 and 01."""
    trees = lzma.open(data_dir / "ptb_sample" / "wsj_sample.mrg.xz", "rt").read().splitlines(keepends=True)
    n_trees = 0
    for line in (data_dir / "ptb_sample" / "files.tsv").read_text().splitlines():
        name, count = line.split("\t")
        if int(name[-2:]) < 20:  # the first files of both sections
            path = tmp_path / "wsj" / name[4:6] / f"{name}.mrg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(trees[n_trees : n_trees + int(count)]))
        n_trees += int(count)
    assert n_trees == 3914
    report = grove("prepare", "ptb", tmp_path / "wsj", "--out", tmp_path / "trees", "--sections", "0-1", "1", "0")
    counts = {line[:17].strip(): int(line[18:]) for line in report.splitlines()}
    assert counts["valid sentences"] + counts["test sentences"] == counts["train sentences"]
    assert counts["ids of trees"] - counts["ids of words"] == 2 * counts["labels"]
    assert counts["classes elsewhere"] == 0  # both are parts of the training sections
    documents = read_treebank(tmp_path / "trees" / "train.unk.trees", Reading(documents="blank"))
    assert sum(1 for _ in documents) == 39


def test_trees_become_text(tmp_path: Path, grove: Grove) -> None:
    """Gold words become text in lower case without punctuation; Kim et al.'s convention keeps digits as they are."""
    tree = "(S (NP (NNP Ann)) (VP (VBD paid) (NP ($ $) (CD 12.50))) (. .))\n"
    (tmp_path / "trees").write_text(tree + "(X (. ...))\n" + tree.lower().replace("(s", "(S").upper())
    report = grove("prepare", "text", tmp_path / "trees", "--out", tmp_path / "kim.txt")
    assert report == "sentences         2\nwords             6\n"
    assert (tmp_path / "kim.txt").read_text() == "ann paid 12.50\n" * 2
    grove("prepare", "text", tmp_path / "trees", "--convention", "wsj", "--out", tmp_path / "wsj.txt")
    assert (tmp_path / "wsj.txt").read_text() == "ann paid N.N\n" * 2
