"""cuBLASLt through ctypes: one product of matrices in the memory of the GPU, on the current stream.

CuPy refuses to call cuBLAS while a stream is captured. This module has a handle of its own, and workspaces in device
memory that are allocated before a capture begins. The numbers of types and attributes are those of `cublasLt.h`.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p, sizeof
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from accel.cuda import device
from accel.cuda.device import Array

WORKSPACE = 32 * 2**20  # bytes
MOST_ALIGNED = 256  # bytes: cuBLASLt makes no use of a greater alignment of an address
KEPT = 4096  # plans: if every batch has other lengths, each product is a new problem
PER_MATRIX = (c_void_p, c_void_p)  # its address, and its layout
FLOATS, DOUBLES = (tuple(byref(number(x)) for x in (0, 1)) for number in (c_float, c_double))  # pointers to 0 and 1
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cublasLtCreate": (c_void_p,),
    "cublasLtMatmulDescCreate": (c_void_p, c_int, c_int),
    "cublasLtMatmulDescDestroy": (c_void_p,),
    "cublasLtMatmulDescSetAttribute": (c_void_p, c_int, c_void_p, c_size_t),
    "cublasLtMatrixLayoutCreate": (c_void_p, c_int, c_uint64, c_uint64, c_int64),
    "cublasLtMatrixLayoutDestroy": (c_void_p,),
    "cublasLtMatrixLayoutSetAttribute": (c_void_p, c_int, c_void_p, c_size_t),
    "cublasLtMatmulPreferenceCreate": (c_void_p,),
    "cublasLtMatmulPreferenceSetAttribute": (c_void_p, c_int, c_void_p, c_size_t),
    "cublasLtMatmulPreferenceDestroy": (c_void_p,),
    "cublasLtMatmulAlgoGetHeuristic": (*[c_void_p] * 7, c_int, c_void_p, c_void_p),
    "cublasLtMatmul": (
        c_void_p, c_void_p, c_void_p, *PER_MATRIX, *PER_MATRIX, c_void_p, *PER_MATRIX, *PER_MATRIX,
        c_void_p, c_void_p, c_size_t, c_void_p,
    ),
}  # fmt: skip
"""The argument types of the functions that are used; each function returns a status, 0 for success."""


class Number(IntEnum):
    """Constants of the library, by which plans are looked up: the hash of IntEnum is slower, for it is Python code."""

    __hash__ = int.__hash__


class Type(Number):
    """`cudaDataType_t`."""

    FLOAT32 = 0
    FLOAT64 = 1
    BFLOAT16 = 14


class Compute(Number):
    """`cublasComputeType_t`."""

    FLOAT32 = 68
    FLOAT64 = 70
    TF32 = 77


class Operation(IntEnum):
    """Attributes of the descriptor of a product, `cublasLtMatmulDescAttributes_t`."""

    TRANSPOSE_A = 3
    TRANSPOSE_B = 4
    EPILOGUE = 7
    BIAS_POINTER = 8


class Epilogue(Number):
    """`cublasLtEpilogue_t`."""

    NONE = 1
    BIAS = 4  # added to every column of the result
    SUMS_OF_A = 256  # a gradient of a bias: the sums of the first factor over the axis that both share, `BGRADA`
    SUMS_OF_B = 512  # `BGRADB`


class Layout(IntEnum):
    """Attributes of the layout of a matrix, `cublasLtMatrixLayoutAttribute_t`."""

    BATCH_COUNT = 5
    BATCH_STRIDE = 6


class Preference(IntEnum):
    """Attributes of the search for an algorithm, `cublasLtMatmulPreferenceAttributes_t`."""

    MOST_WORKSPACE = 1
    ALIGNMENT_A = 5
    ALIGNMENT_B = 6
    ALIGNMENT_C = 7
    ALIGNMENT_D = 8


class Algorithm(ctypes.Structure):
    """`cublasLtMatmulHeuristicResult_t`; the algorithm stands at its beginning."""

    _fields_ = [
        *(("algorithm", c_uint64 * 8), ("workspace", c_size_t), ("state", c_int), ("waves", c_float)),
        ("reserved", c_int * 4),
    ]


class Matrix(NamedTuple):
    """The layout of a matrix, which cuBLASLt reads column by column; columns begin `pitch` elements apart.

    `stride` is the number of elements from one matrix of a batch to the next, `aligned` the alignment of the address in
    bytes. If `transposed`, the factor of the product is the transpose of this matrix.
    """

    type: Type
    rows: int
    columns: int
    pitch: int
    stride: int
    aligned: int
    transposed: bool = False


class Problem(NamedTuple):
    """The products out = a b that one algorithm computes; each of the three is a matrix or a batch of matrices.

    `vector` is the alignment of the vector that the epilogue reads or writes, 0 if there is no vector.
    """

    compute: Compute
    a: Matrix
    b: Matrix
    out: Matrix
    batch: int
    epilogue: Epilogue = Epilogue.NONE
    vector: int = 0


@dataclass(frozen=True)
class Plan:
    """The library's descriptors of a problem, kept for further products, and a pointer to its algorithm."""

    operation: c_void_p
    layouts: tuple[c_void_p, c_void_p, c_void_p]
    algorithm: Any


