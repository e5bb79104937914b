"""Files of generated English: trees and their words, the same for the same seed, never overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from accel.data.files.brackets import read_trees
from accel.data.generated import english
from refimpl.trees import words


def texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


def test_the_command_writes_trees_and_their_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    english.main(["--out", str(tmp_path / "one"), "--sentences", "7"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{tmp_path}/one/train.trees: 7 sentences" and len(lines) == 6
    files = texts(tmp_path / "one")
    assert list(files) == [f"{name}.{end}" for name in ("test", "train", "valid") for end in ("trees", "txt")]
    for name, n in {"train": 7, **english.HELD_OUT}.items():
        trees = list(read_trees(files[f"{name}.trees"].splitlines()))
        assert len(trees) == n and [" ".join(words(tree)) for tree in trees] == files[f"{name}.txt"].splitlines()
    english.main(["--out", str(tmp_path / "same"), "--sentences", "7"])
    english.main(["--out", str(tmp_path / "other"), "--sentences", "7", "--seed", "1"])
    assert texts(tmp_path / "same") == files
    assert not set(texts(tmp_path / "other").values()) & set(files.values())


@pytest.mark.parametrize(("n", "message"), (("0", "--sentences 0: at least one is needed"), ("7", "File exists")))
def test_nothing_is_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str], n: str, message: str) -> None:
    (tmp_path / "test.txt").write_text("mine\n")
    with pytest.raises(SystemExit):
        english.main(["--out", str(tmp_path), "--sentences", n])
    assert message in capsys.readouterr().err
    assert texts(tmp_path) == {"test.txt": "mine\n"}
