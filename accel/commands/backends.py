"""`grove backends`: which backends run on this machine, and why the others do not."""

from __future__ import annotations

import argparse

import accel


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add no arguments."""


def run(options: argparse.Namespace) -> int:
    for name, reason in accel.available().items():
        print(f"{name:5} {'runs here' if reason is None else reason}")
    return 0
