"""The data of a training that is resumed are those that it read at its start."""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path
from typing import Any

import pytest

from accel import cli
from accel.commands.resuming import require_same_contents
from accel.data.files.lines import read_lines
from accel.data.files.noted import noted
from accel.training.run import TrainingError


def test_a_run_keeps_exactly_the_files_that_it_read(tmp_path: Path) -> None:
    """Files may move and test data may change, but no file may be added that is read."""
    names = ("books/a.txt", "books/b/c.txt.gz", "books/test.txt", "other.txt", "gold")
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        text = f"the words of {name}\n".encode()
        (tmp_path / name).write_bytes(gzip.compress(text, mtime=0) if name.endswith("gz") else text)
    options = argparse.Namespace(
        data=tmp_path / "books", test=tmp_path / "other.txt", validation_gold=tmp_path / "gold"
    )

    def contents_of(before: dict[str, Any], *read: str) -> dict[str, Any]:
        with noted() as files:
            for name in read:
                list(read_lines(tmp_path / name))
        list(read_lines(tmp_path / "gold"))  # read later: not noted
        return require_same_contents(tmp_path, before, options, files)

    before = contents_of({}, *names[:4])
    assert set(before["contents"]["files"]) == {str(tmp_path / name) for name in names[:2]}
    assert contents_of(before, *names[:2]) == contents_of({"contents": {"data": 7}}, *names[:2]) == before
    (tmp_path / "books" / "test.txt").write_text("others\n")
    (tmp_path / "books" / "a.txt").rename(tmp_path / "books" / "moved.txt")
    contents_of(before, "books/moved.txt", *names[1:4])
    with pytest.raises(TrainingError, match=r"its data: .*gold has other contents than at its start; put"):
        contents_of(before, "books/moved.txt", names[1], "gold")
    with pytest.raises(TrainingError, match="its data: fewer files are read than at its start"):
        contents_of(before, names[1])
    (tmp_path / "books" / "moved.txt").write_text("others\n")
    with pytest.raises(TrainingError, match="moved.txt has other contents"):
        contents_of(before, "books/moved.txt", names[1])
    options.data = tmp_path / "books" / "test.txt"
    assert set(contents_of({}, "books/test.txt")["contents"]["files"]) == {str(options.data)}


GPST = ("--task", "gpst", "--sentence-a-line", "--vocabulary", "unknown_classes", "--max-tokens", "40", "--steps", "2",
        "--set", "d_model=8", "--set", "n_heads=2", "--set", "d_compose=8", "--set", "d_score=4")  # fmt: skip


@pytest.mark.parametrize("name", ["books/deep/er/a.txt", "gold.trees"])
def test_texts_in_folders_and_gold_trees_are_kept(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither is named as training or validation data are."""
    words = [f"the dog sees the {noun} ." for noun in ("cat", "bird", "cow", "hen") for _ in range(4)]
    gold = "".join(f"(S (NP the dog) (VP sees (NP the {noun})) .)\n" for noun in ("cat", "bird"))
    texts = {"books/deep/er/a.txt": "".join(f"{line}\n" for line in words), "gold.trees": gold}
    for path, text in texts.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    files = ("--data", tmp_path / "books", "--validation", tmp_path / "books/deep/er/a.txt", "--validation-gold",
             tmp_path / "gold.trees", "--convention", "plain")  # fmt: skip
    assert cli.main([str(word) for word in ("train", "--out", tmp_path / "run", *GPST, *files)]) == 0
    (tmp_path / name).write_text("".join(reversed(texts[name].splitlines(keepends=True))))
    assert cli.main(["train", "--resume", "--out", str(tmp_path / "run"), "--steps", "3"]) == 2
    assert f"{tmp_path / name} has other contents than at its start" in capsys.readouterr().err
    (tmp_path / name).write_text(texts[name])
    assert cli.main(["train", "--resume", "--out", str(tmp_path / "run"), "--steps", "3"]) == 0
