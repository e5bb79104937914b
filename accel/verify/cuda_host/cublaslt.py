"""cuBLASLt without a GPU: C functions that read memory by the layouts that they are given, and multiply with NumPy.

They are called through ctypes with the types that `accel.cuda.support.cublaslt` declares, and receive pointers and
attributes as the library does, with its sizes of attributes and its rules for layouts. A layout, a leading dimension or
an alignment that is wrong is refused, or gives wrong values. bf16 factors are exact in float32; TF32 rounds float32 to
ten bits of mantissa, to nearest, ties to even (the library does not say). NumPy adds in float32, also the sums of a
factor.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import CFUNCTYPE, c_double, c_float, c_int, c_uint64, c_void_p
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from accel.cuda.support.cublaslt import (
    SIGNATURES,
    Algorithm,
    Compute,
    Epilogue,
    Layout,
    Operation,
    Preference,
    Problem,
    Type,
)
from accel.verify.cuda_host import cupy_array, cupy_graphs

INVALID, NOT_SUPPORTED, INTERNAL = 7, 15, 14  # cublasStatus_t
DTYPES = {Type.FLOAT32: np.float32, Type.FLOAT64: np.float64, Type.BFLOAT16: np.uint16}
SIZES = {
    "MatmulDesc": {
        Operation.TRANSPOSE_A: 4, Operation.TRANSPOSE_B: 4, Operation.EPILOGUE: 4, Operation.BIAS_POINTER: 8,
    },
    "MatrixLayout": {Layout.BATCH_COUNT: 4, Layout.BATCH_STRIDE: 8},
    "MatmulPreference": {
        Preference.MOST_WORKSPACE: 8, Preference.ALIGNMENT_A: 4, Preference.ALIGNMENT_B: 4, Preference.ALIGNMENT_C: 4,
        Preference.ALIGNMENT_D: 4,
    },
}  # fmt: skip
"""Bytes of the attributes, as `cublasLt.h` has them."""
SUPPORTED = {
    (Compute.FLOAT32, Type.FLOAT32, Type.FLOAT32), (Compute.TF32, Type.FLOAT32, Type.FLOAT32),
    (Compute.FLOAT32, Type.BFLOAT16, Type.FLOAT32), (Compute.FLOAT64, Type.FLOAT64, Type.FLOAT64),
}  # fmt: skip
"""The compute type, the type of both factors, and the type of the result."""
WORKSPACE_NEEDED = 1 << 20
BIAS_ALIGNED = 16  # bytes


class Refused(Exception):
    """What the library would refuse, with the status that it returns."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass
class Described:
    """A descriptor of the library: its kind, the numbers it was created with, and the attributes set since."""

    kind: str
    numbers: tuple[int, ...] = ()
    attributes: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Seen:
    """A matrix as the library sees it: `stride` elements before the next of a batch; `aligned` divides its address."""

    type: int
    rows: int
    columns: int
    pitch: int
    stride: int
    aligned: int


@dataclass(frozen=True)
class Product:
    """A product that was planned: the matrices in the library's order, and which of the factors are transposed."""

    compute: int
    a: Seen
    b: Seen
    out: Seen
    transposed: tuple[bool, bool]
    batch: int
    epilogue: int


