"""Transformer Grammars and the two Transformer-XL baselines: a demo, trainings on real trees, and analyses."""

import examples.one_thread  # noqa: F401
