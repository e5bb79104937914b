"""A snapshot of everything that the project computes on small data, to check that refactoring changes no bit.

    python -m tests.house.snapshot record DIRECTORY [--only NAME ...] [--list]
    python -m tests.house.snapshot compare OLD NEW

`record` trains every model for 20 steps, runs every command on the results, and writes a JSON file for every case of
`tests.house.snapshot_cases`. It has what a command prints and the files that it writes; for a checkpoint, a digest and
the first numbers of every tensor (also of Adam's moments, which depend on the gradients of all steps); and for every
model the loss and the gradients of two batches in float32 and float64. Times and names of folders are left out.
`compare` prints every case that differs, with the first difference; its exit status is 1 if there is any.

Record both snapshots on one machine, with the same versions of the libraries: another processor may round otherwise.
`--only` takes patterns such as `gradients/*`; the runs that a case needs are made, too. All cases take about 80 s of
one core, and four minutes more if kernels have to be compiled first. Except for `accel.cli`, the names of modules of
`accel` are only in `tests.house.snapshot_models`.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
CLOCK = ("seconds", "tokens_per_second")
MODULES = ("model",)  # entries of a checkpoint that name modules, which may be renamed
FEW = 4  # numbers of a tensor that are shown


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.house.snapshot", description="record or compare snapshots")
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("directory", type=Path, nargs="?")
    recording.add_argument("--only", nargs="+", default=["*"], metavar="NAME", help="cases, or patterns of them")
    recording.add_argument("--list", action="store_true", help="print the names of the cases, and record nothing")
    comparing = commands.add_parser("compare")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    options = parser.parse_args(arguments)
    if options.command == "compare":
        return compare(options.old, options.new)
    os.environ.update(dict.fromkeys(THREADS, "1"))  # before NumPy is imported
    from tests.house.snapshot_cases import CASES

    if options.list:
        print("\n".join(case.name for case in CASES))
        return 0
    if options.directory is None:
        parser.error("record: name the directory")
    return record(options.directory, options.only)


def record(directory: Path, patterns: list[str]) -> int:
    """Run the cases in order and write the output of each; return 1 if one of them failed."""
    from tests.house.snapshot_cases import CASES
    from tests.house.snapshot_data import FILES

    names = {case.name for case in CASES if any(fnmatch.fnmatchcase(case.name, pattern) for pattern in patterns)}
    needs = set(names)
    for case in reversed(CASES):  # a case needs only what stands before it
        if case.name in needs:
            needs |= case.needs
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for write in FILES:
            write(folder)
        for case in CASES:
            if case.name not in needs:
                continue
            start = time.perf_counter()
            content = run(case, folder)
            failed += content["status"] != 0
            if case.name in names:
                path = directory / f"{case.name}.json"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
            wrong = f": {content['error']}" if content["status"] else ""
            print(f"{time.perf_counter() - start:7.1f} s  {case.name}{wrong}", file=sys.stderr)
    return int(failed > 0)


def run(case: Any, folder: Path) -> dict[str, Any]:
    """Return the status of a case, its output, and the contents of the files that it writes."""
    before = files_of(folder)
    out, err = io.StringIO(), io.StringIO()
    content: dict[str, Any] = {"status": 1}
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of products, on lanes that are thrown away
            content["status"] = _start(case, folder, out, err, content)
    except Exception as error:  # a case that cannot be run is recorded as such, and the others still run
        err.write(f"\n{type(error).__name__}: {error}\n")
    content["stdout"] = plain(out.getvalue(), folder)
    if content["status"]:
        content["error"] = "".join([line for line in plain(err.getvalue(), folder) if line.strip()][-1:])
    after = files_of(folder)
    paths = sorted(path for path, state in after.items() if before.get(path) != state and "/cache/" not in path)
    content["files"] = {path: read_file(folder / path, folder) for path in paths}
    return content


def _start(case: Any, folder: Path, out: io.StringIO, err: io.StringIO, content: dict[str, Any]) -> int:
    arguments = [argument.replace("@/", f"{folder}/") for argument in case.arguments]
    if case.function is not None:
        content["values"] = described(case.function(folder, arguments))
        return 0
    (folder / "out").mkdir(exist_ok=True)
    if case.ranks == 1:
        from accel import cli

        return cli.main(arguments)
    mpirun = Path(sys.executable).parent / "mpirun"
    processes = [str(mpirun) if mpirun.exists() else "mpirun", "-n", str(case.ranks)] if case.ranks else []
    command = [*processes, sys.executable, "-m", "accel.cli", *arguments]
    process = subprocess.run(command, capture_output=True, text=True)
    out.write(process.stdout)
    err.write(process.stderr)
    return process.returncode


def files_of(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the files in a folder, each with its time of change and its size in bytes."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.stat().st_size) for path in paths}


def plain(text: str, folder: Path) -> list[str]:
    """Return the lines of a text, with @ in the place of the folder's name."""
    return text.replace(str(folder), "@").splitlines()


