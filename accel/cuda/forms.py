"""The form of the kernels, and the precision of the factors of matrix products; by default plain and float32.

The plain form of a kernel is tested without a GPU. The fast form uses features of GPUs that only a GPU can test; it
computes the same, and runs only inside `use`. A report of an H200 found the fast forms equal to the plain ones, and
most steps faster, but not all: plain stays the default (benchmarks/README.md, "On a GPU"). In bf16 and TF32, attention
over listed keys rounds the factors of its products only in the fast form, where tensor cores multiply them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from accel import KERNELS, PRECISIONS

FAST = {
    "matrix products": "accel/cuda/products.py: cuBLASLt in the place of CuPy's dot",
    "recurrence": "accel/cuda/support/persistent.cu: all steps in one cooperative launch, the weight in shared memory, "
    "of few sequences",
    "sparse_attention": "accel/cuda/support/tiled_attention.cu: a tile of queries copies the union of its keys once; "
    "tensor_attention.cu: in bf16 and TF32, tensor cores multiply it, where a block has room for all positions",
    "chart queries": "accel/cuda/chart_tokens.cu: the direction of a chart's scores, in its launches for the tokens",
    "charts": "accel/cuda/chart_passes.cu: all steps of a pass over GPST's charts in one cooperative launch",
    "training steps": "accel/training/graphs.py: CUDA graphs, where --graphs asks for them",
}
"""Everything that has a fast form, with that form in words."""


@dataclass(frozen=True)
class Forms:
    """The form of all kernels, one of `accel.KERNELS`, and the precision of products, one of `accel.PRECISIONS`.

    With `graphs`, training steps of one shape are captured once, and replayed by one call; they need fast kernels.
    """

    kernels: str = "plain"
    precision: str = "float32"
    graphs: bool = False

    def __post_init__(self) -> None:
        for name, value, choices in (("kernels", self.kernels, KERNELS), ("precision", self.precision, PRECISIONS)):
            if value not in choices:
                raise ValueError(f"{name}: {value!r} is not known; use {' or '.join(choices)}")
        if self.graphs and self.kernels != "fast":
            raise ValueError("graphs: CuPy multiplies no matrices while a stream is captured: add --kernels fast")


_forms = Forms()


def current() -> Forms:
    """Return the forms that are in use."""
    return _forms


@contextmanager
def use(forms: Forms) -> Iterator[None]:
    """Use these forms while the context lasts."""
    global _forms
    before, _forms = _forms, forms
    try:
        yield
    finally:
        _forms = before
