"""The gradient of a step, over the whole batch, which is split among processes and into micro-batches."""

from __future__ import annotations

from functools import partial
from typing import Any

from accel.autodiff.arrays import Array
from accel.autodiff.recomputation import saved_bytes
from accel.autodiff.seeds import mix
from accel.autodiff.tape import Tape
from accel.training.buckets import Sums
from accel.training.memory import size
from accel.training.run import Run, tokens_of


def differentiate(run: Run, parts: list[Any]) -> tuple[Array | float, Array | float, Array | float]:
    """Set `run.gradient` to the gradient of the summed loss of the whole batch.

    Returns this loss, and the numbers of labels and tokens: numbers, or arrays without axes on the device, for which
    the host does not wait.

    With several processes the gradients are summed, bucket by bucket, while the last backward pass still runs.
    Micro-batch k of process r, of n processes, has the dropout of process r + k n in a run with more processes.
    """
    xp, group, loss, memories = run.ops.xp, run.communicator, None, []
    seed, whole = mix(run.training.seed, run.step), _counted(run, parts)
    sums = None if group.size == 1 else Sums(group, run.gradient, list(run.buckets))
    for number, part in enumerate(parts):
        part_loss, _, memory = run.model.loss_and_grad(
            run.ops,
            run.config,
            run.parameters | run.frozen,
            part,
            run.memories[number] if number < len(run.memories) else None,  # an epoch's last batch may have fewer parts
            dropout_seed=mix(seed, group.rank + group.size * number),
            gradients=run.gradients,
            whole=whole,
            add=number > 0,
            recompute=run.training.recompute,
            wait=False,
            watch=None if run.report is None else partial(_report, run, part, len(parts) > 1),
            on_final=sums.on_final if sums is not None and number == len(parts) - 1 else None,
        )
        loss = part_loss if loss is None else loss + part_loss
        memories.append(memory)
    run.memories = memories
    n_labels, n_tokens = sum(part.n_labels for part in parts), sum(map(tokens_of, parts))
    if sums is None:
        return loss, n_labels, n_tokens
    totals = xp.empty(3, dtype=xp.float64)
    for place, value in enumerate((loss, n_labels, n_tokens)):
        totals[place] = value
    group.all_reduce_sum(totals)
    sums.wait()
    return totals[0], totals[1], totals[2]


def _report(run: Run, part: Any, is_part: bool, tape: Tape) -> None:
    """Report once how much memory the first batch, or micro-batch, takes."""
    assert run.report is not None
    saved, n_tokens = saved_bytes(tape, [run.vector]), tokens_of(part)
    n_bytes = run.vector.nbytes + run.gradient.nbytes + sum(vector.nbytes for vector in run.optimizer.vectors.values())
    run.report(
        f"memory: {size(saved / n_tokens)} a token for the backward pass, {size(saved)} for the first "
        f"{'micro-batch' if is_part else 'batch'} of {n_tokens:,} tokens; "
        f"parameters, gradient and optimizer {size(n_bytes)}"
    )
    run.report = None


def _counted(run: Run, parts: list[Any]) -> dict[str, int] | None:
    """Return the sums of the model's `counts` over all parts of all processes; None if it has none, or for one part."""
    if not hasattr(run.model, "counts") or (len(parts) == 1 and run.communicator.size == 1):
        return None
    counts = [run.model.counts(run.config, part) for part in parts]
    sums = {name: sum(x[name] for x in counts) for name in counts[0]}
    if run.communicator.size == 1:
        return sums
    totals = run.ops.xp.asarray(list(sums.values()), dtype=run.ops.xp.float64)
    run.communicator.all_reduce_sum(totals)
    return dict(zip(sums, map(int, totals.tolist()), strict=True))
