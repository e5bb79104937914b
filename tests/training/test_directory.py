"""The folder of a run: what a killed or a refused training leaves there is removed, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from accel.training.checkpoint import FORMAT
from accel.training.directory import new_folder, remove_unfinished, unchanged_if_refused


def write(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")


def files_of(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_unfinished_files_are_removed_and_no_others(tmp_path: Path) -> None:
    """A run may lie in a folder with other files, and another process may export a model into it."""
    finished = [
        *("checkpoint.safetensors", "metrics.jsonl", ".tmp", "cache/train", "cache/sub/part.partial", ".tmp12345678"),
        *("thesis.partial", "notes.temporary", ".config.json.partial", "best.safetensors.partial.old"),
        *(".exported.123.partial/model.safetensors", "best.safetensors.partial/mine", ".tmpfolder/mine"),
        *("average.safetensors.123.partial", ".evaluation.json.123.partial"),  # of a process that still runs
    ]
    unfinished = [
        *("checkpoint.safetensors.partial", "best.safetensors.123.partial", "tables.safetensors.partial"),
        *("checkpoint-00000900.safetensors.9.partial", ".config.json.123.partial", ".vocabulary.json.123.partial"),
        *("metrics.temporary", ".tmpAb3dE9", ".tmpAb3dE8", "cache/.encoding-7/ids"),
    ]
    write(tmp_path, (*finished, *unfinished))
    (tmp_path / ".tmpAb3dE8").write_bytes(b"h\0\0\0\0\0\0\0" + f'{{"__metadata__":{{"{FORMAT}":'.encode())
    (tmp_path / ".tmpnotes1").write_text("mine")
    remove_unfinished(tmp_path)
    assert files_of(tmp_path) == {*finished, ".tmpnotes1"} and not (tmp_path / "cache" / ".encoding-7").exists()


def test_a_refused_training_takes_its_cache_away_and_nothing_else(tmp_path: Path) -> None:
    """Other processes may write into the folder of a training, and into folders in it."""
    write(tmp_path, ("cache/old/ids", "mine"))
    with pytest.raises(ValueError, match="refused"), unchanged_if_refused(tmp_path):
        write(tmp_path, ("other/best.safetensors", "cache/x", "cache/new/ids", "new"))
        raise ValueError("refused")
    assert files_of(tmp_path) == {"cache/old/ids", "mine", "other/best.safetensors", "new"}
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["old"]


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_new_folder_of_a_refused_training_is_removed_if_it_is_empty(tmp_path: Path, is_shared: bool) -> None:
    run = tmp_path / "run"
    with pytest.raises(ValueError, match="refused"), unchanged_if_refused(run):
        write(run, ("cache/x", *["mine"] * is_shared))
        raise ValueError("refused")
    assert run.exists() == is_shared and not (run / "cache").exists()


def test_a_training_that_has_begun_keeps_its_cache(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="later"), unchanged_if_refused(tmp_path) as begin:
        write(tmp_path, ("cache/x",))
        begin()
        raise ValueError("later")
    assert files_of(tmp_path) == {"cache/x"}


def test_a_folder_that_cannot_be_written_has_the_name_that_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to("empty")
    (tmp_path / "broken").symlink_to("nowhere")
    reasons = dict.fromkeys(("file", "link", "broken"), "exists already; name a new folder")
    reasons["file/new"] = "Not a directory; name a folder elsewhere"
    for name, reason in reasons.items():
        with pytest.raises(OSError, match=reason) as error, new_folder(Path(name)):
            pytest.fail("no folder was made")
        assert (error.value.filename, error.value.strerror) == (name, reason)
    with pytest.raises(OSError, match="No space left on device: 'new/file'"), new_folder(Path("new")) as folder:
        raise OSError(28, "No space left on device", str(folder / "file"))
    with pytest.raises(OSError, match="Permission denied: 'elsewhere'"), new_folder(Path("new")):
        raise OSError(13, "Permission denied", "elsewhere")
    monkeypatch.chdir(tmp_path / "empty")
    with pytest.raises(FileExistsError, match=r"exists already; name a new folder: '\.'"), new_folder(Path()):
        pytest.fail("no folder was made")
    monkeypatch.chdir(tmp_path)
    with new_folder(Path("empty")) as folder:
        write(folder, ("complete",))
    assert {path.name for path in tmp_path.iterdir()} == {"empty", "file", "link", "broken"}
    assert files_of(tmp_path / "empty") == {"complete"}
