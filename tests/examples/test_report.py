"""The demo's report in a real browser: nothing is cut off or overlaps, in light and in dark colours, on any width."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.transformer_grammars import demo
from tests.fixtures.browser import CHROMIUM, look_at

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (Debian: apt-get install chromium)")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("demo")
    demo.main(["--out", str(out), *"--steps 2 --sentences 300 --test 2 --proposals 2 --pairs 1".split()])
    return out / "report.html"


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (1200, True), (500, False)])
def test_the_report_opens_well(report: Path, tmp_path: Path, width: int, dark: bool) -> None:
    view = look_at(report, tmp_path, width, dark)
    assert not view.faults and not view.messages
    assert view.screenshot.startswith(b"\x89PNG") and len(view.screenshot) > 50_000
    light, black = "rgb(255, 255, 255)", "rgb(20, 20, 20)"
    assert view.sheet == (black if dark else light) and view.ink == (
        "rgb(214, 214, 214)" if dark else "rgb(34, 34, 34)"
    )
