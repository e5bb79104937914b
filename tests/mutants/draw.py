"""The drawing of mutants."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice, zip_longest
from pathlib import Path
from random import Random

from tests.mutants import cuda_code, python_code
from tests.mutants.measure import FOLDERS
from tests.mutants.mutant import Mutant


def draw(root: Path, count: int, seed: int) -> list[Mutant]:
    """Return mutants at different places: of every folder as many, and every place of a folder as likely."""
    of_folders = (_drawn(root, folder, Random(f"{seed} {folder}")) for folder in FOLDERS)
    in_turn = chain.from_iterable(zip_longest(*of_folders))
    return list(islice((mutant for mutant in in_turn if mutant is not None), count))


def _drawn(root: Path, folder: str, order: Random) -> Iterator[Mutant]:
    """Yield the mutants of a folder, in random order."""
    paths = sorted(path for ending in ("py", "cu") for path in (root / "accel" / folder).rglob(f"*.{ending}"))
    sources = {str(path.relative_to(root)): path.read_text() for path in paths if path.name != "__init__.py"}
    places = []
    for path, source in sources.items():
        found = cuda_code.places(path, source) if path.endswith(".cu") else python_code.places(source)
        places += [(path, alternatives) for alternatives in found]
    print(f"accel/{folder}: {len(places)} places in {len(sources)} files", flush=True)
    order.shuffle(places)
    names = set()
    for path, alternatives in places:
        choice = order.choice(alternatives)
        mutant = choice if isinstance(choice, Mutant) else python_code.mutant(path, sources[path], *choice)
        if mutant is not None and mutant.name not in names:
            names.add(mutant.name)
            yield mutant
