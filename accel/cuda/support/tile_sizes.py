"""The sizes at which the kernels of this backend take another path, by operation and axis.

The conformance kit tests an operation below, at and above them (`accel/verify/sizes.py`). Every constant on which a
path depends has a name, and stands here; a test checks that.
"""

from __future__ import annotations

from math import isqrt

from accel.cuda.best_trees import THREADS as TREE_THREADS
from accel.cuda.causal_attention import DISTANCE_SHARES
from accel.cuda.chart_tokens import LOADS
from accel.cuda.chart_tokens import WARPS as TOKEN_WARPS
from accel.cuda.cky_pooling import WARPS as NODE_WARPS
from accel.cuda.cumax import MOST_WARPS
from accel.cuda.cumax import WARPS as CUMAX_WARPS
from accel.cuda.device import SEQUENCES, WIDE
from accel.cuda.gelu import COLUMN_THREADS as GELU_COLUMNS
from accel.cuda.gelu import ROWS as GELU_ROWS
from accel.cuda.gelu import THREADS as GELU_THREADS
from accel.cuda.layers import LABEL_WARPS, ROW_WARPS, ROWS, THREADS
from accel.cuda.linear_recurrence import AHEAD
from accel.cuda.linear_recurrence import THREADS as UNIT_THREADS
from accel.cuda.linear_recurrence import WARPS as HALF_WARPS
from accel.cuda.locked_dropout import THREADS as LOCKED_THREADS
from accel.cuda.pair_attention import WARPS as PAIR_WARPS
from accel.cuda.pair_layers import PARTS, TILE_BYTES, WEIGHTS_AHEAD
from accel.cuda.pair_layers import WARPS as LAYER_WARPS
from accel.cuda.recurrence import WALK_BYTES
from accel.cuda.residual_layer_norm import ROWS as NORM_ROWS
from accel.cuda.residual_layer_norm import WARPS as NORM_WARPS
from accel.cuda.span_parser import WARPS as SPAN_WARPS
from accel.cuda.sparse_attention import WARPS as QUERY_WARPS
from accel.cuda.support.check import THREADS as CHECK_THREADS
from accel.cuda.support.scatter import ADDING_THREADS, CHUNK
from accel.cuda.support.scatter import THREADS as COLUMN_THREADS
from accel.cuda.support.tensor_attention import KEYS
from accel.cuda.support.tiles import TILE, WINDOW
from accel.cuda.weighted_sum import WARPS as GROUP_WARPS

LANES = 32  # of a warp
LAYER_PAIRS = TILE_BYTES // 16  # of a tile of float64
PIECE = WIDE // 4  # float32 numbers that a thread loads at once
WALKS = isqrt(WALK_BYTES // 32)  # H of the largest float64 weight [4 H, H] for which one kernel walks all steps

tiles: dict[str, dict[str, tuple[int, ...]]] = {
    "attend_sets": {"sequences": (SEQUENCES,)},
    "best_trees": {"words": (TREE_THREADS,), "sentences": (TREE_THREADS,)},
    "bias_erf_gelu": {"rows": (GELU_ROWS,), "width": (GELU_COLUMNS,), "elements": (GELU_THREADS,)},
    "bias_gelu": {"rows": (GELU_ROWS,), "width": (GELU_COLUMNS,), "elements": (GELU_THREADS,)},
    "causal_attention": {
        "queries": (TILE, DISTANCE_SHARES * TILE), "keys": (TILE, WINDOW), "sequences": (DISTANCE_SHARES,),
        "width": (LANES,),
    },
    "chart_trees": {"sentences": (SEQUENCES,)},
    "cky_pool": {
        "words": (NODE_WARPS + 1, TOKEN_WARPS, LANES + 1), "width": (LANES, LANES * LOADS, LANES * NODE_WARPS),
    },
    "cross_entropy": {"rows": (CHECK_THREADS,), "words": (LANES, LANES * LABEL_WARPS, THREADS)},
    "cumax": {"rows": (CUMAX_WARPS,), "width": (LANES,)},
    "distance_trees": {"sequences": (SEQUENCES,)},
    "dot_product_attention": {"queries": (TILE,), "keys": (TILE,), "width": (LANES,)},
    "double_closing": {"sequences": (SEQUENCES,)},
    "dropout": {"elements": (PIECE, PIECE * THREADS)},
    "embedding": {"rows": (CHECK_THREADS,), "same": (CHUNK,), "width": (COLUMN_THREADS, ADDING_THREADS)},
    "layer_norm": {"rows": (ROW_WARPS, ROWS), "width": (LANES,)},
    "linear_recurrence": {
        "steps": (HALF_WARPS // 2, AHEAD), "masters": (LANES,), "units": (LANES, UNIT_THREADS, LANES * MOST_WARPS),
    },
    "locked_dropout": {"width": (LOCKED_THREADS,)},
    "pair_attention": {"pairs": (PAIR_WARPS,), "width": (LANES,)},
    "pair_layers": {
        "pairs": (LAYER_PAIRS, LAYER_PAIRS * PARTS[0]), "width": (LANES, WEIGHTS_AHEAD),
        "hidden": (LANES * LAYER_WARPS,),
    },
    "pruned_chart": {"sentences": (SEQUENCES,)},
    "recurrence": {"masters": (LANES,), "units": (LANES, WALKS, LANES * MOST_WARPS)},
    "residual_layer_norm": {"rows": (NORM_WARPS, NORM_ROWS), "width": (LANES,)},
    "residual_norm": {"rows": (PAIR_WARPS,), "width": (LANES,)},
    "segments": {"sequences": (SEQUENCES,)},
    "span_logz": {"words": (SPAN_WARPS, LANES), "labels": (LANES,)},
    "sparse_attention": {"queries": (QUERY_WARPS, CHUNK), "edges": (LANES, KEYS), "width": (LANES, COLUMN_THREADS)},
    "tree_gate": {"masters": (LANES,), "units": (LANES, LANES * MOST_WARPS)},
    "weight_drop": {"elements": (PIECE, PIECE * THREADS)},
    "weighted_sum": {"size": (GROUP_WARPS, LANES), "width": (LANES, LANES * GROUP_WARPS)},
}  # fmt: skip
