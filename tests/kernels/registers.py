"""What ptxas says of every kernel: registers, stack, spills and static shared memory.

python -m tests.kernels.registers

writes the largest figures that the kernels may have, `registers.toml`, from those of today. It needs nvcc.
"""

from __future__ import annotations

import re
import subprocess
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
"""Three generations of GPUs, both types of numbers, rows short and long."""
LIMITS = Path(__file__).with_name("registers.toml")
FIGURES = re.compile(
    r"Compiling entry function '(\w+)' .*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
    r".*?Used (\d+) registers(?:.*?(\d+) bytes smem)?[^\n]*",
    flags=re.DOTALL,
)


@dataclass(frozen=True)
class Figures:
    """Of one kernel: registers of a thread; bytes of stack, of what is spilled there, and of static shared memory."""

    registers: int
    stack: int
    spilled: int
    shared: int


@cache
def release() -> str:
    """Return the release of nvcc, such as "13.0": other ones count other registers."""
    text = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"release (\d+\.\d+)", text)
    return found[1] if found else "unknown"


def compiled(source: str, variant: tuple[str, str, int], folder: Path) -> dict[str, Figures]:
    """Compile a source with nvcc, in which a warning is an error, and return the figures of its kernels."""
    arch, real, chunks = variant
    path = folder / "kernel.cu"
    path.write_text(device.source_text(source))
    options = [f"-arch={arch}", f"-DREAL={real}", f"-DCHUNKS={chunks}", "--std=c++17", "-Xptxas", "-v"]
    command = ["nvcc", *options, "-Werror", "all-warnings", "-cubin", "-o", str(folder / "kernel.cubin"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    parts = re.split(r"(?=ptxas info +: Compiling entry)", done.stdout + done.stderr)
    found = [FIGURES.search(part) for part in parts[1:]]
    return {m[1]: Figures(int(m[5]), int(m[2]), int(m[3]) + int(m[4]), int(m[6] or 0)) for m in found if m}


def limits() -> tuple[str, dict[str, dict[str, list[int]]]]:
    """Return the release of nvcc that counted, and registers, stack, spills and shared memory by variant."""
    table = tomllib.loads(LIMITS.read_text(encoding="utf-8"))
    return table.pop("nvcc"), table


def main() -> None:
    lines = [
        "# At most so many registers, and bytes of stack, spills and static shared memory, by variant and kernel.",
        "# A figure may only go down. Written by python -m tests.kernels.registers.",
        f'nvcc = "{release()}"',
    ]
    with tempfile.TemporaryDirectory() as folder:
        for variant in VARIANTS:
            lines += ["", f'["{" ".join(map(str, variant))}"]']
            for source in SOURCES:
                for kernel, x in sorted(compiled(source, variant, Path(folder)).items()):
                    lines.append(f"{kernel} = [{x.registers}, {x.stack}, {x.spilled}, {x.shared}]")
    LIMITS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
