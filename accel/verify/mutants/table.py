"""All seeded errors: the name of the operation (or of its gradient), and the wrong function in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from accel.verify.mutants.attention import ATTENTION, keys_in_order_distances_not
from accel.verify.mutants.fasttrees import FASTTREES
from accel.verify.mutants.gpst import GPST
from accel.verify.mutants.gpst_layers import GPST_LAYERS
from accel.verify.mutants.layers import LAYERS
from accel.verify.mutants.span_parser import SPAN_PARSER
from accel.verify.mutants.structure import STRUCTURE
from accel.verify.mutants.transformer import TRANSFORMER
from accel.verify.mutants.treeformer import TREEFORMER

MUTANTS: tuple[tuple[str, Callable[..., Any]], ...] = (
    *STRUCTURE,
    *ATTENTION,
    *LAYERS,
    *FASTTREES,
    *TRANSFORMER,
    *TREEFORMER,
    *GPST,
    *GPST_LAYERS,
    *SPAN_PARSER,
    ("sparse_attention", keys_in_order_distances_not),  # at the end: benchmarks/checkers.py records the numbers
)
