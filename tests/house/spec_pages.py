"""The pages of `specs/`, read as data. `python -m tests.house.spec_pages` writes the index into specs/README.md."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SPECS = ROOT / "specs"
BEGIN, END = "<!-- index: begin -->", "<!-- index: end -->"


@dataclass(frozen=True)
class Clause:
    id: str
    title: str
    page: str  # below specs/, without .md
    text: str

    def line(self, name: str) -> list[str]:
        """Return the words in backquotes after `name:`, up to the next named line or an empty one."""
        match = re.search(rf"^{name}:((?:.|\n)*?)(?=\n\n|\n[A-Z]\w+:|\Z)", self.text, re.MULTILINE)
        return re.findall(r"`([^`]+)`", match.group(1)) if match else []


def clauses() -> list[Clause]:
    listed = []
    for page in sorted(SPECS.glob("*/*.md")):
        for part in re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            match = re.match(r"([A-Z]+-\d+) (.+)\n", part)
            if match:
                listed.append(Clause(match[1], match[2], str(page.relative_to(SPECS).with_suffix("")), part))
    return listed


def backends_of(name: str) -> str:
    """Return the fast files that define a function of that name."""
    links = []
    for backend in ("cpu", "cuda"):
        for path in sorted((ROOT / "accel" / backend).rglob("*.py")):
            if re.search(rf"^def {name}\(", path.read_text(encoding="utf-8"), re.MULTILINE):
                links.append(f"[{backend}](../{path.relative_to(ROOT)})")
    return " ".join(links)


def linked(code: str) -> str:
    """Return a name of the reference as a link from the index to its file."""
    return f"[`{code}`](../{code.rpartition('.')[0].replace('.', '/')}.py)"


def index() -> str:
    lines = ["| clause | what | reference | backends | tests | vectors |", "|---|---|---|---|---|---|"]
    for clause in clauses():
        code = clause.line("Code")
        names = [c.rsplit(".", 1)[1] for c in code] + clause.line("Ops")  # Ops: names that no reference has
        tests = sorted({t.split("::")[0] for t in clause.line("Tests")})
        backends = sorted({b for n in names for b in backends_of(n).split()})
        vectors = [Path(v).relative_to("specs/vectors") for v in clause.line("Vectors")]
        lines.append(
            f"| [{clause.id}]({clause.page}.md) | {clause.title} | {', '.join(map(linked, code))} "
            f"| {' '.join(backends)} | {' '.join(f'[{Path(t).stem}](../{t})' for t in tests)} "
            f"| {' '.join(f'[{v.name}](vectors/{v})' for v in vectors)} |"
        )
    return "\n".join(lines)


def main() -> None:
    page = SPECS / "README.md"
    text = page.read_text(encoding="utf-8")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    page.write_text(f"{before}{BEGIN}\n{index()}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
