"""The pages of `specs/`, read as data.

`python -m tests.house.spec_pages` writes the index into specs/README.md, the counts into specs/coverage.md, and
specs/vectors/manifest.json.
"""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from accel.verify.ops.table import OPS

ROOT = Path(__file__).parents[2]
SPECS = ROOT / "specs"
BEGIN, END = "<!-- index: begin -->", "<!-- index: end -->"
COVERAGE = SPECS / "coverage.md"
BEGIN_COUNTS, END_COUNTS = "<!-- counts: begin -->", "<!-- counts: end -->"
STEMS = {op.name: op.stem for op in OPS}
STATES = {
    "as printed": r"as printed",
    "differs": r"differs, see \[[^]]+\]\([^)]+\)",
    "needs data that is not free": r"needs data that is not free: `[^`]+`",
    "not run": r"not run: `[^`]+`",
    "open": r"open",
}
"""The states of an item of a paper, each with a pattern for its cell in the table."""


@dataclass(frozen=True)
class Clause:
    id: str
    title: str
    page: str  # below specs/, without .md
    text: str

    @property
    def stem(self) -> str:
        return self.page.rpartition("/")[2]

    def line(self, name: str) -> list[str]:
        """Return the words in backquotes after `name:`, up to the next named line or an empty line."""
        match = re.search(rf"^{name}:((?:.|\n)*?)(?=\n\n|\n[A-Z]\w+:|\Z)", self.text, re.MULTILINE)
        return re.findall(r"`([^`]+)`", match.group(1)) if match else []


def clauses() -> list[Clause]:
    result = []
    for page in sorted(SPECS.glob("*/*.md")):
        for part in re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            match = re.match(r"([A-Z]+-\d+) (.+)\n", part)
            if match:
                result.append(Clause(match[1], match[2], str(page.relative_to(SPECS).with_suffix("")), part))
    return result


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as links name them."""
    return set(map(slug, re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)))


def section(page: Path, anchor: str) -> str:
    """Return the text of a page under the heading with this anchor, with its sub-headings; without one the page."""
    text = page.read_text(encoding="utf-8")
    if not anchor:
        return text
    headings = list(re.finditer(r"^(#+) (.+)$", text, re.MULTILINE))
    [k] = [k for k, heading in enumerate(headings) if slug(heading[2]) == anchor]
    ends = (heading.start() for heading in headings[k + 1 :] if len(heading[1]) <= len(headings[k][1]))
    return text[headings[k].start() : next(ends, len(text))]


def stands_in(figure: str, text: str) -> bool:
    """Return whether a number is in a text, and not only as part of a longer number."""
    return re.search(rf"(?<![\d.,]){re.escape(figure)}(?!\d|[.,]\d)", text) is not None


def slug(heading: str) -> str:
    """Return the anchor of a heading."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


@dataclass(frozen=True)
class Item:
    """An item of a paper: one row of specs/coverage.md, in Markdown."""

    paper: str
    section: str
    item: str
    where: str
    state: str

    @property
    def kind(self) -> str:
        """The state without its link or command; empty if it is no known state."""
        return next((name for name, pattern in STATES.items() if re.fullmatch(pattern, self.state)), "")


def items() -> list[Item]:
    rows = []
    for part in re.split(r"^## ", COVERAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        paper, *lines = part.splitlines()
        table = [line for line in lines if line.startswith("|")]
        rows += [Item(paper, *(cell.strip() for cell in line[1:-1].split("|"))) for line in table[2:]]
    return rows


def counts() -> str:
    """Return a table with the number of items in each state, for each paper."""
    rows = items()
    lines = [f"| paper | items | {' | '.join(STATES)} |", "|---" + "|---:" * (1 + len(STATES)) + "|"]
    for paper in dict.fromkeys(row.paper for row in rows):
        kinds = [row.kind for row in rows if row.paper == paper]
        lines.append(f"| {paper} | {len(kinds)} | {' | '.join(str(kinds.count(state)) for state in STATES)} |")
    return "\n".join(lines)


@cache
def exports(backend: str) -> dict[str, str]:
    """Return the file of every function that a backend exports; of a module that it exports, of every function."""
    folder, files = ROOT / "accel" / backend, dict[str, Path]()
    for node in ast.parse((folder / "__init__.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module == f"accel.{backend}":
            for path in (folder / f"{alias.name}.py" for alias in node.names):
                functions = [
                    x for x in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(x, ast.FunctionDef)
                ]
                files |= {x.name: path for x in functions if not x.name.startswith("_")}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("accel."):
            path = ROOT / f"{(node.module or '').replace('.', '/')}.py"
            files |= {alias.name: path for alias in node.names}
    return {name: str(path.relative_to(ROOT)) for name, path in files.items()}


def backends_of(clause: Clause) -> str:
    """Return links to the files of the fast backends that compute a clause.

    They are those of its `Ops:`, and of the names of its `Code:` that a backend exports, unless the name is that of an
    operation which another page defines; and the code of a backend that `Code:` itself names.
    """
    code, links = clause.line("Code"), set[str]()
    names = [name for name in (path.rpartition(".")[2] for path in code) if STEMS.get(name, clause.stem) == clause.stem]
    for backend in ("cpu", "cuda"):
        files = {exports(backend)[name] for name in names + clause.line("Ops") if name in exports(backend)}
        files |= {file_of(path) for path in code if path.startswith(f"accel.{backend}.")}
        links |= {f"[{backend}](../{file})" for file in files}
    return " ".join(sorted(links))


def file_of(code: str) -> str:
    """Return the file of a name with its module."""
    return f"{code.rpartition('.')[0].replace('.', '/')}.py"


def linked(code: str) -> str:
    """Return a link to the file of a name in the reference, as the index has it."""
    return f"[`{code}`](../{file_of(code)})"


def index() -> str:
    lines = ["| clause | what | reference | backends | tests | vectors |", "|---|---|---|---|---|---|"]
    for clause in clauses():
        code = [path for path in clause.line("Code") if not path.startswith(("accel.cpu.", "accel.cuda."))]
        tests = sorted({t.split("::")[0] for t in clause.line("Tests")})
        vectors = [Path(v).relative_to("specs/vectors") for v in clause.line("Vectors")]
        lines.append(
            f"| [{clause.id}]({clause.page}.md) | {clause.title} | {', '.join(map(linked, code))} "
            f"| {backends_of(clause)} | {' '.join(f'[{Path(t).stem}](../{t})' for t in tests)} "
            f"| {' '.join(f'[{v.name}](vectors/{v})' for v in vectors)} |"
        )
    return "\n".join(lines)


def manifest() -> dict[str, object]:
    """Return what a reader of the vectors needs first: format, version, tolerances, and the files."""
    folder = SPECS / "vectors"
    files = sorted(str(path.relative_to(folder)) for path in folder.glob("*/*/*.json"))
    return {"format": "grove-vectors", "version": 1, "relative": 1e-10, "absolute": 1e-12, "files": files}


def main() -> None:
    for page, begin, end, table in (
        (SPECS / "README.md", BEGIN, END, index()),
        (COVERAGE, BEGIN_COUNTS, END_COUNTS, counts()),
    ):
        text = page.read_text(encoding="utf-8")
        before, after = text.split(begin)[0], text.split(end)[1]
        page.write_text(f"{before}{begin}\n{table}\n{end}{after}", encoding="utf-8")
    (SPECS / "vectors/manifest.json").write_text(f"{json.dumps(manifest(), indent=1)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
