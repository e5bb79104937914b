"""READMEs have the form that the test of their commands can read; headline figures are in the files they link to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fixtures.named_commands import check_command, named_commands
from tests.fixtures.readme_blocks import LANGUAGES, READMES, ROOT, Command, blocks, steps
from tests.house.spec_pages import section, stands_in

README = (ROOT / "README.md").read_text(encoding="utf-8")
FILES = pytest.mark.parametrize("path", READMES, ids=lambda path: str(path.relative_to(ROOT)))
_COMMAND = re.compile(r"^(    |\t)\$? ?(grove|make|python -m|pytest|pip) ", re.MULTILINE)
_SPANS = re.compile(r"`+[^`]*`+")


def test_every_readme_is_listed() -> None:
    ours = {path for folder in ("accel", "benchmarks", "examples", "refimpl", "specs", "tests") for path in
            (ROOT / folder).rglob("README.md")}  # fmt: skip
    assert ours <= set(READMES)


@FILES
def test_blocks_have_a_language(path: Path) -> None:
    assert [block.line for block in blocks(path) if block.language not in LANGUAGES] == []
    assert not _COMMAND.search(path.read_text(encoding="utf-8")), "a command outside a block of sh or console"


@pytest.mark.parametrize("path", [*READMES, ROOT / "CHANGELOG.md"], ids=lambda path: str(path.relative_to(ROOT)))
def test_lines_are_short(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    long = [number for number, line in enumerate(lines, 1) if len(line) > 120 and not line.startswith("|")]
    assert not long, "at most 120 characters, but for tables"


@FILES
def test_links_lead_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name) if name else path
        assert file.exists(), f"{path.name}: {target}"
        if anchor:
            assert anchor in anchors(file.read_text(encoding="utf-8")), f"{path.name}: {target}"


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings: lower-case letters, hyphens for blanks, no punctuation."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@FILES
def test_make_targets_exist(path: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    typed = [step.text for step in steps(path) if isinstance(step, Command)]
    inline = re.findall(r"`(make [a-z-]+)", path.read_text(encoding="utf-8"))
    for target in re.findall(r"^make ([a-z-]+)", "\n".join([*typed, *inline]), re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@FILES
def test_commands_in_the_text_have_the_options_that_are_named(path: Path) -> None:
    for call in named_commands(path.read_text(encoding="utf-8")):
        check_command(call)


@pytest.mark.parametrize("paper", ("transformer_grammars", "fasttrees", "treeformer", "gpst"))
def test_both_reading_orders_are_complete_and_the_same(paper: str) -> None:
    reference = ROOT / "refimpl"
    order = re.findall(rf"\]\({paper}/(\w+)\.py\)", (reference / "README.md").read_text(encoding="utf-8"))
    stems = {path.stem for path in (reference / paper).glob("[a-z]*.py")}
    assert set(order) == stems and len(order) == len(stems)
    assert re.findall(rf"\]\(refimpl/{paper}/(\w+)\.py\)", README) == order


def test_headline_figures_stand_where_they_are_measured() -> None:
    """Every number in the front page's table of figures is in the file that its row links to."""
    rows = [row for row in README.partition("\n| figure |")[2].partition("\n\n")[0].splitlines()[2:]]
    assert len(rows) == 7
    for row in rows:
        _, _, here, beside, link, _ = row.split("|")
        [(name, anchor)] = re.findall(r"\]\(([^)#]+)#?([^)]*)\)", link)
        text = section(ROOT / name, anchor)
        figures = re.findall(r"\d[\d.,]*\d|\d", f"{here} {beside}")
        assert figures and [figure for figure in figures if not stands_in(figure, text)] == [], name


def test_figures_of_the_demo_stand_where_they_are_explained() -> None:
    """The front page prints figures of `make demo` that are also in the example's README."""
    text = (ROOT / "examples/transformer_grammars/README.md").read_text(encoding="utf-8")
    [output] = [step.printed for step in steps(ROOT / "README.md") if getattr(step, "text", "") == "make demo"]
    tables = [line for line in output if line.startswith("|")]
    figures = re.findall(r"\d[\d.,]*\d|\d", " ".join(tables))
    assert len(figures) > 9 and [figure for figure in figures if not stands_in(figure, text)] == []
