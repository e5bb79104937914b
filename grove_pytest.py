"""The pytest plug-in of an installed Grove: it loads the options of the conformance tests if these tests are named.

pytest loads this module in every project. It lies outside `accel`, so that other projects' tests do not import `accel`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

PLUGIN, TESTS = "accel.verify.plugin", "accel.verify"


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Iterator[None]:
    """Load the options if an argument names `accel.verify` or a module in it; else refuse `--backend` with advice."""
    if any(argument == TESTS or argument.startswith(f"{TESTS}.") for argument in args):
        early_config.pluginmanager.import_plugin(PLUGIN)
    yield
    _, unknown = parser.parse_known_and_unknown_args(args)
    if any(argument.partition("=")[0] == "--backend" for argument in unknown):
        raise pytest.UsageError(
            "--backend: to test kernels with Grove, "
            f"type grove verify MODULE, or pytest --pyargs {TESTS} --backend MODULE"
        )
