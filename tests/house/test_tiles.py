"""A number on which a kernel's path depends has a name, and is among the tile sizes of its backend."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(path for name in ("cpu", "cuda") for path in (ROOT / "accel" / name).rglob("*.py"))
SOURCES = sorted((ROOT / "accel" / "cuda").rglob("*.cu"))
NO_TILES = {
    "AHEAD": "accel/cpu/support/products.py: how far ahead a weight is read, not what is computed",
    "SIDE_BY_SIDE": "accel/cpu/support/products.py: in which order a weight is read, not what is computed",
    "LEAST": "accel/cpu/support/team.py: who computes, not what is computed",
    "ALIGNED": "accel/cuda/support/packing.py: where an array lies",
    "BLOCK": "TILE and its warps",
    "BLOCK_REGISTERS": "what a GPU has",
    "DEFERRED": "how many checks may wait",
    "ENTRY": "the layout of a derivation",
    "ENTRY_BYTES": "the layout of a derivation",
    "FOUR_WARPS": "what a GPU has",
    "IS_PLACE": "accel/cuda/support/seeds.py: a bit of the threshold of dropout",
    "KEYS_ROWS": "what a block has in memory, beyond which an error is raised",
    "LINE": "accel/cpu/support/turns.py: where counters lie",
    "MOST_KEYS": "a limit, beyond which an error is raised",
    "MOST_TURNS": "accel/cpu/recurrence.py: which thread multiplies, not what is computed",
    "NONE": "the largest integer",
    "NUMBER": "accel/cuda/support/graphs.py: the bytes of a number",
    "PATIENCE": "accel/cpu/support/turns.py: how a thread waits",
    "SIZES": "accel/cuda/support/graphs.py: to which sizes arrays are padded",
    "SMALLEST": "accel/cuda/support/graphs.py: to which sizes arrays are padded",
    "REGISTERS_TOGETHER": "what a GPU has",
    "STATIC_SHARED_LIMIT": "what a GPU has",
    "THREAD_REGISTERS": "what a GPU has",
    "SUMS": "accel/cuda/support/scatter.py: how many sums a kernel takes",
    "EDGE": "TILE + 1, a stride",
    "ROWS": "of tiles.cu: TILE / WARPS",
    "CHUNKS": "of warp.cu: from the width of a head, which is tested at 32",
}
"""Constants on which no path depends, each with its meaning."""
PATCHED = {
    "LOGITS": "tests/kernels/test_cpu_kernels.py",
    "LOGITS_AT_ONCE": "tests/kernels/test_cuda_host.py",
    "MEMORY": "tests/kernels/test_cuda_span_parser.py",
}
"""Memory limits, too large to be reached: the named test sets a small one."""
ELSEWHERE = {
    "accel/cpu/optimizer.py": "tests/kernels/test_optimizer.py",
    "accel/cuda/activation_penalties.py": "tests/kernels/test_cuda_fused.py",
    "accel/cuda/chart_plan.py": "tests/kernels/test_cuda_gpst.py",
    "accel/cuda/induced_trees.py": "tests/kernels/test_cuda_gpst.py",
    "accel/cuda/loss_terms.py": "tests/kernels/test_cuda_gpst.py",
    "accel/cuda/optimizer.py": "tests/kernels/test_optimizer.py",
    "accel/cuda/parser_parts.py": "tests/kernels/test_cuda_parser_parts.py",
    "accel/cuda/products.py": "tests/kernels/test_products.py",
    "accel/cuda/residual_sums.py": "tests/kernels/test_cuda_gpst.py",
    "accel/cuda/sublayers.py": "tests/kernels/test_cuda_fused.py",
    "accel/cuda/relative_positions.py": "tests/kernels/test_cuda_relative_positions.py",
    "accel/cuda/support/columns.py": "tests/kernels/test_cuda_columns.py",
    "accel/cuda/support/copies.py": "tests/kernels/test_cuda_copies.py",
    "accel/cuda/support/cublaslt.py": "tests/kernels/test_cublaslt.py",
    "accel/cuda/support/factors.py": "tests/kernels/test_products.py",
    "accel/cuda/support/persistent.py": "tests/kernels/test_cuda_persistent.py",
    "accel/cuda/support/tensor_attention.py": "tests/kernels/test_cuda_tensor_attention.py",
    "accel/cuda/support/tiled_attention.py": "tests/kernels/test_cuda_tiled_attention.py",
    "accel/cuda/support/transposes.py": "tests/kernels/test_cuda_gpst.py",
}
"""Files of functions that are not in the kit's table, or are fast forms; the named tests use their tile sizes."""


