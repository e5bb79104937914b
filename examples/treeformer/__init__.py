"""Treeformer: trainings on generated data, each of minutes; times by length; errors judged without names."""

import examples.one_thread  # noqa: F401
