"""FastTrees, ON-LSTM and the FastTrees Transformer on generated data: each program takes one to three minutes."""

import examples.one_thread  # noqa: F401
