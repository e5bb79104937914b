"""`grove compare`: blind sheets of two small models, filled in here or in a browser, and tallied with their key."""

from __future__ import annotations

import csv
import json
import os
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from accel import cli
from accel.evaluation.error_analysis import CATEGORIES
from accel.evaluation.error_sheet import COLUMNS
from accel.tasks import pairs
from examples.treeformer import judge
from tests.fixtures.browser import CHROMIUM, look_at
from tests.fixtures.command_line import Grove
from tests.fixtures.parallel_text import SMALL

KINDS = ("transformer", "treeformer")
TICK = """<script>
const tick = (item, letter, name) => item.querySelector(`fieldset[data-of*=${letter}] [value="${name}"]`).click();
for (const item of items) {
  tick(item, "A", "correct"); tick(item, "A", "lexical"); tick(item, "A", "pred-arg");
  if (item.querySelectorAll("fieldset").length > 1) { tick(item, "B", "other"); tick(item, "B", "correct"); }
}
console.log("SHEET " + JSON.stringify([sheet(), document.querySelector("output").textContent]) + " OF");
</script>"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of two steps, and their sentences, one of them with a quotation mark."""
    folder, draw = tmp_path_factory.mktemp("compare"), random.Random(0)
    for stem, count in (("train", 40), ("dev", 12)):
        lines = [" ".join(draw.choices("abcde", k=draw.randint(1, 6))) for _ in range(count)]
        lines[0] = '" a <b> & c'
        (folder / f"{stem}.lo").write_text("\n".join(lines) + "\n")
        (folder / f"{stem}.up").write_text("\n".join(lines).upper() + "\n")
    for kind in KINDS:
        options = f"--task translation --source lo --target up --size tiny --vocabulary words --steps 2 --model {kind}"
        status = cli.main(["train", *options.split(), *SMALL, f"--data={folder}", f"--out={folder / kind}"])
        assert status == 0
    return folder


@pytest.fixture
def sheet(folder: Path, tmp_path: Path, grove: Callable[..., str]) -> Path:
    """A blind sheet of all sentences."""
    runs = (os.path.relpath(folder / kind) for kind in KINDS)
    grove("compare", *runs, "--sentences", 12, "--extra-length", 2, "--beam", 2, "--out", tmp_path / "x.y")
    return tmp_path / "x.y.tsv"


def rows_of(path: Path) -> list[list[str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file, "excel-tab"))


def write_rows(path: Path, rows: list[list[str]]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, "excel-tab", lineterminator="\n").writerows(rows)


def test_a_sheet_is_blind(
    folder: Path, sheet: Path, grove: Callable[..., str], run_grove: Grove, tmp_path: Path
) -> None:
    """A sheet has all sentences in another order; only its key has names; A and B are outputs of `grove translate`."""
    head, *rows = rows_of(sheet)
    assert tuple(head) == COLUMNS and all(row[5:] == ["", ""] for row in rows)
    lines = (folder / "dev.lo").read_text().splitlines()
    assert sorted(row[1] for row in rows) == sorted(lines) != [row[1] for row in rows] != lines
    assert all(row[2] == row[1].upper() for row in rows)
    text, page = sheet.read_text(), sheet.with_suffix(".html").read_text()
    assert not any(word in text + page for word in (*KINDS, str(folder)))
    key = json.loads((tmp_path / "x.y.key.json").read_text())
    assert key["checkpoints"] == [str(folder / kind / "best.safetensors") for kind in KINDS]
    assert key["names"] == list(KINDS) and set(key["first"].values()) == {"A", "B"} and key["beam"] == 2
    search, outputs = ("--extra-length", 2, "--beam", 2), []
    for kind in KINDS:
        outputs.append(
            run_grove("translate", "--checkpoint", folder / kind, folder / "dev.lo", *search)[1].splitlines()
        )
    for row, line in zip(rows, key["lines"], strict=True):
        order = 1 if key["first"][row[0]] == "A" else -1
        assert row[1] == lines[line - 1] and row[3:5] == [outputs[0][line - 1], outputs[1][line - 1]][::order]
    again = grove("compare", *(folder / kind for kind in KINDS), "--sentences", 12, *search, "--out", tmp_path / "z")
    assert again.startswith(f"{tmp_path / 'z.html'}: 12 sentences of dev.lo, ")
    assert (tmp_path / "z.tsv").read_text() == text


