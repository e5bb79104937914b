"""The table of all operations, one row an operation (`accel/verify/op.py` defines a row).

Adding a kernel is one file in `accel/`, one import line, and one row in a file of this folder.
"""

from __future__ import annotations

from accel.verify.op import Op
from accel.verify.ops.attention import ATTENTION
from accel.verify.ops.fasttrees import FASTTREES
from accel.verify.ops.gpst import GPST
from accel.verify.ops.gpst_layers import GPST_LAYERS
from accel.verify.ops.layers import LAYERS
from accel.verify.ops.locked_dropout import LOCKED_DROPOUT
from accel.verify.ops.pair_layers import PAIR_LAYERS
from accel.verify.ops.residual_layer_norm import RESIDUAL_LAYER_NORM
from accel.verify.ops.span_parser import SPAN_PARSER
from accel.verify.ops.structure import STRUCTURE
from accel.verify.ops.transformer import TRANSFORMER
from accel.verify.ops.treeformer import TREEFORMER

OPS: tuple[Op, ...] = (
    STRUCTURE + ATTENTION + LAYERS + RESIDUAL_LAYER_NORM + LOCKED_DROPOUT + FASTTREES + TRANSFORMER + TREEFORMER
    + GPST + GPST_LAYERS + PAIR_LAYERS + SPAN_PARSER
)  # fmt: skip
