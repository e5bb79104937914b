"""Mirror of `refimpl.transformer_grammars.stack_compose`, and of the doubling of closing non-terminals in
`refimpl.trees`."""

from __future__ import annotations

import numpy as np

from accel.ref.support.batch import Array, Outputs, joined, of_sequence, offsets_of, ranges_of
from refimpl import trees as ref_trees
from refimpl.transformer_grammars import stack_compose as ref_stack_compose


def double_closing(types: Array, offsets: Array) -> Outputs:
    """Mirror of `refimpl.trees.double_closing` on types: (types [N], source [N], offsets [B+1]).

    types are 0 for ONT, 1 for T, 2 for CNT1 and 3 for CNT2; `source` is the row of the argument that a row comes from.
    """
    texts = {ref_trees.ActionType.ONT: "(X", ref_trees.ActionType.T: "x", ref_trees.ActionType.CNT1: "X)"}
    doubled, sources, lengths = [], [], []
    for b, part in enumerate(ranges_of(offsets, len(types))):
        sequence = types[part].tolist()
        for i, a in enumerate(sequence):
            if a not in texts:
                raise ValueError(f"sequence {b}: position {i}: type {a} is not ONT, T or CNT1")
        doubled_types = ref_trees.double_closing([texts[a] for a in sequence])[1]
        first = [a != ref_trees.ActionType.CNT2 for a in doubled_types]
        doubled.append(np.array(doubled_types, dtype=np.int8))
        sources.append(part.start + np.cumsum(first) - 1)
        lengths.append(len(doubled_types))
    return joined(doubled, np.int8), joined(sources, np.int32), offsets_of(lengths)


def attend_sets(types: Array, offsets: Array) -> Outputs:
    """Mirror of `refimpl.transformer_grammars.stack_compose.attend_sets`: (row_offsets [N+1], keys [E], relative [E],
    depths [N]).

    types [N] are 0 for ONT, 1 for T, 2 for CNT1 and 3 for CNT2. keys are positions within their sequence, ascending.
    """
    sizes, keys, relative, depths = [], [], [], []
    for b, part in enumerate(ranges_of(offsets, len(types))):
        sequence = types[part].tolist()
        sets = of_sequence(b, lambda sequence=sequence: ref_stack_compose.attend_sets(sequence))
        depth = ref_stack_compose.depths(sequence)
        sizes += [len(row) for row in sets]
        keys += [j for row in sets for j in row]
        relative += [depth[i] - depth[j] for i, row in enumerate(sets) for j in row]
        depths += depth
    return offsets_of(sizes), np.array(keys, np.int32), np.array(relative, np.int32), np.array(depths, np.int32)
