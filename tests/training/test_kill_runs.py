"""A few of the trainings that `make kill-runs` kills at random moments."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_killed_and_interrupted_runs_end_as_the_uninterrupted_one(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.training.kill_runs", "--kills", "10", "--interrupts", "5"]
    child = subprocess.run([*command, "--folder", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert child.returncode == 0, child.stderr
    kills, interrupts, _ = child.stdout.splitlines()
    assert kills.startswith("kill: 1") and interrupts.startswith("interrupt: 5 times, all resumed bit for bit: ")
