"""Specification pages, reference, tests and vectors link to one another, in both directions."""

from __future__ import annotations

import ast
import inspect
import json
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from accel.verify.ops.table import OPS
from tests.house.spec_pages import (
    BEGIN,
    END,
    ROOT,
    SPECS,
    Clause,
    anchors,
    backends_of,
    clauses,
    exports,
    index,
)

CLAUSES = clauses()
IDS = {clause.id for clause in CLAUSES}
NO_PAPERS = ("__init__", "checks")  # files of the reference that hold no algorithm
ROOMS = {"evaluation": "accel/evaluation", "data": "accel/data/files"}  # tools with pages, by folder of specs/
STEMS = sorted(
    [str(p.relative_to(ROOT).with_suffix("")) for p in (ROOT / "refimpl").rglob("*.py") if p.stem not in NO_PAPERS]
    + [f"{room}/{page.stem}" for folder, room in ROOMS.items() for page in (SPECS / folder).glob("*.md")]
)


def resolved(code: str) -> object:
    module, _, name = code.rpartition(".")
    return getattr(import_module(module), name)


def page_of(module: str) -> Path:
    """Return the page of a module, from its path; pages of files that papers share are in specs/shared."""
    room, _, stem = module.rpartition("/")
    folder = {path: folder for folder, path in ROOMS.items()}.get(room, room.partition("/")[2] or "shared")
    return SPECS / folder / f"{stem}.md"


def public_functions(module: ModuleType) -> list[object]:
    members = [m for name, m in vars(module).items() if not name.startswith("_") and inspect.isroutine(m)]
    return [m for m in members if getattr(m, "__module__", "") == module.__name__]


def functions_in(path: Path) -> set[str]:
    return {n.name for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(n, ast.FunctionDef)}


def test_ids_are_unique() -> None:
    assert len(IDS) == len(CLAUSES) > 0


@pytest.mark.parametrize("clause", CLAUSES, ids=lambda c: c.id)
def test_links_of_a_clause_exist(clause: Clause) -> None:
    for field in ("Source:", "Laws:", "Errors:", "Code:", "Tests:", "Vectors:"):
        assert f"\n{field}" in clause.text, f"{clause.id} lacks the line {field}"
    for code in clause.line("Code"):
        assert re.search(rf"\b{clause.id}\b", inspect.getdoc(resolved(code)) or ""), f"{code} does not cite {clause.id}"
    for name in clause.line("Tests"):
        file, test = name.split("::")
        assert test.split("[")[0] in functions_in(ROOT / file), f"{clause.id}: no {name}"
    assert set(clause.line("Ops")) <= {op.name for op in OPS}
    for place in clause.line("Vectors"):
        assert (ROOT / place).exists(), f"{clause.id}: no {place}"
        assert place.endswith(".json") or clause.id in clauses_of_vectors(ROOT / place), f"{clause.id}: none in {place}"


def clauses_of_vectors(folder: Path) -> set[str]:
    """Return the clauses that the vectors of a folder name."""
    return {json.loads(path.read_text(encoding="utf-8"))["clause"] for path in folder.glob("*.json")}


def test_a_backend_file_of_the_index_computes_its_clause() -> None:
    """Every operation is in the row of its clause; equal names of other pages, and of helpers, are in none."""
    links = {clause.id: backends_of(clause) for clause in CLAUSES}
    for op in OPS:
        for backend in ("cpu", "cuda"):
            assert f"(../{exports(backend)[op.name]})" in links[op.clause], op.name
    assert not links["BF-2"] and not links["CKY-5"]  # `attend_sets` by enumeration; a block of accel/models/
    assert "span_parser" not in links["IO-3"] + links["IO-6"] and "support" not in links["LAY-3"]
    assert "cuda/charts.py" in links["IO-3"] and "cpu/support/tree_sampling.py" in links["SP-5"]


@pytest.mark.parametrize("stem", STEMS)
def test_every_public_function_cites_a_clause_of_its_page(stem: str) -> None:
    page = page_of(stem).read_text(encoding="utf-8")
    assert "\n## Where " in page, "a page ends with what is unclear"
    on_page = {clause.id for clause in CLAUSES if f"\n## {clause.id} " in page}
    for function in public_functions(import_module(stem.replace("/", "."))):
        cited = re.findall(r"Spec: ((?:[A-Z]+-\d+(?:, )?)+)", inspect.getdoc(function) or "")
        assert cited, f"{function} cites no clause"
        cited_clauses = {c for part in cited for c in part.split(", ")}
        assert cited_clauses <= IDS and cited_clauses & on_page, f"{function} cites {cited}"


def test_rows_and_vectors_name_clauses() -> None:
    assert {op.clause for op in OPS} <= IDS
    for path in (SPECS / "vectors").glob("*/*/*.json"):
        vector = json.loads(path.read_text(encoding="utf-8"))
        folder = str(path.parent.relative_to(SPECS / "vectors"))
        [clause] = [clause for clause in CLAUSES if clause.id == vector["clause"]]
        places = [ROOT / place for place in clause.line("Vectors")]
        assert path in places or path.parent in places, f"{path}: {clause.id} does not list it"
        page = page_of(vector["function"].rsplit(".", 1)[0].replace(".", "/"))
        assert SPECS / folder == page.with_suffix("") or folder == clause.page, path


def test_every_stem_has_evidence() -> None:
    """Every stem has at least two vectors that are not the reference's own output."""
    folders = {path.parent for path in (SPECS / "vectors").glob("*/*/*.json")}
    for folder in folders:
        sources = [json.loads(path.read_text(encoding="utf-8"))["source"] for path in folder.glob("*.json")]
        assert sum(not source.startswith("pin") for source in sources) >= 2, folder
    pages = {page.relative_to(SPECS).with_suffix("") for page in SPECS.glob("*/*.md")} - {Path("vectors/README")}
    assert pages == {folder.relative_to(SPECS / "vectors") for folder in folders}
    assert {op.stem for op in OPS} <= {page.name for page in pages}


def test_the_index_is_up_to_date() -> None:
    text = (SPECS / "README.md").read_text(encoding="utf-8")
    assert text.split(BEGIN)[1].split(END)[0].strip() == index(), "run: python -m tests.house.spec_pages"


@pytest.mark.parametrize("page", sorted(ROOT.rglob("*.md")), ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every link leads to a file, and to a heading in it if it names one."""
    if {".venv", "runs", "node_modules"} & set(page.relative_to(ROOT).parts):
        return
    targets = re.findall(r"(?:\]\(|^\[\w+\]: )([^)\s]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    for target, _, anchor in (x.partition("#") for x in targets if not x.startswith(("http://", "https://"))):
        to = page.parent / target if target else page
        assert to.exists(), f"{page}: no {target}"
        assert not anchor or anchor in anchors(to), f"{page}: no heading #{anchor} in {to}"
