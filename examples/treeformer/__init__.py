"""Treeformer on generated data: the program takes some minutes."""

import examples.one_thread  # noqa: F401
