"""The example kernels agree with the reference, and are caught when a line is spoilt; the page on libraries."""

from __future__ import annotations

import re
import sys
import warnings
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from accel.verify import test_gradients as gradients
from accel.verify import test_values as values
from accel.verify.ops.table import OPS
from accel.verify.own_backend import import_own
from tests.fixtures.conformance import first_failure
from tests.fixtures.readme_blocks import blocks

FOLDER = Path(__file__).parents[2] / "examples" / "kernels"
PAGE = FOLDER.parents[1] / "accel" / "verify" / "array_libraries.md"
LIBRARIES = {"numpy": (), "cuda_cpp": (), "torch": ("torch",), "jax": ("jax",), "triton": ("torch", "triton")}
[ROW] = [op for op in OPS if op.name == "layer_norm"]
SPOILT = {
    "numpy": {
        "no epsilon": ("xp.sqrt(variance + EPSILON)", "xp.sqrt(variance)"),
        "variance by n - 1": ("(centred**2).mean(axis=1, keepdims=True)", "x.var(axis=1, keepdims=True, ddof=1)"),
        "mean of the columns": ("x - x.mean(axis=1,", "x - x.mean(axis=0,"),
        "no bias": ("normal * scale + bias,", "normal * scale,"),
        "gradient without the mean": ("(gradient - mean - normal", "(gradient - normal"),
        "float16 inside": ("return centred /", 'return centred.astype("float16").astype(x.dtype) /'),
    },
    "torch": {
        "no epsilon": ("torch.sqrt(variance + EPSILON)", "torch.sqrt(variance)"),
        "variance by n - 1": ("(centred**2).mean(dim=1, keepdim=True)", "x.var(dim=1, keepdim=True, correction=1)"),
        "mean of the columns": ("x - x.mean(dim=1,", "x - x.mean(dim=0,"),
        "no bias": (" * scale + bias,", " * scale,"),
        "gradient without the mean": ("x - x.mean(dim=1, keepdim=True)", "x - x.mean(dim=1, keepdim=True).detach()"),
        "float16 inside": ("(centred / torch", "(centred.half().to(x.dtype) / torch"),
    },
    "jax": {
        "no epsilon": ("xp.sqrt(variance + EPSILON)", "xp.sqrt(variance)"),
        "variance by n - 1": ("(centred**2).mean(axis=1, keepdims=True)", "x.var(axis=1, keepdims=True, ddof=1)"),
        "mean of the columns": ("x - x.mean(axis=1,", "x - x.mean(axis=0,"),
        "no bias": (" * scale + bias\n", " * scale\n"),
        "gradient without the mean": ("x - x.mean(", "x - jax.lax.stop_gradient(x).mean("),
        "float16 inside": ("return centred /", 'return centred.astype("float16").astype(x.dtype) /'),
    },
    "cuda_cpp": {
        "no epsilon": ("warp_sum(squares) / d + EPSILON", "warp_sum(squares) / d"),
        "variance by n - 1": ("warp_sum(squares) / d ", "warp_sum(squares) / (d - 1) "),
        "mean of half a warp": ("int lanes = 16;", "int lanes = 8;"),
        "no bias": ("scale[c] + bias[c];", "scale[c];"),
        "gradient without the mean": ("scale[c] - sum - (x", "scale[c] - (x"),
        "float32 inside": ("REAL sum = 0, squares = 0;", "float sum = 0, squares = 0;"),
    },
    "triton": {
        "no epsilon": ("/ d + EPSILON)", "/ d)"),
        "variance by n - 1": ("tl.sum(centred * centred) / d", "tl.sum(centred * centred) / (d - 1)"),
        "mean of the padded row": ("tl.sum(row) / d", "tl.sum(row) / row.shape[0]"),
        "padding in the variance": ("tl.where(inside, row - tl.sum(row) / d, 0.0)", "row - tl.sum(row) / d"),
        "no bias": ("normal * scales + tl.load(bias + columns, mask=inside)", "normal * scales"),
        "gradient without the mean": ("(gradient - mean - normal", "(gradient - normal"),
        "float16 inside": ("return centred / deviation,", "return (centred / deviation).to(tl.float16).to(row.dtype),"),
    },
}  # fmt: skip
"""By library and by error: a text that the file has once, and the wrong text that replaces it."""


def imported(library: str, path: Path, monkeypatch: pytest.MonkeyPatch, operation: str = ROW.name) -> ModuleType:
    """Return the module of a file, as `grove verify` imports it; it is forgotten after the test."""
    for name in LIBRARIES[library]:
        pytest.importorskip(name, reason=f"{name} is not installed: make test-frameworks")
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, module)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries that it imports
        spec.loader.exec_module(module)
    return import_own(path.stem, [operation])


@pytest.mark.parametrize("library", LIBRARIES)
def test_kernels_agree(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = imported(library, FOLDER / f"{library}_layer_norm.py", monkeypatch)
    assert ROW.gradient_source(backend) == ("autograd" if library in ("torch", "jax") else "vjp")
    n_examples = 4 if library == "jax" else 8  # XLA compiles for each shape
    for body, options in (
        (values.test_ops, {}),
        (values.test_neighbours, {"filling": np.nan}),
        (values.test_permuted, {}),
        (gradients.test_gradients, {}),
    ):
        assert first_failure(body, backend, ROW, n_examples, **options) is None
    values.test_errors(backend, ROW)


@pytest.mark.filterwarnings("ignore")  # of divisions by zero, which the answers show
@pytest.mark.parametrize(
    ("library", "error"), [(library, error) for library, errors in SPOILT.items() for error in errors]
)
def test_a_spoilt_line_is_caught(library: str, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right, wrong = SPOILT[library][error]
    text = (FOLDER / f"{library}_layer_norm.py").read_text(encoding="utf-8")
    assert text.count(right) == 1, right
    path = tmp_path / f"{library}_spoilt.py"
    path.write_text(text.replace(right, wrong), encoding="utf-8")
    backend = imported(library, path, monkeypatch)
    is_gradient = error.startswith("gradient")
    message = first_failure(gradients.test_gradients if is_gradient else values.test_ops, backend, ROW)
    assert message is not None and message.startswith("LAY-1 layer_norm_vjp" if is_gradient else "LAY-1 layer_norm,")
    assert "\n" not in message


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_kernels_of_the_page(library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [block] = [block for block in blocks(PAGE) if block.lines[0] == f"# {library}_gelu.py"]
    path = tmp_path / f"{library}_gelu.py"
    path.write_text("\n".join(block.lines), encoding="utf-8")
    [op] = [op for op in OPS if op.name == "bias_gelu"]
    backend = imported(library, path, monkeypatch, op.name)
    for body in (values.test_ops, gradients.test_gradients):
        assert first_failure(body, backend, op, 3) is None
    values.test_errors(backend, op)


def test_links_of_the_page_lead_somewhere() -> None:
    targets = re.findall(r"\]\(([^)\s]+)\)", PAGE.read_text(encoding="utf-8"))
    assert targets and all((PAGE.parent / target).exists() for target in targets)
