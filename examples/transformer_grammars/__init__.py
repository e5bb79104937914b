"""Transformer Grammars and the two Transformer-XL baselines: a demo, and a training on real trees."""

import examples.one_thread  # noqa: F401
