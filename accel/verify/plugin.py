"""The pytest plug-in: which backends are tested, and how many examples Hypothesis draws."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import ModuleType

import pytest
from hypothesis import HealthCheck, settings

import accel
from accel.verify.own_backend import import_own

CALM = [HealthCheck.too_slow, HealthCheck.data_too_large]
SAME = {"deadline": None, "derandomize": True, "suppress_health_check": CALM}  # the same examples at every run
settings.register_profile("quick", max_examples=8, **SAME)
settings.register_profile("dev", max_examples=25, **SAME)
settings.register_profile("deep", max_examples=2000, deadline=None, print_blob=True, suppress_health_check=CALM)
settings.load_profile("dev")

_on_host = False  # whether CUDA kernels run on the host although there is a GPU


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--backend", action="append", default=[], help="ref, cpu, cuda, your own module or .py file (repeatable)"
    )
    parser.addoption(
        "--require", action="append", default=[], help="a backend that must run: its skips become failures"
    )

    parser.addoption("--race", action="store_true", help="report races between threads of CUDA kernels, without a GPU")
    parser.addoption(
        "--thread-order", type=int, default=0, metavar="SEED", help="draw the order of a kernel's threads by this seed"
    )
    parser.addoption("--fma", action="store_true", help="let g++ contract a * b + c in CUDA kernels, as a GPU does")


def backend_names(config: pytest.Config) -> list[str]:
    return config.getoption("--backend") or list(accel.BACKENDS)


def load_backend(name: str, required: bool = False) -> ModuleType:
    """Return the module; without a GPU, or after `run_kernels`, CUDA kernels run on the host, compiled by g++."""
    if name not in accel.BACKENDS:
        from accel.verify.ops.table import OPS

        return import_own(name, [op.name for op in OPS])
    if name == "cuda" and _on_host:
        from accel.verify.cuda_host.launcher import host_backend

        return host_backend()
    try:
        return accel.load(name)
    except accel.BackendUnavailable as reason:
        if name != "cuda" or required:
            raise
        from accel.verify.cuda_host.launcher import host_backend

        del reason
        return host_backend()


def run_kernels(race: bool, order: int, fused: bool) -> Callable[[], None]:
    """Run CUDA kernels on the host, even if there is a GPU, if one of these settings of the launcher is given.

    Returns a function that restores the settings from before.
    """
    global _on_host
    if not (race or order or fused):
        return lambda: None
    from accel.verify.cuda_host import launcher

    before, on_host = launcher.use(launcher.Settings(race, order, fused)), _on_host
    _on_host = True

    def restore() -> None:
        global _on_host
        launcher.use(before)
        _on_host = on_host

    return restore


def pytest_report_header(config: pytest.Config) -> list[str]:
    lines = []
    for name, reason in accel.available().items():
        lines.append(f"backend {name}: {'runs here' if reason is None else reason}")
    return lines


def pytest_configure(config: pytest.Config) -> None:
    """Refuse in one line what cannot be tested; modules of your own are also found in the folder pytest started in."""
    if set(config.getoption("--backend")) - set(accel.BACKENDS):
        sys.path.insert(0, os.getcwd())
    if config.getoption("--require") and config.getoption("--race"):
        raise pytest.UsageError("--require: --race runs kernels on the host: leave one of the two out")
    try:
        run_kernels(config.getoption("--race"), config.getoption("--thread-order"), config.getoption("--fma"))
        for name in config.getoption("--require"):
            accel.load(name)
        for name in config.getoption("--backend"):
            load_backend(name)
    except (ValueError, accel.BackendUnavailable) as error:
        raise pytest.UsageError(str(error)) from error


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With --backend, run only the tests that use a backend; with your own module, only the rows of the table."""
    names = config.getoption("--backend")
    if names:
        fixtures = {"backend"} if set(names) <= set(accel.BACKENDS) else {"backend", "op"}
        selected = [item for item in items if fixtures <= set(getattr(item, "fixturenames", ()))]
        if not selected:
            raise pytest.UsageError(f"--backend {names[0]}: no test here takes a backend: add --pyargs accel.verify")
        config.hook.pytest_deselected(items=[item for item in items if item not in selected])
        items[:] = selected


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "backend" in metafunc.fixturenames and "op" in metafunc.fixturenames:
        from accel.verify.ops.table import OPS

        required = metafunc.config.getoption("--require")
        pairs = []
        for name in backend_names(metafunc.config):
            module = load_backend(name, name in required)
            rows = [op for op in OPS if hasattr(module, op.name)]
            if metafunc.function.__name__.startswith("test_gradients"):  # those of "ref" are differences
                rows = [op for op in rows if op.gradient_source(module) and name != "ref"]
            pairs += [pytest.param(module, op, id=f"{op.name}-{name}") for op in rows]
            if not rows and name not in accel.BACKENDS:
                without = pytest.mark.skip(reason=f"{name} exports no gradient, NAME_vjp, and has no autograd")
                pairs.append(pytest.param(module, OPS[0], id=f"nothing-{name}", marks=without))
        metafunc.parametrize(("backend", "op"), pairs)
    elif "backend" in metafunc.fixturenames:
        names = backend_names(metafunc.config)
        metafunc.parametrize("backend", [load_backend(name) for name in names], ids=names)
    elif "op" in metafunc.fixturenames:
        from accel.verify.ops.table import OPS

        metafunc.parametrize("op", OPS, ids=[op.name for op in OPS])