class HostLibrary:
    """The C functions by name; `products` are those computed, `reason` says why the last refused call was refused."""

    def __init__(self) -> None:
        self.described: list[Described] = []
        self.planned: list[Product] = []
        self.products: list[Product] = []
        self.reason = ""
        for name, arguments in SIGNATURES.items():
            setattr(self, name, CFUNCTYPE(c_int, *arguments)(self._guarded(name)))

    def _guarded(self, name: str) -> Callable[..., int]:
        kinds = {f"cublasLt{kind}SetAttribute": kind for kind in SIZES}
        creates = {"cublasLtCreate", *(f"cublasLt{kind}Create" for kind in SIZES)}

        def call(*args: Any) -> int:
            try:
                if name in creates:
                    self._create(name.removeprefix("cublasLt").removesuffix("Create"), *args)
                elif name in kinds:
                    self._set(kinds[name], *args)
                elif name.endswith("Destroy"):
                    self._of(args[0], name.removeprefix("cublasLt").removesuffix("Destroy")).kind = "destroyed"
                elif name == "cublasLtMatmulAlgoGetHeuristic":
                    self._plan(*args)
                elif name == "cublasLtMatmul":
                    self._multiply(*args)
            except Refused as refusal:
                self.reason = str(refusal)
                return refusal.status
            except Exception as error:  # ctypes would lose it
                self.reason = repr(error)
                return INTERNAL
            return 0

        return call

    def _create(self, kind: str, where: int, *numbers: int) -> None:
        self.described.append(Described(kind, numbers))
        c_void_p.from_address(where).value = len(self.described)

    def _of(self, pointer: int, kind: str) -> Described:
        if not (pointer and pointer <= len(self.described) and self.described[pointer - 1].kind == kind):
            raise Refused(INVALID, f"{pointer} is no {kind or 'handle'}")
        return self.described[pointer - 1]

    def _set(self, kind: str, pointer: int, attribute: int, where: int, size: int) -> None:
        expected = SIZES[kind].get(attribute)  # type: ignore[attr-defined]
        if size != expected:
            raise Refused(INVALID, f"{kind}: attribute {attribute} of {size} bytes, not {expected}")
        value = int.from_bytes(ctypes.string_at(where, size), "little", signed=True)
        self._of(pointer, kind).attributes[attribute] = value

    def _plan(
        self, handle: int, operation: int, a: int, b: int, c: int, out: int, preference: int, n_requested: int,
        results: int, count: int,
    ) -> None:  # fmt: skip
        self._of(handle, "")
        preferred = self._of(preference, "MatmulPreference").attributes
        if preferred.get(Preference.MOST_WORKSPACE, 0) < WORKSPACE_NEEDED or n_requested < 1 or c != out:
            raise Refused(INVALID, "the workspace is too small, no result is asked for, or C is not D")
        product = self._product(operation, a, b, out, preferred)
        result = Algorithm.from_address(results)
        self.planned.append(product)
        result.algorithm[0], result.workspace, result.state = len(self.planned), WORKSPACE_NEEDED, 0
        c_int.from_address(count).value = 1

    def _product(self, operation: int, a: int, b: int, out: int, aligned: dict[int, int]) -> Product:
        described = self._of(operation, "MatmulDesc")
        layouts = [self._of(pointer, "MatrixLayout") for pointer in (a, b, out)]
        counts = {layout.attributes.get(Layout.BATCH_COUNT, 1) for layout in layouts}
        of_alignment = (Preference.ALIGNMENT_A, Preference.ALIGNMENT_B, Preference.ALIGNMENT_D)
        matrices = [
            Seen(*layout.numbers, layout.attributes.get(Layout.BATCH_STRIDE, 0), aligned[attribute])
            for layout, attribute in zip(layouts, of_alignment, strict=True)
        ]
        transposed = tuple(
            described.attributes.get(attribute, 0) == 1 for attribute in (Operation.TRANSPOSE_A, Operation.TRANSPOSE_B)
        )
        epilogue = Epilogue(described.attributes.get(Operation.EPILOGUE, Epilogue.NONE))
        if epilogue != Epilogue.NONE and described.attributes.get(Operation.BIAS_POINTER, 1) % BIAS_ALIGNED:
            raise Refused(NOT_SUPPORTED, "the bias, or its gradient, is missing or not aligned")
        compute, scale = described.numbers
        product = Product(compute, *matrices, transposed, counts.pop(), epilogue)  # type: ignore[arg-type]
        if counts:
            raise Refused(INVALID, "the layouts are of batches of several sizes")
        _refuse(product, scale)
        return product

    def _multiply(
        self, handle: int, operation: int, alpha: int, a: int, a_layout: int, b: int, b_layout: int, beta: int,
        c: int, c_layout: int, out: int, out_layout: int, algorithm: int, workspace: int, size: int, stream: int | None,
    ) -> None:  # fmt: skip
        self._of(handle, "")
        number = (c_uint64 * 8).from_address(algorithm)[0]
        if not 1 <= number <= len(self.planned):
            raise Refused(INVALID, "the algorithm was not returned by cublasLtMatmulAlgoGetHeuristic")
        product = self.planned[number - 1]
        aligned = {
            Preference.ALIGNMENT_A: product.a.aligned, Preference.ALIGNMENT_B: product.b.aligned,
            Preference.ALIGNMENT_D: product.out.aligned,
        }  # fmt: skip
        if self._product(operation, a_layout, b_layout, out_layout, aligned) != product:
            raise Refused(NOT_SUPPORTED, "the algorithm was returned for another product")
        if (c, c_layout) != (out, out_layout) or not workspace or workspace % 16 or size < WORKSPACE_NEEDED:
            raise Refused(INVALID, "C is not D, or the workspace is missing, too small or not aligned")
        for address, matrix in ((a, product.a), (b, product.b), (out, product.out)):
            if address % matrix.aligned:
                raise Refused(INVALID, f"address {address} is no multiple of {matrix.aligned}")
        real = c_double if product.out.type == Type.FLOAT64 else c_float
        factors = real.from_address(alpha).value, real.from_address(beta).value
        bias = self._of(operation, "MatmulDesc").attributes.get(Operation.BIAS_POINTER, 0)
        cupy_array.count(cupy_array.KERNELS, "cublasLtMatmul")
        cupy_graphs.done(lambda: _compute(product, a, b, out, *factors, bias))
        self.products.append(product)


