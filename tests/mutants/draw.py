"""Draws mutants at random."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import chain, islice, zip_longest
from pathlib import Path
from random import Random

from tests.mutants import cuda_code, python_code
from tests.mutants.measure import FOLDERS
from tests.mutants.mutant import Drawn, Mutant


def drawn_by(state: Path, root: Path, count: int, seed: int, files: list[str]) -> Drawn:
    """Return the mutants of this seed and count; the state folder stores them, because the source changes later."""
    digest = f"-{hashlib.sha256(repr(sorted(files)).encode()).hexdigest()[:8]}" if files else ""
    path = state / f"drawn-{seed}-{count}{digest}.json"
    if not path.exists():
        drawing = Drawn(seed, sorted(files), draw(root, count, seed, files))
        path.write_text(json.dumps(asdict(drawing), indent=1))
    return read_drawn(path)


def all_drawn(state: Path) -> list[Drawn]:
    """Return every draw in this state folder; the report shows each."""
    return [read_drawn(path) for path in sorted(state.glob("drawn-*.json"))]


def read_drawn(path: Path) -> Drawn:
    values = json.loads(path.read_text())
    return Drawn(values["seed"], values["files"], [Mutant(**mutant) for mutant in values["mutants"]])


def draw(root: Path, count: int, seed: int, files: Sequence[str] = ()) -> list[Mutant]:
    """Return mutants at different places: the same number in every folder, each place of a folder equally likely.

    If files are named, only places in these files are drawn.
    """
    of_folders = (_drawn(root, folder, Random(f"{seed} {folder}"), files) for folder in FOLDERS)
    in_turn = chain.from_iterable(zip_longest(*of_folders))
    return list(islice((mutant for mutant in in_turn if mutant is not None), count))


def _drawn(root: Path, folder: str, order: Random, files: Sequence[str]) -> Iterator[Mutant]:
    """Yield the mutants of a folder, in random order."""
    paths = sorted(path for ending in ("py", "cu") for path in (root / "accel" / folder).rglob(f"*.{ending}"))
    names = [str(path.relative_to(root)) for path in paths if path.name != "__init__.py"]
    sources = {name: (root / name).read_text() for name in names if not files or name in files}
    places = []
    for path, source in sources.items():
        file_places = cuda_code.places(path, source) if path.endswith(".cu") else python_code.places(source)
        places += [(path, alternatives) for alternatives in file_places]
    print(f"accel/{folder}: {len(places)} places in {len(sources)} files", flush=True)
    order.shuffle(places)
    mutant_names = set()
    for path, alternatives in places:
        choice = order.choice(alternatives)
        mutant = choice if isinstance(choice, Mutant) else python_code.mutant(path, sources[path], *choice)
        if mutant is not None and mutant.name not in mutant_names:
            mutant_names.add(mutant.name)
            yield mutant
