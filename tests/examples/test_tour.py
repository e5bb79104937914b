"""The notebook runs from its first cell to its last, and the stored one shows the pictures that it draws."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat", reason="the extra test is not installed")
NotebookClient = pytest.importorskip("nbclient", reason="the extra test is not installed").NotebookClient

ROOT = Path(__file__).parents[2]
TOUR = ROOT / "examples" / "tour.ipynb"
SVG = "image/svg+xml"


def pictures(notebook: Any) -> dict[int, str]:
    """Return the picture of every cell that draws one."""
    outputs = {k: cell.outputs for k, cell in enumerate(notebook.cells) if cell.cell_type == "code"}
    return {k: output.data[SVG] for k, group in outputs.items() for output in group if SVG in output.get("data", {})}


def test_the_tour() -> None:
    notebook = nbformat.read(TOUR, as_version=4)
    nbformat.validate(notebook)
    executed = nbformat.from_dict(notebook)
    executed = NotebookClient(executed, timeout=300, resources={"metadata": {"path": str(ROOT)}}).execute()
    new_pictures, old_pictures = pictures(executed), pictures(notebook)
    assert new_pictures.keys() == old_pictures.keys() and len(new_pictures) >= 6
    for k in list(new_pictures)[:2]:  # a tree and its mask; the others depend on a training
        assert new_pictures[k] == old_pictures[k], (
            "a picture has changed: .venv/bin/jupyter execute --inplace examples/tour.ipynb"
        )
    assert all(svg.startswith("<svg") for svg in new_pictures.values())
    text = TOUR.read_text(encoding="utf-8")
    assert not re.search(r"/(tmp|home|root|work)/", text) and "Traceback" not in text
