"""The sizes at which the kernels of this backend take another path, by operation and axis.

The conformance kit tests an operation below, at and above these sizes (`accel/verify/sizes.py`). A constant on which
the path depends has a name, and stands here; a test checks that.
"""

from __future__ import annotations

from accel.cpu.causal_attention import GROUPS, KEYS, QUERIES
from accel.cpu.dot_product_attention import LANES as QUERY_LANES
from accel.cpu.layers import BLOCK_COLUMNS, CHUNK_ELEMENTS
from accel.cpu.layers import MOST_SUMS as MOST_LOGIT_SUMS
from accel.cpu.sparse_attention import MOST_SUMS
from accel.cpu.support.few_queries import FEW
from accel.cpu.support.kernels import CHUNK_ROWS, MOST_CHUNKS
from accel.cpu.support.lanes import BLOCK, PAIRS
from accel.cpu.support.narrow_backward import ROW_TURNS
from accel.cpu.support.narrow_pairs import GROUP
from accel.cpu.support.products import BYTES, TILES
from accel.cpu.support.rows import LANES
from accel.cpu.support.tiles import ROWS as TILE_ROWS

WIDTHS = (LANES, 2 * LANES)  # elements of a row that a sum takes at a time
FOURS = 4  # rows or elements that a loop takes at a time
ROWS = (2 * CHUNK_ROWS, MOST_CHUNKS * CHUNK_ROWS)  # from the first: two chunks; above the second: larger chunks
VECTORS = (BYTES // 8, BYTES // 4)  # of float64 and float32

PAIR_GROUP = GROUP * PAIRS["float32"]

tiles: dict[str, dict[str, tuple[int, ...]]] = {
    "bias_erf_gelu": {"rows": ROWS},
    "bias_gelu": {"rows": ROWS},
    "causal_attention": {"queries": (QUERIES,), "keys": (LANES, KEYS), "sequences": (GROUPS,), "width": (FOURS,)},
    "cky_pool": {"words": (LANES + 1,), "width": WIDTHS},  # n words have up to n - 1 splits
    "cross_entropy": {"rows": (2 * CHUNK_ROWS, MOST_LOGIT_SUMS * CHUNK_ROWS), "words": (LANES,)},
    "cumax": {"rows": ROWS, "width": WIDTHS},
    "dot_product_attention": {
        "queries": (FEW, QUERY_LANES, 2 * QUERY_LANES), "keys": TILE_ROWS[:2], "width": (*VECTORS, 2 * VECTORS[1]),
    },
    "dropout": {"elements": (2 * CHUNK_ELEMENTS, MOST_CHUNKS * CHUNK_ELEMENTS)},
    "embedding": {"width": (BLOCK_COLUMNS,)},
    "layer_norm": {"rows": ROWS, "width": WIDTHS},
    "linear_recurrence": {"sequences": (MOST_CHUNKS,), "masters": (LANES,)},
    "pair_attention": {"pairs": (CHUNK_ROWS, MOST_CHUNKS * CHUNK_ROWS // 2), "width": WIDTHS},
    "pair_layers": {"pairs": (*PAIRS.values(), PAIR_GROUP), "width": (BLOCK,), "hidden": (BLOCK, ROW_TURNS * BLOCK)},
    "recurrence": {"sequences": (*TILES, MOST_CHUNKS), "masters": (LANES,), "units": (*VECTORS, 2 * VECTORS[1])},
    "residual_layer_norm": {"rows": ROWS, "width": WIDTHS},
    "residual_norm": {"rows": ROWS, "width": WIDTHS},
    "sparse_attention": {
        "queries": (ROWS[0], MOST_SUMS * CHUNK_ROWS, ROWS[1]), "keys": ROWS, "edges": (FOURS,), "width": WIDTHS,
    },
    "tree_gate": {"rows": ROWS, "masters": (LANES,)},
    "weight_drop": {"elements": (2 * CHUNK_ELEMENTS, MOST_CHUNKS * CHUNK_ELEMENTS)},
    "weighted_sum": {"groups": ROWS, "size": (LANES,), "width": WIDTHS},
}  # fmt: skip