def test_a_judged_sheet(sheet: Path, grove: Callable[..., str], tmp_path: Path) -> None:
    """The example's rule judges the outputs. The key assigns the counts to the models, in any order of the lines."""
    judge.main([str(sheet), "--out", str(tmp_path / "judged.tsv")])
    head, *rows = rows_of(tmp_path / "judged.tsv")
    write_rows(tmp_path / "judged.tsv", [head, *rows[::-1]])
    key = json.loads((tmp_path / "x.y.key.json").read_text())
    tally = ("compare", "--tally", tmp_path / "judged.tsv", "--key", tmp_path / "x.y.key.json")
    out = grove(*tally, "--category", "lexical", "--examples", 2)
    table = {line[:14].strip(): line[14:].split() for line in out.splitlines()[1:8]}
    assert list(table) == [*CATEGORIES, "total errors"] and "over 12 sentences" in out
    for system, first in enumerate(("A", "B")):
        cells = [row[5 + (key["first"][row[0]] != first)].split() for row in rows]
        assert [int(table[name][system]) for name in CATEGORIES] == [
            sum(name in cell for cell in cells) for name in CATEGORIES
        ]
    lines = [line for line in out.splitlines() if line.startswith("lexical of ")]
    assert [line.split()[2] for line in lines] == sorted(line.split()[2] for line in lines)
    assert out.count("\ninput  ") == out.count("\ngold   ") == len(lines)


def test_mistakes_in_a_sheet(sheet: Path, mistake: Callable[..., str], tmp_path: Path) -> None:
    path, key = tmp_path / "judged.tsv", tmp_path / "x.y.key.json"
    head, *rows = rows_of(sheet)
    rows = [[*row[:5], "lexical", "lexical"] for row in rows]
    names = ", ".join(CATEGORIES)
    page = "; this is a page: open it in a browser, and save the sheet there"
    for table, words in (
        ([head, *rows[:1], [*rows[1][:5], "correct", ""]], f":3: errors B is empty; use one or more of {names}"),
        ([head, [*rows[0][:5], "lexicla", "other"]],
         f":2: errors A: lexicla: no such category: did you mean lexical? use one or more of {names}"),
        ([head, [*rows[0][:5], "other correct", "other"]],
         ":2: errors A: other correct: correct stands alone; remove it, or the errors"),
        ([head, [*rows[0][:4], rows[0][3], "other", "lexical"]],
         ":2: errors A and errors B differ, but the outputs are the same: make them equal"),
        ([head, ["s0", *rows[0][1:]]], ":2: id s0: is not in the key: give the sheet's own with --key"),
        ([head, rows[0], rows[0]], f":3: id {rows[0][0]}: comes twice: keep one of the lines"),
        ([head, rows[0][:6]], ":2: 6 cells, but a sheet has 7: between tabs"),
        ([head, *rows[1:]], f": 1 of the key's 12 ids are missing, such as {rows[0][0]}"),
        ([["id"], *rows], f":1: the columns are not {', '.join(COLUMNS)}"),
        ([["<!doctype html>"]], f":1: the columns are not {', '.join(COLUMNS)}{page}"),
    ):  # fmt: skip
        write_rows(path, table)
        assert mistake("compare", "--tally", path, "--key", key) == f"{path}{words}"
    write_rows(path, [head, *rows])
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r"))
    returns = f"{path}: the lines end with carriage returns"
    assert mistake("compare", "--tally", path, "--key", key).startswith(returns)
    assert mistake("compare", "--tally", path).startswith(f"{tmp_path / 'judged.key.json'}: No such file")
    reason = f"--tally {tmp_path / 'other.tsv'}: no such file: name a judged sheet"
    assert mistake("compare", "--tally", tmp_path / "other.tsv") == reason
    for text in ("{}", "[1]", '{"names": ["a"], "first": {}}', "x"):
        (tmp_path / "judged.key.json").write_text(text)
        reason = "not a key: name the *.key.json that was written beside the sheet"
        assert mistake("compare", "--tally", path) == f"{tmp_path / 'judged.key.json'}: {reason}"


