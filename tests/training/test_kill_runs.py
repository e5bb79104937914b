"""A few of the trainings that `make kill-runs` kills at random moments."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_killed_and_interrupted_runs_end_as_the_uninterrupted_one(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.training.kill_runs", "--kills", "10", "--interrupts", "5"]
    done = subprocess.run([*command, "--folder", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    kills, interrupts, _ = done.stdout.splitlines()
    assert kills.startswith("kill: 1") and interrupts.startswith("interrupt: 5 times, all resumed bit for bit: ")
