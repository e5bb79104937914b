"""The folder of a run: what a killed process leaves behind is removed, and nothing else."""

from __future__ import annotations

from pathlib import Path

from accel.training.directory import remove_unfinished


def test_unfinished_files_are_removed_and_no_others(tmp_path: Path) -> None:
    finished = ["checkpoint.safetensors", "metrics.jsonl", ".tmp", "cache/train", "cache/sub/part.partial"]
    unfinished = ["settings.json.partial", "metrics.temporary", ".tmpAb3dE9", "cache/.encoding-7/ids"]
    for name in (*finished, *unfinished):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    remove_unfinished(tmp_path)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == set(finished) and not (tmp_path / "cache" / ".encoding-7").exists()
