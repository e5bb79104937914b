"""What the actions of GPST's generative model read, one kernel forward and one for the gradient.

Mirrors the inputs of `refimpl.gpst.generator.action_logps`.
"""

from __future__ import annotations

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.induced_trees import Trees
from accel.cuda.support import check
from accel.cuda.support.check import THREADS


def action_inputs(bos: Array, words: Array, cells: Array, table: Array, trees: Trees, rate: float, seed: int) -> Array:
    """Return the input of every action [2 N - B, d]: dropout of the row of the node before plus that of its position.

    bos [d], before the first action of a context; words [N, d]; cells [N - B, d], those of the trees in post-order, or
    [1, d], one for all; table [P, d] of positions.
    """
    bos, words, cells, table = check.floats(bos=bos, words=words, cells=cells, table=table)
    out = device.xp().empty((len(trees.previous), len(bos)), words.dtype)
    args = bos, words, cells, table, out, *_rows(words, trees, rate, seed)
    device.launch("action_inputs", "read_rows", (-(-out.size // THREADS),), (THREADS,), args, out.dtype)
    return out


def action_inputs_vjp(
    d_out: Array, bos: Array, words: Array, cells: Array, table: Array, trees: Trees, rate: float, seed: int,
    starts: tuple[Array, Array], *, shared: bool,
) -> tuple[Array, Array, Array, Array]:  # fmt: skip
    """Return the gradients of bos, words, cells and table.

    starts: the first word and the first action of every context, each [R+1] int64. shared: there is one row of cells.
    """
    xp = device.xp()
    d_out, bos, words, cells, table = check.floats(d_out=d_out, bos=bos, words=words, cells=cells, table=table)
    d_bos, d_words, d_cells, d_table = (xp.empty_like(x) for x in (bos, words, cells, table))
    sizes = len(starts[0]) - 1, len(cells), int(shared), len(table)
    args = (
        d_out, trees.word_actions, trees.cell_actions, *starts, *sizes, d_words, d_cells, d_bos, d_table,
        *_rows(words, trees, rate, seed),
    )  # fmt: skip
    n_threads = (len(words) + len(cells) + 1 + len(table)) * len(bos)
    device.launch("action_inputs", "row_gradients", (-(-n_threads // THREADS),), (THREADS,), args, d_out.dtype)
    return d_bos, d_words, d_cells, d_table


def _rows(words: Array, trees: Trees, rate: float, seed: int) -> tuple[object, ...]:
    return trees.previous, trees.positions, len(trees.previous), *words.shape, *check.dropout(rate, seed)
