"""Mirror of `refimpl.transformer_grammars.segments`."""

from __future__ import annotations

import numpy as np

from accel.ref.support.batch import Array, Outputs, joined, of_sequence, offsets_of, ranges_of
from refimpl.transformer_grammars import segments as ref_segments


def segments(
    types: Array,
    offsets: Array,
    segment_length: int,
    memory_length: int,
    memory: str = "stack",
    positions: str = "depth",
) -> Outputs:
    """Mirror of `refimpl.transformer_grammars.segments.segments`: (row_offsets, columns, relative, segment_offsets,
    memory_columns).

    types [N] are 0 for ONT, 1 for T, 2 for CNT1 and 3 for CNT2. Position i of the batch sees the columns
    `columns[row_offsets[i]:row_offsets[i + 1]]` of its segment's mask, ascending, at the distances `relative`.
    segment_offsets [B+1] counts the segments of the sequences. memory_columns [segments, memory_length] says which
    column, of the memory and the segment, becomes each row of the next memory; -1 for an empty row.
    """
    ref_segments.segments([0], segment_length, memory_length, memory=memory, positions=positions)  # type: ignore[arg-type]
    sizes, columns, relative, counts, moves = [], [], [], [], []
    for b, part in enumerate(ranges_of(offsets, len(types))):
        sequence = types[part].tolist()
        parts = of_sequence(
            b,
            lambda sequence=sequence: ref_segments.segments(
                sequence, segment_length, memory_length, memory=memory, positions=positions
            ),
        )
        for s, segment in enumerate(parts):
            for x in range(min(segment_length, len(sequence) - s * segment_length)):
                visible = np.flatnonzero(segment.mask[x])
                sizes.append(len(visible))
                columns.append(visible)
                relative.append(segment.relative[x, visible])
            moved_rows = np.concatenate([segment.memory_to_memory, segment.seq_to_memory], axis=1)
            moves.append(np.where(moved_rows.any(axis=1), moved_rows.argmax(axis=1), -1))
        counts.append(len(parts))
    memory_columns = np.array(moves, np.int32).reshape(sum(counts), memory_length)
    return offsets_of(sizes), joined(columns, np.int32), joined(relative, np.int32), offsets_of(counts), memory_columns
