"""Oracles of recurrent neural network grammars become trees again."""

from __future__ import annotations

from pathlib import Path

import pytest

from accel.data.files.lines import LineError
from accel.data.published.rnng_oracles import read_oracle

ACTIONS = "NT(S)\nNT(NP)\nSHIFT\nSHIFT\nREDUCE\nNT(VP)\nSHIFT\nREDUCE\nREDUCE\n"
BRACKETS = "# (S (NP (DT The) (NN ouzel)) (VP (VBZ sings)))\n"
GENERATIVE = f"{BRACKETS}The ouzel sings\nThe UNK-LC sings\n{ACTIONS}\n"
DISCRIMINATIVE = f"{BRACKETS}DT NN VBZ\nThe ouzel sings\nthe ouzel sings\nThe UNK-LC sings\n{ACTIONS}\n"


@pytest.mark.parametrize("block", [GENERATIVE, DISCRIMINATIVE])
def test_both_kinds_are_read(tmp_path: Path, block: str) -> None:
    path = tmp_path / "oracle"
    path.write_text(block * 2 + "\n")
    assert [str(tree) for tree in read_oracle(path)] == ["(S (NP The UNK-LC) (VP sings))"] * 2
    assert [str(tree) for tree in read_oracle(path, raw=True)] == ["(S (NP The ouzel) (VP sings))"] * 2


@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        ("# (S", "(S", 14, "not a block of an oracle"),
        ("NT(S)\n", "", 24, "'REDUCE' fits no tree over 3 words here"),
        ("NT(VP)\nSHIFT\nREDUCE\n", "", 14, "3 words, of which the actions shift 2"),
        ("SHIFT\nSHIFT\nREDUCE", "REDUCE\nSHIFT\nSHIFT", 19, "empty constituent: .NP"),
        ("SHIFT\nREDUCE\nREDUCE", "SHIFT\nSHIFT\nREDUCE", 24, "'SHIFT' fits no tree over 3 words here"),
        ("REDUCE\nREDUCE\n", "REDUCE\n", 17, "unclosed bracket: .S"),
        ("NT(VP)", "GEN(VP)", 22, r"'GEN\(VP\)' fits no tree"),
    ],
)
def test_blocks_that_are_no_tree_are_named_by_line(tmp_path: Path, old: str, new: str, line: int, reason: str) -> None:
    assert old in GENERATIVE
    path = tmp_path / "oracle"
    path.write_text(GENERATIVE + GENERATIVE.replace(old, new))
    with pytest.raises(LineError, match=reason) as error:
        list(read_oracle(path))
    assert error.value.line == line