def multiply(problem: Problem, a: int, b: int, out: int, add: bool) -> None:
    """Compute what `device.multiply` asks of cuBLAS."""
    cupy_graphs.refuse("a product of cuBLAS")
    matrices = [Seen(x.type, x.rows, x.columns, x.pitch, x.stride, 1) for x in (problem.a, problem.b, problem.out)]
    transposed = problem.a.transposed, problem.b.transposed
    product = Product(problem.compute, *matrices, transposed, problem.batch, Epilogue.NONE)
    _refuse(product, problem.out.type)
    cupy_array.count(cupy_array.KERNELS, "gemm")
    _compute(product, a, b, out, 1.0, float(add), 0)


def _refuse(product: Product, scale: int) -> None:
    """Raise Refused for what cuBLASLt does not compute."""
    a, b, out = product.a, product.b, product.out
    if a.type != b.type or (product.compute, a.type, out.type) not in SUPPORTED or scale != out.type:
        raise Refused(NOT_SUPPORTED, f"compute {product.compute} of types {a.type}, {b.type} to {out.type}")
    if product.epilogue != Epilogue.NONE and out.type != Type.FLOAT32:
        raise Refused(NOT_SUPPORTED, "an epilogue of a product in float64")
    factor = {Epilogue.SUMS_OF_A: (0, False), Epilogue.SUMS_OF_B: (1, True)}.get(product.epilogue)
    if factor and (product.batch > 1 or product.transposed[factor[0]] != factor[1]):
        raise Refused(NOT_SUPPORTED, "sums of the factors of a batch, or of one that lies the other way")
    for matrix in (a, b, out):
        if not (0 < matrix.rows <= matrix.pitch and matrix.columns > 0):
            raise Refused(INVALID, f"{matrix}: no rows, or a leading dimension below their number")
    (m, k), (depth, n) = (
        (x.columns, x.rows) if swap else (x.rows, x.columns) for x, swap in zip((a, b), product.transposed, strict=True)
    )
    if (m, n) != (out.rows, out.columns) or k != depth:
        raise Refused(INVALID, f"a product of [{m}, {k}] and [{depth}, {n}] is not [{out.rows}, {out.columns}]")
    if product.batch > 1 and out.stride < out.pitch * (out.columns - 1) + out.rows:
        raise Refused(INVALID, "the results of a batch overlap")


def _compute(product: Product, a: int, b: int, out: int, alpha: float, beta: float, bias: int) -> None:
    """Set out to alpha a b + beta out. The epilogue adds `bias` to every column, or sets it to the sums of a factor."""
    factors = [
        np.stack([_rounded(x, product.compute) for x in _matrices(address, matrix, product.batch)])
        for address, matrix in ((a, product.a), (b, product.b))
    ]
    left, right = (x.swapaxes(1, 2) if swap else x for x, swap in zip(factors, product.transposed, strict=True))
    real = DTYPES[Type(product.out.type)]
    values = np.matmul(left, right) * real(alpha)
    if product.epilogue == Epilogue.BIAS:
        values += _memory(bias, product.out.rows, real)[:, None]
    elif product.epilogue != Epilogue.NONE:
        sums = left[0].sum(axis=1) if product.epilogue == Epilogue.SUMS_OF_A else right[0].sum(axis=0)
        _memory(bias, len(sums), real)[...] = sums
    for value, result in zip(values, _matrices(out, product.out, product.batch), strict=True):
        result[...] = value + real(beta) * result if beta else value


def _memory(address: int, count: int, dtype: Any) -> np.ndarray:
    n_bytes = count * np.dtype(dtype).itemsize
    return np.frombuffer((ctypes.c_char * n_bytes).from_address(address), dtype)


def _matrices(address: int, matrix: Seen, batch: int) -> list[np.ndarray]:
    """Return the matrices of a batch, [rows, columns] each, as views of memory, column after column."""
    dtype = np.dtype(DTYPES[Type(matrix.type)])
    starts = [address + number * matrix.stride * dtype.itemsize for number in range(batch)]
    memories = [_memory(start, matrix.pitch * (matrix.columns - 1) + matrix.rows, dtype) for start in starts]
    strides = dtype.itemsize, matrix.pitch * dtype.itemsize
    return [np.lib.stride_tricks.as_strided(x, (matrix.rows, matrix.columns), strides) for x in memories]


def _rounded(x: np.ndarray, compute: int) -> np.ndarray:
    """Return factors as the tensor cores take them, in the type of the sums."""
    if x.dtype == np.uint16:
        return (x.astype(np.uint32) << 16).view(np.float32)
    return rounded(x, 13) if compute == Compute.TF32 else x


def rounded(x: np.ndarray, dropped: int) -> np.ndarray:
    """Return float32 numbers without the last `dropped` bits of their mantissa, to nearest, ties to even."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    unit = np.uint32(1 << dropped)
    nearest = (bits + (unit // 2 - 1) + (bits // unit & 1)) & ~(unit - 1)
    return np.where(np.isnan(x), x, nearest.view(np.float32))


@cache
def functions() -> HostLibrary:
    """Return the library, the same at every call."""
    return HostLibrary()
