"""The state folder of mutation testing: a copy of the checkout, which test runs which line, and the outcomes."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.mutants import selection

ROOT = Path(__file__).parents[2]
TRAINING = (
    *("checkpoint", "communicator", "directory", "interrupted_runs", "loop"),
    *("memory", "micro_batches", "precision", "resuming", "schedule", "stopping"),
)
COMMANDS = ("cli", "ensembles", "gpst", "gpst_trees", "metrics", "proposals", "tree_search")
KERNELS = (
    *("compiling", "cpu_kernels", "cpu_products", "cublaslt", "cuda_checks", "cuda_cky_pooling", "cuda_columns"),
    *("cuda_copies", "cuda_fasttrees", "cuda_fused", "cuda_known", "cuda_span_parser", "cuda_structure"),
    *("optimizer", "precision", "products", "pruned_charts", "turns"),
)
TESTS = (
    *("accel/verify/test_*.py", "tests/autodiff/test_*.py", "tests/search/test_*.py", "tests/scoring/test_*.py"),
    *("tests/models/test_*.py", *(f"tests/training/test_{name}.py" for name in TRAINING)),
    *("tests/parsing/test_sample_trees.py", "tests/trained/test_interface.py", "tests/trained/test_processes.py"),
    *(f"tests/kernels/test_{name}.py" for name in KERNELS),
    *(f"tests/commands/test_{name}.py" for name in COMMANDS),
)
"""The tests that are measured, one process for each file; if a file changes, it is measured again."""
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
MEMORY = 12 << 30


@dataclass(frozen=True)
class Outcome:
    """`result`: caught, survived, not compiled, or gone (the source has changed since); `by`: the test that failed.

    `limit`: the most seconds of tests for the mutant; 0 in old records without it.
    """

    name: str
    result: str
    by: str
    seconds: float
    limit: float = 0.0


def tracked(root: Path) -> list[str]:
    process = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=root, capture_output=True)
    return [name for name in process.stdout.decode().split("\0") if name and (root / name).exists()]


def copy_checkout(tree: Path) -> None:
    """Make `tree` a copy of the checkout; unchanged files keep their times, so Numba's cache stays valid."""
    names = set(tracked(ROOT))
    for name in names:
        source, target = ROOT / name, tree / name
        if source.is_dir():  # a link
            shutil.copytree(source, target, dirs_exist_ok=True)
        elif not target.exists() or source.read_bytes() != target.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    for path in tree.rglob("*"):
        if path.suffix in (".py", ".cu") and str(path.relative_to(tree)) not in names:
            path.unlink()


class Workplace:
    """The state folder: the copy in which the tests run, and its caches."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.tree, self.contexts, self.results = state / "tree", state / "contexts", state / "results.jsonl"
        self.cache, self.temporary = state / "numba", state / "tmp"
        for folder in (self.tree, self.contexts, self.cache, self.temporary):
            folder.mkdir(parents=True, exist_ok=True)

    def environment(self, cache: Path) -> dict[str, str]:
        return os.environ | ONE_THREAD | {"NUMBA_CACHE_DIR": str(cache), "TMPDIR": str(self.temporary)}

    def pytest(self, arguments: list[str], cache: Path, limit: float | None) -> tuple[int, str]:
        """Run pytest, and return its exit status and output; end it after `limit` seconds of processor time."""
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--tb=line", "-rfE", *arguments]
        log = self.state / "log.txt"

        def bounds() -> None:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_CPU, (int(limit) + 1, int(limit) + 5))

        with open(log, "w") as output:
            process = subprocess.Popen(
                command, cwd=self.tree, env=self.environment(cache), stdout=output, stderr=output,
                start_new_session=True, preexec_fn=bounds,
            )  # fmt: skip
            try:
                status = process.wait(None if limit is None else 10 * limit)
            except subprocess.TimeoutExpired:
                status = -signal.SIGXCPU
            finally:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                process.wait()
        return status, log.read_text(errors="replace")

    def measure(self) -> None:
        files = {path for pattern in TESTS for path in self.tree.glob(pattern)}
        for file in sorted(str(path.relative_to(self.tree)) for path in files):
            path, digest = self.contexts / f"{file.replace('/', '.')}.json", selection.digest(self.tree / file)
            if not path.exists() or json.loads(path.read_text())["digest"] != digest:
                print(f"measuring {file}", flush=True)
                part = self.state / "measured.json"
                part.unlink(missing_ok=True)
                options = ["-p", "tests.mutants.measure", "--contexts", str(part), "--hypothesis-profile", "quick"]
                backends = ["--backend", "cpu", "--backend", "cuda"] if file.startswith("accel/") else []
                status, output = self.pytest([*options, *backends, file], self.cache, None)
                if not part.exists():
                    raise SystemExit(f"{file}: status {status}: {output[-2000:]}")
                path.write_text(json.dumps({"digest": digest} | json.loads(part.read_text())))

    def outcomes(self, first: bool = False) -> dict[str, Outcome]:
        """Return the last (or first) outcome of every mutant that was run; ignore an incomplete last line."""
        by_name = {}
        for line in self.results.read_text().split("\n")[:-1] if self.results.exists() else ():
            outcome = Outcome(**json.loads(line))
            if not (first and outcome.name in by_name):
                by_name[outcome.name] = outcome
        return by_name

    def record(self, outcome: Outcome) -> None:
        text = self.results.read_bytes() if self.results.exists() else b""
        if text and not text.endswith(b"\n"):
            self.results.write_bytes(text[: text.rfind(b"\n") + 1])
        with open(self.results, "a") as file:
            file.write(json.dumps(asdict(outcome)) + "\n")
            file.flush()
            os.fsync(file.fileno())
