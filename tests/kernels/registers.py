"""What ptxas says of every kernel (registers, stack, spills, static shared memory), and how wide it loads and stores.

python -m tests.kernels.registers [SOURCE ...]

writes two files from the present sources. `registers.toml` has the largest figures that the kernels may have.
`accesses.toml` has how many loads and stores of the GPU's main memory a kernel has of each width, by its machine code.
If sources are named, the figures of the others stay. It needs nvcc, and nvdisasm on PATH or in the package `triton`. A
digest of every source and of the options of nvcc is written with the figures; while it stays the same, the test
compiles only one variant of the source.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from accel.cuda import device

FOLDER = Path(device.__file__).parent
SOURCES = sorted(  # files without a kernel are parts of others
    path.relative_to(FOLDER).with_suffix("").as_posix()
    for path in FOLDER.rglob("*.cu")
    if "__global__" in path.read_text()
)
VARIANTS = (("sm_80", "float", 1), ("sm_90", "float", 2), ("sm_90", "double", 4), ("sm_100", "float", 2))
"""Three generations of GPUs, both float types, short and long rows."""
FAST_ONLY = "support/persistent", "support/tensor_attention", "support/tiled_attention"
"""Sources of fast forms that use instructions of compute capability 8.0; all others compile for 7.5, too."""
OLD = ("sm_75", "float", 1)
LIMITS = Path(__file__).with_name("registers.toml")
ACCESSES = Path(__file__).with_name("accesses.toml")
KERNEL = re.compile(r"__global__ void (\w+)\(")
ACCESS = re.compile(r"\b(?:LDG|STG)((?:\.\w+)*) ")  # of main memory: LDG.E.128.CONSTANT, STG.E, LDG.E.U16
FIGURES = re.compile(
    r"Compiling entry function '(\w+)' .*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
    r".*?Used (\d+) registers(?:.*?(\d+) bytes smem)?[^\n]*",
    flags=re.DOTALL,
)


@dataclass(frozen=True)
class Figures:
    """The figures of a kernel: registers of a thread; bytes of stack, of spills to it, and of static shared memory."""

    registers: int
    stack: int
    spilled: int
    shared: int


@cache
def release() -> str:
    """Return the release of nvcc, such as "13.0": another release counts other registers."""
    text = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True).stdout
    match = re.search(r"release (\d+\.\d+)", text)
    return match[1] if match else "unknown"


def options(variant: tuple[str, str, int]) -> list[str]:
    arch, real, chunks = variant
    defined = [f"-DREAL={real}", f"-DCHUNKS={chunks}"]
    return [f"-arch={arch}", *defined, "--std=c++17", "-Xptxas", "-v", "-Werror", "all-warnings"]


def compiled(source: str, variant: tuple[str, str, int], folder: Path) -> dict[str, Figures]:
    """Compile a source with nvcc, with warnings as errors, and return the figures of its kernels."""
    path = folder / "kernel.cu"
    path.write_text(device.source_text(source))
    command = ["nvcc", *options(variant), "-cubin", "-o", str(folder / "kernel.cubin"), str(path)]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout + process.stderr
    parts = re.split(r"(?=ptxas info +: Compiling entry)", process.stdout + process.stderr)
    matches = [FIGURES.search(part) for part in parts[1:]]
    return {m[1]: Figures(int(m[5]), int(m[2]), int(m[3]) + int(m[4]), int(m[6] or 0)) for m in matches if m}


def nvdisasm() -> str | None:
    """Return the path of nvdisasm, which prints machine code: from CUDA, or from triton; None if it is missing."""
    triton = importlib.util.find_spec("triton")
    of_triton = Path(triton.origin).parent / "backends/nvidia/bin" if triton and triton.origin else None
    return shutil.which("nvdisasm") or (shutil.which("nvdisasm", path=str(of_triton)) if of_triton else None)


def accesses(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Return, for each kernel of the last compiled source, its loads and stores of up to 32, of 64, and of 128 bits."""
    command = [nvdisasm() or "nvdisasm", "-c", "-ndf", str(folder / "kernel.cubin")]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    counts = {}
    for part in re.split(r"^\.text\.", process.stdout, flags=re.MULTILINE)[1:]:
        suffixes = [text.split(".") for text in ACCESS.findall(part)]
        wide, double = (sum(bits in x for x in suffixes) for bits in ("128", "64"))
        counts[part[: part.index(":")]] = (len(suffixes) - wide - double, double, wide)
    return counts


def widths() -> tuple[dict[str, str], dict[str, dict[str, list[int]]]]:
    """Return the reasons why sources have kernels without 128-bit accesses, and the counts by variant and kernel."""
    table = tomllib.loads(ACCESSES.read_text(encoding="utf-8"))
    return table.pop("why_narrow"), table


def limits() -> tuple[str, dict[str, dict[str, list[int]]]]:
    """Return the release of nvcc that counted, and registers, stack, spills and shared memory by variant and kernel."""
    table = tomllib.loads(LIMITS.read_text(encoding="utf-8"))
    del table["digests"]
    return table.pop("nvcc"), table


def digest(source: str) -> str:
    """Return a digest of all on which the figures of a source depend, except nvcc: its text and the options."""
    words = [device.source_text(source), *(word for variant in VARIANTS for word in options(variant))]
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:8]


def digests() -> dict[str, str]:
    """Return the digests of the sources whose figures were written."""
    table: dict[str, str] = tomllib.loads(LIMITS.read_text(encoding="utf-8"))["digests"]
    return table


def main(names: list[str]) -> None:
    unknown = set(names) - set(SOURCES)
    if unknown:
        raise SystemExit(f"{', '.join(sorted(unknown))}: no source of kernels; they are {', '.join(SOURCES)}")
    before, widths_before = limits()[1], widths()[1]
    new_digests = digests() | {source: digest(source) for source in names or SOURCES}
    lines = [
        "# At most so many registers, and bytes of stack, spills and static shared memory, by variant and kernel.",
        "# A figure may only go down. Written by python -m tests.kernels.registers.",
        f'nvcc = "{release()}"',
        *("", "[digests]", *(f'"{source}" = "{new_digests[source]}"' for source in SOURCES)),
    ]
    reasons = ACCESSES.read_text(encoding="utf-8").split('\n["')[0].splitlines()
    with tempfile.TemporaryDirectory() as folder:
        for variant in VARIANTS:
            title = " ".join(map(str, variant))
            lines += ["", f'["{title}"]']
            reasons += ["", f'["{title}"]']
            for source in SOURCES:
                if names and source not in names:
                    kernels = sorted(KERNEL.findall(device.source_text(source)))
                    lines += [f"{kernel} = {before[title][kernel]}" for kernel in kernels]
                    reasons += [f"{kernel} = {widths_before[title][kernel]}" for kernel in kernels]
                    continue
                figures = compiled(source, variant, Path(folder))
                for kernel, x in sorted(figures.items()):
                    lines.append(f"{kernel} = [{x.registers}, {x.stack}, {x.spilled}, {x.shared}]")
                reasons += [f"{kernel} = {list(x)}" for kernel, x in sorted(accesses(Path(folder)).items())]
    LIMITS.write_text("\n".join(lines) + "\n", encoding="utf-8")
    ACCESSES.write_text("\n".join(reasons) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
