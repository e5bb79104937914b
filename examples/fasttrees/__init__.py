"""FastTrees, ON-LSTM and the FastTrees Transformer: trainings on generated data, each of minutes, and on sentiment."""

import examples.one_thread  # noqa: F401