def read_file(path: Path, folder: Path) -> Any:
    """Return the contents of a file: lines of text, digests of tensors, metrics without times."""
    data = path.read_bytes()
    if path.name == "metrics.jsonl":
        lines = map(json.loads, data.decode().splitlines())
        return [{name: value for name, value in line.items() if name not in CLOCK} for line in lines]
    try:
        return plain(data.decode(), folder)
    except UnicodeDecodeError:
        return read_tensors(path) if re.search(rb'"dtype":"F', data[:100_000]) else hashlib.sha256(data).hexdigest()


def read_tensors(path: Path) -> dict[str, Any]:
    """Return the tensors of a safetensors file, and its metadata without names of modules."""
    from safetensors import safe_open

    with safe_open(path, framework="np") as file:
        metadata = {name: json.loads(text) for name, text in (file.metadata() or {}).items()}
        tensors = {name: described(file.get_tensor(name)) for name in sorted(file.keys())}
    for state in metadata.values():
        for name in MODULES:
            state.pop(name, None)
    return {"tensors": tensors, "metadata": metadata}


def described(value: Any) -> Any:
    """Return a value as JSON holds it: numbers in hexadecimal, arrays as type, shape, digest and first numbers."""
    import numpy as np

    if isinstance(value, dict):
        return {str(name): described(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [described(part) for part in value]
    if isinstance(value, float | np.floating):
        return float(value).hex()
    if isinstance(value, np.ndarray):
        digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16]
        first = [described(x) for x in value.ravel()[:FEW].tolist()]
        return " ".join([str(value.dtype), str(list(value.shape)), digest, *map(str, first)])
    return value if isinstance(value, int | str | bool | None) else str(value)


def compare(old: Path, new: Path) -> int:
    """Print every case that differs, with the first difference; return 1 if there is any."""
    names = sorted({path.relative_to(folder) for folder in (old, new) for path in folder.rglob("*.json")})
    if not names:
        raise SystemExit(f"{old}, {new}: no snapshots")
    count = 0
    for name in names:
        folders = [folder for folder in (old, new) if not (folder / name).exists()]
        if folders:
            difference: str | None = f"is not in {folders[0]}"
        else:
            one, other = (json.loads((folder / name).read_text(encoding="utf-8")) for folder in (old, new))
            difference = next(differences(one, other), None)
        if difference is not None:
            print(f"{name.with_suffix('')}: {difference}")
            count += 1
    print(f"{count} of {len(names)} cases differ")
    return int(count > 0)


def differences(old: Any, new: Any, place: str = "") -> Iterator[str]:
    """Yield the places where two contents differ, with both values."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted(old.keys() | new.keys()):
            if name not in old or name not in new:
                yield f"{place}/{name}: only in the {'old' if name in old else 'new'} one"
            else:
                yield from differences(old[name], new[name], f"{place}/{name}")
    elif isinstance(old, list) and isinstance(new, list):
        for number, (one, other) in enumerate(zip(old, new, strict=False), 1):
            yield from differences(one, other, f"{place}[{number}]")
        if len(old) != len(new):
            yield f"{place}: {len(old)} items, now {len(new)}"
    elif repr(old) != repr(new):
        yield f"{place}: {str(old)[:200]!r}, now {str(new)[:200]!r}"


if __name__ == "__main__":
    sys.exit(main())
