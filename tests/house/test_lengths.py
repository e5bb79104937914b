"""No Python file of the repository has more than 300 lines."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("accel", "benchmarks", "examples", "refimpl", "specs", "tests")
MOST_LINES = 300


def test_no_file_is_long() -> None:
    paths = [*ROOT.glob("*.py"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))]
    lengths = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in paths}
    long = {name: length for name, length in lengths.items() if length > MOST_LINES}
    assert lengths and not long, f"more than {MOST_LINES} lines; part each along its two ideas: {long}"