def test_mistakes_in_the_options(
    folder: Path, sheet: Path, mistake: Callable[..., str], grove: Callable[..., str], tmp_path: Path
) -> None:
    one, other = (str(folder / kind) for kind in KINDS)
    before = sheet.read_bytes()
    reason = f"{tmp_path / 'x.y.html'} exists, and may be judged already: give another name"
    assert mistake("compare", one, other, "--out", tmp_path / "x.y") == f"--out {tmp_path / 'x.y'}: {reason}"
    assert sheet.read_bytes() == before
    out = ("--out", tmp_path / "new")
    beginning = "three files are written: give the beginning of their names"
    for name in ("-", "."):
        assert mistake("compare", one, other, "--out", name) == f"--out {name}: {beginning}"
    grove("export", one, tmp_path / "exported")
    wrong = mistake("compare", tmp_path / "exported", f"x={other}", *out)
    assert wrong == f"--data is missing: the options of {tmp_path / 'exported'} name no data"
    assert mistake("compare", one, *out) == "RUN: 1 are given; give two runs, or --tally SHEET"
    words = f"{one}: is called transformer, as the first run is; give NAME={one}"
    assert mistake("compare", one, one, *out) == words
    words = f"x={other}: is called x, as the first run is; give another NAME={other}"
    assert mistake("compare", f"x={one}", f"x={other}", *out) == words
    words = f"{tmp_path / 'dev.lo'}: no such file, nor one ending in .xz or .gz; name a folder that has it with --data"
    assert mistake("compare", one, other, *out, "--data", tmp_path) == words
    settings = json.loads((folder / KINDS[0] / "config.json").read_text())["options"] | {"test_stem": "dev"}
    with pytest.raises(ValueError, match=f"{words}$"):  # of `grove evaluate`
        pairs.tested_files(tmp_path, settings)
    words = f"--sentences 50: {folder / 'dev.lo'} has 12: give at most that many"
    assert mistake("compare", one, other, *out) == words
    words = "--examples: is for --tally SHEET only: leave it out"
    assert mistake("compare", one, other, *out, "--examples", 3) == words
    assert mistake("compare", "--tally", sheet, "--seed", 1) == "--seed: is not for --tally: leave it out"
    words = f"--tally: takes no runs, but {one} is given; its key names them"
    assert mistake("compare", one, "--tally", sheet) == words
    assert not list(tmp_path.glob("new*"))


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (Debian: apt-get install chromium)")
@pytest.mark.parametrize(("width", "dark"), [(1200, False), (500, True)])
def test_the_page_saves_a_sheet(sheet: Path, tmp_path: Path, width: int, dark: bool, grove: Callable[..., str]) -> None:
    """Ticks in a browser: correct excludes errors, equal outputs are judged together, and the sheet has all texts."""
    page = tmp_path / "ticked.html"
    page.write_text(sheet.with_suffix(".html").read_text() + TICK)
    view = look_at(page, tmp_path, width, dark)
    assert not view.faults
    [message] = view.messages
    saved, progress = json.loads(message[message.index("[", message.index("SHEET ")) : message.rindex(" OF")])
    assert progress == "12 of 12 judged" and not re.search("https?:|src=", page.read_text())  # no network
    (tmp_path / "saved.tsv").write_text(saved, encoding="utf-8")
    head, *rows = rows_of(tmp_path / "saved.tsv")
    assert [head, *(row[:5] for row in rows)] == [head, *(row[:5] for row in rows_of(sheet)[1:])]
    for row in rows:
        assert row[5] == "lexical pred-arg" and row[6] == ("correct" if row[3] != row[4] else row[5])
    assert "over 12 sentences" in grove(
        "compare", "--tally", tmp_path / "saved.tsv", "--key", tmp_path / "x.y.key.json"
    )
