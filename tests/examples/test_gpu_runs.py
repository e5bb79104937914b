"""The predicted hours of the runs on a GPU."""

from __future__ import annotations

import json

from examples.gpu_runs import SECONDS
from tests.fixtures.readme_blocks import ROOT


def test_a_step_of_a_grammar_takes_what_was_measured() -> None:
    report = json.loads((ROOT / "benchmarks/results/gpu/h200/report.json").read_text(encoding="utf-8"))
    step = report["steps"]["Transformer Grammar, PTB size, 8 random trees | fast, float32"]
    assert SECONDS["grammar"] == round(step["step"], 2) == round(step["host"], 2)
