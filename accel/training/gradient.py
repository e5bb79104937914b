"""The gradient of a step: that of the whole batch, of which processes and micro-batches are parts."""

from __future__ import annotations

from typing import Any

from accel.autodiff.layers import mix
from accel.training.run import Run


def differentiate(run: Run, parts: list[Any]) -> list[float]:
    """Set the gradient to that of the summed loss of the whole batch, and return this loss, its labels and tokens.

    Micro-batch k of process r draws what process r + k of more processes would draw, k counted in processes.
    """
    xp, group, loss, memories = run.ops.xp, run.communicator, 0.0, []
    seed, whole = mix(run.training.seed, run.step), _counted(run, parts)
    for number, part in enumerate(parts):
        part_loss, _, memory = run.model.loss_and_grad(
            run.ops,
            run.config,
            run.parameters,
            part,
            run.memories[number] if run.memories else None,
            dropout_seed=mix(seed, group.rank + group.size * number),
            gradients=run.gradients,
            whole=whole,
            add=number > 0,
        )
        loss += part_loss
        memories.append(memory)
    run.memories = memories
    n_labels, n_tokens = sum(part.n_labels for part in parts), sum(len(part.ids) for part in parts)
    totals = xp.asarray([loss, n_labels, n_tokens], dtype=xp.float64)
    group.all_reduce_sum(totals)
    group.all_reduce_sum(run.gradient)
    return totals.tolist()  # type: ignore[no-any-return]


def _counted(run: Run, parts: list[Any]) -> dict[str, int] | None:
    """Return the sums of the model's counts over all parts of all processes; None if there is but one part."""
    if not hasattr(run.model, "counts") or (len(parts) == 1 and run.communicator.size == 1):
        return None
    counts = [run.model.counts(run.config, part) for part in parts]
    totals = run.ops.xp.asarray([sum(x[name] for x in counts) for name in counts[0]], dtype=run.ops.xp.float64)
    run.communicator.all_reduce_sum(totals)
    return dict(zip(counts[0], map(int, totals.tolist()), strict=True))
