"""The page of deleted barriers has every barrier of today's CUDA sources, each with a race."""

from __future__ import annotations

from tests.mutants import barriers


def test_the_page_has_every_barrier_of_these_sources() -> None:
    table, digests = barriers.written()
    assert digests == {source: barriers.digest(source) for source in barriers.sources()}, (
        "a CUDA source has changed: run python -m tests.mutants.barriers"
    )
    missed = [row for row in table if "**no" in row]
    assert not missed, "delete these barriers, which order nothing, or add the size at which they do"
    there = {tuple(row.split(" | ")[:2]) for row in table}
    of_files = {barrier.name for source in barriers.sources() for barrier in barriers.barriers(source)}
    assert {name for _, name in there} == of_files