def constants(path: Path) -> Iterator[str]:
    """Yield the names of a module's constants that are integers from 4 up, or tuples of them."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value and any(map(is_large, ast.walk(node.value))):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [x.id for target in targets for x in ast.walk(target) if isinstance(x, ast.Name)]
            yield from (name for name in names if name.isupper() and not name.startswith("_"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_constants_are_declared(path: Path) -> None:
    """A constant is imported where the backend declares its tiles, or is listed above with a reason."""
    file = str(path.relative_to(ROOT))
    declaring = path.parents[len(path.relative_to(ROOT / "accel").parts) - 2] / "support" / "tile_sizes.py"
    imported = set()
    for node in ast.walk(ast.parse(declaring.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").replace(".", "/") + ".py" == file:
            imported |= {alias.name for alias in node.names}
    for name in constants(path):
        if name in PATCHED:
            assert f'"{name}"' in (ROOT / PATCHED[name]).read_text(encoding="utf-8")
        elif file in ELSEWHERE:
            assert re.search(rf"\b{name}\b", (ROOT / ELSEWHERE[file]).read_text(encoding="utf-8")), name
        elif path != declaring:
            assert name in imported | set(NO_TILES), f"{file}: {name} is missing in {declaring.relative_to(ROOT)}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_sizes_of_tiles_have_names(path: Path) -> None:
    """Functions contain no power of two from 8 up, except a warp's 32 lanes and the widths of numbers."""
    for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(function, ast.FunctionDef):
            continue
        exceptions = {32} if "cuda" in path.parts else set()
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and re.search(
                r"IntType|uint64|float32|int32|dtype\.type", ast.unparse(node.func)
            ):
                exceptions |= {x.value for x in node.args if isinstance(x, ast.Constant)}
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow | ast.LShift):
                exceptions |= {x.value for x in ast.walk(node.right) if isinstance(x, ast.Constant)}
            if isinstance(node, ast.IfExp):  # f32 or f64, the name of a type
                exceptions |= {x.value for x in (node.body, node.orelse) if isinstance(x, ast.Constant)} & {32, 64}
        for node in ast.walk(function):
            if (
                isinstance(node, ast.Constant)
                and type(node.value) is int
                and is_tile(node.value)
                and node.value not in exceptions
            ):
                raise AssertionError(f"{path.relative_to(ROOT)}:{node.lineno}: {node.value} needs a name")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_sizes_of_tiles_have_names_in_cuda(path: Path) -> None:
    """They are macros, equal to the Python constant of the same name, except 32, a warp, and 16, its half."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        code = re.sub(r"//.*|\"[^\"]*\"", "", line)
        macro = re.match(r"\s*#define (\w+) (\d+)\s*$", code)
        if macro and macro[1] not in NO_TILES:
            values = values_of(macro[1], path)
            assert int(macro[2]) in values, f"{path.name}:{number}: {macro[1]} is {values} in Python"
        elif not macro:
            for literal in map(int, re.findall(r"(?<![\w.])\d+(?![\w.])", code)):
                assert not is_tile(literal) or literal in (16, 32), f"{path.name}:{number}: {literal} needs a name"


def is_large(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value >= 4


def is_tile(number: int) -> bool:
    return number >= 8 and number & (number - 1) == 0


def values_of(name: str, source: Path) -> set[int]:
    """Return the values of the constants of this name in the modules of `accel.cuda` that belong to a CUDA source.

    A module belongs to a source of its own name, and to those whose files it names, as in "as in tiles.cu". If no such
    module has the constant, return its values in all modules.
    """
    texts = {path: path.read_text(encoding="utf-8") for path in FILES if "cuda" in path.parts}
    pattern = re.compile(rf"(?<!\w){re.escape(source.name)}")
    own = [text for path, text in texts.items() if path.stem == source.stem or pattern.search(text)]
    constant = re.compile(rf"^{name}(?:: \w+)? = (\d+)", re.MULTILINE)
    return {int(x) for text in own for x in constant.findall(text)} or {
        int(x) for text in texts.values() for x in constant.findall(text)
    }
