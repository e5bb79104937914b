"""Transformer Grammars with some heads, or some layers, that attend without restriction (the paper's Figure 6).

    python -m examples.transformer_grammars.hybrids [--data DIR [--proposals TREES]] [--suites SUITES]

Heads: the last k of every layer; layers: the top k, and the bottom k. The wholly unrestricted model is the same in all
three rows. Interrupted runs resume; complete runs are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import accel
from accel.drawing.svg import Picture
from accel.models.transformer_grammars.model import Config
from examples.findings import Findings, hours, write_analysis
from examples.markdown import spread, table
from examples.panels import Panel, draw_panels, extents
from examples.program import run_program
from examples.transformer_grammars.analyses import measured, parser_of, trained
from examples.transformer_grammars.sentences import read_data

KINDS = {"heads": "unrestricted heads", "top": "top layers", "bottom": "bottom layers"}
METRICS = {"perplexity": ("perplexity, upper bound", 1.0), "agreement": ("agreement, %", 100.0), "SG": ("SG, %", 100.0)}


def main(arguments: Sequence[str] | None = None) -> list[Findings]:
    """Train every hybrid with every seed, and return the figures of each (kind, k)."""
    options = parser_of("hybrids", __doc__, suites=True).parse_args(arguments)
    ops, data = accel.load(options.backend), read_data(options)
    rows: list[Findings] = []
    runs: dict[str, list[Path]] = {}
    for kind, k, config in variants(options.heads, options.layers):
        name = f"tg-{pattern(config, options.heads, options.layers)}"
        if name not in runs:
            seeds = range(options.seeds)
            runs[name] = [trained(ops, options, data, name, seed, model="tg", **config) for seed in seeds]
        figures = [measured(ops, options, data, path, path / "measured.json") for path in runs[name]]
        rows.append({"kind": kind, "k": k, "run": name, "found": figures})
    n_hours = hours(path for paths in runs.values() for path in paths)
    write_analysis(options, "hybrids", table_of(rows), rows, picture_of(rows), data.sources, n_hours)
    return rows


def variants(n_heads: int, n_layers: int) -> list[tuple[str, int, dict[str, int]]]:
    """Return every kind of hybrid with every k, the number of unrestricted heads or layers, and its settings."""
    heads = [("heads", k, {"unrestricted_heads": k}) for k in range(n_heads + 1)]
    layers = [(kind, k, {"unrestricted_layers": sign * k}) for kind, sign in (("top", 1), ("bottom", -1))
              for k in range(n_layers + 1)]  # fmt: skip
    return heads + layers


def pattern(config: Mapping[str, int], n_heads: int, n_layers: int) -> str:
    """Return the number of restricted heads of each layer; hybrids with the same numbers are the same model.

    Examples
    --------
    >>> pattern({"unrestricted_layers": -1}, 4, 3), pattern({"unrestricted_heads": 1}, 4, 3)
    ('0.4.4', '3.3.3')
    """
    size: dict[str, Any] = {"vocabulary_size": 1, "d_model": 2 * n_heads, "d_ff": 1, "segment_length": 1}
    hybrid = Config("tg", **size, n_layers=n_layers, n_heads=n_heads, memory_length=0, **config)
    return ".".join(str(hybrid.restricted_heads(layer)) for layer in range(n_layers))


def table_of(rows: Sequence[Findings]) -> str:
    """Return a row for each kind and k: mean and sample deviation over seeds."""
    metrics = [name for name in METRICS if name in rows[0]["found"][0]]
    lines = []
    for row in rows:
        cells = [spread([seed[name] for seed in row["found"]], 3 if name == "perplexity" else 1, METRICS[name][1])
                 for name in metrics]  # fmt: skip
        lines.append([KINDS[row["kind"]], str(row["k"]), str(len(row["found"])), *cells])
    return table(["unrestricted", "k", "seeds", *(METRICS[name][0] for name in metrics)], lines)


def picture_of(rows: Sequence[Findings]) -> Picture:
    """Return a panel of every metric for heads and for layers; bars reach from the least to the greatest seed."""
    panels = []
    for label, kinds in (("unrestricted heads", ("heads",)), ("unrestricted layers", ("top", "bottom"))):
        for metric in (name for name in METRICS if name in rows[0]["found"][0]):
            series = {}
            for kind in kinds:
                rows_of_kind = [row for row in rows if row["kind"] == kind]
                scale = METRICS[metric][1]
                values = [[scale * seed[metric] for seed in row["found"]] for row in rows_of_kind]
                series[KINDS[kind]] = extents([float(row["k"]) for row in rows_of_kind], values)
            names = {float(k): str(k) for k in range(max(row["k"] for row in rows if row["kind"] in kinds) + 1)}
            panels.append(Panel(label, METRICS[metric][0], series, names))
    return draw_panels(panels, "Hybrids of Transformer Grammars", columns=len(panels) // 2)


if __name__ == "__main__":
    run_program(main)