class Library:
    """The library with a handle, a workspace for each stream, and the plans of the problems that were used last."""

    def __init__(self, functions: Any) -> None:
        self.functions = functions
        self.handle = self.created("cublasLtCreate")
        self.matmul = functions.cublasLtMatmul
        self.workspaces: dict[int, tuple[Array, int]] = {}  # by stream: array and address, which graphs hold: none goes
        self.plans: dict[Problem, Plan] = {}

    def call(self, name: str, *args: Any) -> None:
        """Call a function; raise RuntimeError with its name if it does not succeed."""
        status = getattr(self.functions, name)(*args)
        if status:
            raise failure(name, status)

    def created(self, name: str, *args: Any) -> c_void_p:
        """Return the object that a function of the library creates."""
        pointer = c_void_p()
        self.call(name, byref(pointer), *args)
        return pointer

    def set(self, kind: str, where: c_void_p, attribute: IntEnum, value: Any) -> None:
        """Set an attribute to a ctypes value."""
        self.call(f"cublasLt{kind}SetAttribute", where, attribute, byref(value), sizeof(value))

    def workspace(self, stream: int) -> int:
        """Return the address of the workspace of a stream; the first call comes before a capture begins."""
        if stream not in self.workspaces:
            array = device.xp().empty(WORKSPACE, "uint8")
            self.workspaces[stream] = array, device.address(array)
        return self.workspaces[stream][1]

    def multiply(self, problem: Problem, a: int, b: int, out: int, *, add: bool, vector: int = 0) -> None:
        """Compute a problem's product at these addresses; with `add`, add it to what `out` holds.

        `vector` is the address of the epilogue's vector, 0 if there is none.
        """
        plan = self.plans.pop(problem, None) or self._planned(problem, vector)
        self.plans[problem], stream = plan, device.stream()
        if len(self.plans) > KEPT:
            self._forget(self.plans.pop(next(iter(self.plans))))
        numbers = DOUBLES if problem.out.type == Type.FLOAT64 else FLOATS
        if vector:
            self.set("MatmulDesc", plan.operation, Operation.BIAS_POINTER, c_void_p(vector))
        layout_a, layout_b, layout_out = plan.layouts
        status = self.matmul(
            self.handle, plan.operation, numbers[True], a, layout_a, b, layout_b, numbers[add], out, layout_out,
            out, layout_out, plan.algorithm, self.workspace(stream), WORKSPACE, stream,
        )  # fmt: skip
        if status:
            raise failure("cublasLtMatmul", status)

    def _planned(self, problem: Problem, vector: int) -> Plan:
        scale = Type.FLOAT64 if problem.out.type == Type.FLOAT64 else Type.FLOAT32
        operation = self.created("cublasLtMatmulDescCreate", problem.compute, scale)
        self.set("MatmulDesc", operation, Operation.TRANSPOSE_A, c_int32(problem.a.transposed))
        self.set("MatmulDesc", operation, Operation.TRANSPOSE_B, c_int32(problem.b.transposed))
        if vector:  # the search for an algorithm reads the alignment of its address
            self.set("MatmulDesc", operation, Operation.EPILOGUE, c_uint32(problem.epilogue))
            self.set("MatmulDesc", operation, Operation.BIAS_POINTER, c_void_p(vector))
        a, b, out = (self._layout(matrix, problem.batch) for matrix in (problem.a, problem.b, problem.out))
        preference = self.created("cublasLtMatmulPreferenceCreate")
        self.set("MatmulPreference", preference, Preference.MOST_WORKSPACE, c_uint64(WORKSPACE))
        for attribute, matrix in (
            (Preference.ALIGNMENT_A, problem.a), (Preference.ALIGNMENT_B, problem.b),
            (Preference.ALIGNMENT_C, problem.out), (Preference.ALIGNMENT_D, problem.out),
        ):  # fmt: skip
            self.set("MatmulPreference", preference, attribute, c_uint32(matrix.aligned))
        algorithm, count = Algorithm(), c_int()
        self.call(
            "cublasLtMatmulAlgoGetHeuristic", self.handle, operation, a, b, out, out, preference, 1,
            byref(algorithm), byref(count),
        )  # fmt: skip
        self.call("cublasLtMatmulPreferenceDestroy", preference)
        if count.value < 1 or algorithm.state:
            raise RuntimeError(f"cuBLASLt has no algorithm for {problem}: leave out --kernels fast")
        return Plan(operation, (a, b, out), byref(algorithm))

    def _forget(self, plan: Plan) -> None:
        self.call("cublasLtMatmulDescDestroy", plan.operation)
        for layout in plan.layouts:
            self.call("cublasLtMatrixLayoutDestroy", layout)

    def _layout(self, matrix: Matrix, batch: int) -> c_void_p:
        layout = self.created("cublasLtMatrixLayoutCreate", matrix.type, matrix.rows, matrix.columns, matrix.pitch)
        if batch > 1:
            self.set("MatrixLayout", layout, Layout.BATCH_COUNT, c_int32(batch))
            self.set("MatrixLayout", layout, Layout.BATCH_STRIDE, c_int64(matrix.stride))
        return layout


def failure(name: str, status: int) -> RuntimeError:
    return RuntimeError(f"{name} failed with status {status} (cublasStatus_t)")


def declared(library: Any) -> Any:
    """Return a library after declaring the types of the functions that are used: no pointer is cut to 32 bits."""
    for name, arguments in SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes, function.restype = list(arguments), c_int
    return library


def aligned(address: int) -> int:
    """Return the greatest power of two up to 256 of which an address is a multiple."""
    return min(address & -address, MOST_ALIGNED)
