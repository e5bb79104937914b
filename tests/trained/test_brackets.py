"""Brackets in a text are the words -LRB- and -RRB- of a treebank, whatever reads the text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from accel import cli, trained
from tests.fixtures.toy_house import train

TREES = "".join(
    f"(S (NP the {noun}) (VP sleeps) (PRN -LRB- (NP the {other}) -RRB-) .)\n"
    for noun in ("dog", "cat")
    for other in ("king", "girl")
)
WRITTEN, READ = "the dog sleeps ( the king ) .", "the dog sleeps -LRB- the king -RRB- ."


def test_brackets_are_words_of_the_treebank(tmp_path: Path, grove: Callable[..., str]) -> None:
    """The vocabulary is closed, so that no unknown word stands for a bracket."""
    (tmp_path / "trees").write_text(4 * TREES)
    assert cli.main(train(tmp_path / "run", tmp_path / "trees")) == 0
    model = trained.open(tmp_path / "run")
    [bits] = model.word_surprisals(READ)
    for other in model.word_surprisals([WRITTEN, WRITTEN.split()]):
        np.testing.assert_allclose(other, bits, rtol=1e-5)
    assert model.parse(WRITTEN) == model.parse([WRITTEN.split()]) == model.parse(READ)
    (tmp_path / "text").write_text(f"{WRITTEN}\n{READ}\n")
    run = ("--checkpoint", tmp_path / "run")
    table = [line.split("\t") for line in grove("surprisal", *run, tmp_path / "text").splitlines()[1:]]
    assert [row[1] for row in table] == [*WRITTEN.split(), *READ.split()]
    assert [float(row[2]) for row in table[:8]] == pytest.approx([float(row[2]) for row in table[8:]], abs=2e-4)
    texts = [grove("generate", *run, "--prefix", text, "--words", 1) for text in (WRITTEN, READ)]
    rests = [text.removeprefix(prefix) for text, prefix in zip(texts, (WRITTEN, READ), strict=True)]
    assert rests[0] == rests[1] != texts[1]
