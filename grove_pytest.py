"""What pytest loads of Grove wherever Grove is installed: the options of its conformance tests, if they are asked for.

This module lies outside of `accel`, so that other projects' tests do not import `accel`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

PLUGIN, TESTS = "accel.verify.plugin", "accel.verify"


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Iterator[None]:
    """Load the plug-in if the tests are named as `--pyargs accel.verify`; say so if `--backend` is given without."""
    if any(argument == TESTS or argument.startswith(f"{TESTS}.") for argument in args):
        early_config.pluginmanager.import_plugin(PLUGIN)
    yield
    _, unknown = parser.parse_known_and_unknown_args(args)
    if any(argument.partition("=")[0] == "--backend" for argument in unknown):
        raise pytest.UsageError(
            "--backend: to test kernels with Grove, "
            f"type grove verify MODULE, or pytest --pyargs {TESTS} --backend MODULE"
        )
