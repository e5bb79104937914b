"""Folders of trees: the sections of the Penn Treebank, the parts of BLLIP, and any .mrg files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from accel.data.files.lines import LineError
from accel.data.published.treebank_folders import (
    BLLIP_LG,
    Part,
    documents_of,
    mrg_files,
    part_files,
    read_document,
    read_parts,
    section_files,
    sections,
)
from refimpl.trees import words

TREE = "( (S (NP-SBJ-1 (DT the) (NN bird)) (VP (VBZ sings)\n  (NP (-NONE- *)))) )\n"


def test_a_document_keeps_its_tags_only(tmp_path: Path) -> None:
    path = tmp_path / "w7_001.000"
    path.write_text(TREE + "(S1 (S (NP#3 (PRP it)) (VP (VBD rose) (NP (# #) (CD 4)))))\n(TOP (FRAG (UH oh)))\n(S1 x)\n")
    assert [str(tree) for tree in read_document(path)] == [
        "(S (NP (DT the) (NN bird)) (VP (VBZ sings)))",
        "(S (NP (PRP it)) (VP (VBD rose) (NP (# #) (CD 4))))",
        "(FRAG (UH oh))",
        "(S1 x)",
    ]


def test_files_of_trees_are_found_in_order(tmp_path: Path) -> None:
    for name in ("02/wsj_0202.mrg", "02/WSJ_0201.MRG", "03/b/wsj_0301.mrg", "03/readme.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(TREE)
    names = [path.name for path in mrg_files(tmp_path)]
    assert names == ["WSJ_0201.MRG", "wsj_0202.mrg", "wsj_0301.mrg"]
    assert [path.name for path in section_files(tmp_path, "2-3")] == names
    assert [path.name for path in section_files(tmp_path, "3")] == names[2:]
    with pytest.raises(ValueError, match="no folder 04 in it: give the folder that holds the sections"):
        section_files(tmp_path, "2-4")
    (tmp_path / "05").mkdir()
    with pytest.raises(ValueError, match=r"05: not a folder with \.mrg files below it"):
        section_files(tmp_path, "5")


@pytest.mark.parametrize("text", ["", "2-", "21-2", "25", "2,3", "two", "²"])
def test_what_names_no_sections_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="names no sections: give one such as 24"):
        sections(text)


def test_the_largest_selection_of_bllip_counts_as_published() -> None:
    """Validation has 1,500 sentences and test has 3,000, from folders that no other split has (footnote 2)."""
    assert Counter(part.split for part in BLLIP_LG) == {"train": 125 + 106 + 30, "valid": 3, "test": 3}
    assert len({part.name for part in BLLIP_LG}) == len(BLLIP_LG)
    counts = {split: sum(part.n_trees or 0 for part in BLLIP_LG if part.split == split) for split in ("valid", "test")}
    assert counts == {"valid": 1500, "test": 3000}


def test_the_first_trees_of_a_folder_are_taken(tmp_path: Path) -> None:
    folder = tmp_path / "1987" / "W7_001"
    folder.mkdir(parents=True)
    for number in range(3):
        (folder / f"W7_001.00{number}").write_text("".join(f"(S1 (S (X w{number}{i})))\n" for i in range(2)))
    (folder / ".hidden").write_text("")

    def read(name: str, count: int | None) -> list[list[str]]:
        return [[words(tree)[0] for tree in trees] for trees in documents_of(tmp_path, Part("train", name, count))]

    assert read("1987/w7_001", None) == [["w00", "w01"], ["w10", "w11"], ["w20", "w21"]]
    assert read("1987/w7_001", 3) == [["w00", "w01"], ["w10"]]
    assert read("1987/w7_001", 4) == [["w00", "w01"], ["w10", "w11"]]
    assert read("1987/w7_001/w7_001.002", None) == [["w20", "w21"]]
    with pytest.raises(ValueError, match="1987/w7_001: 7 trees are asked for, 1 more than there are"):
        read("1987/w7_001", 7)
    with pytest.raises(ValueError, match="1987/w7_009: no such file, nor a folder with files in it"):
        part_files(tmp_path, Part("train", "1987/w7_009"))


def test_parts_are_listed_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "ids"
    path.write_text("train 1987/w7_003\n\nvalid 1987/w7_001 500\n")
    assert read_parts(path) == [Part("train", "1987/w7_003"), Part("valid", "1987/w7_001", 500)]
    for line in ("dev a", "train", "train a b", "train a 0", "train a 1 2"):
        path.write_text(f"train x\n{line}\n")
        with pytest.raises(LineError, match="ids:2: not train, valid or test, a folder or file, and perhaps a number"):
            read_parts(path)
    path.write_text("train a\ntest a 3\n")
    with pytest.raises(LineError, match="lists a folder or file twice"):
        read_parts(path)
