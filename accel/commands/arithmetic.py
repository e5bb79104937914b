"""The arithmetic of a training: the form of its kernels and the precision of its products, as its options say."""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager, nullcontext

from accel.tasks.job import Job

FAST_FROM = 80  # the compute capability, times ten, that fast kernels and narrow products need


def forms_of(options: argparse.Namespace, job: Job) -> AbstractContextManager[None]:
    """Return a context in which kernels have the options' form, and matrix products the precision of the job."""
    precision = job.training.precision
    if options.backend == "cuda":
        from accel.cuda import device, forms

        for name, value, default in (("kernels", options.kernels, "plain"), ("precision", precision, "float32")):
            if value != default and device.capability() < FAST_FROM:
                need, has = (f"compute capability {x / 10}" for x in (FAST_FROM, device.capability()))
                raise ValueError(f"--{name} {value}: needs {need}, but this GPU has {has}; use --{name} {default}")
        if options.graphs and options.kernels != "fast":
            raise ValueError("--graphs: only fast kernels can be captured: add --kernels fast")
        return forms.use(forms.Forms(options.kernels, precision, options.graphs))
    if options.graphs:
        raise ValueError(f"--graphs: the backend {options.backend} has none; use --backend cuda, or leave out --graphs")
    has_bf16 = options.backend == "cpu" and precision == "bf16"
    for name, value, default in (("precision", precision, "float32"), ("kernels", options.kernels, "plain")):
        if value != default and not (name == "precision" and has_bf16):
            values = "float32 and bf16" if name == "precision" and options.backend == "cpu" else default
            only = f"the backend {options.backend} has {name} {values} only"
            raise ValueError(f"--{name} {value}: {only}; use --backend cuda, or --{name} {default}")
    return _bfloat16(str(getattr(options, "kind", None) or options.model), job) if has_bf16 else nullcontext()


def _bfloat16(model: str, job: Job) -> AbstractContextManager[None]:
    """Return a context that multiplies hidden states in bfloat16; ValueError if model or processor cannot do so."""
    from accel.cpu.support import bfloat16

    reason = "" if bfloat16.AVAILABLE else "this processor has no avx512_bf16 instructions"
    if not any(name.endswith("hh.weight") for name in job.model.parameter_shapes(job.config)):
        reason = f"on a processor it rounds hidden states of recurrences only, and {model} has none"
    if reason:
        raise ValueError(f"--precision bf16: {reason}; use --precision float32")
    return bfloat16.use()
