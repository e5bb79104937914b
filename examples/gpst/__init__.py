"""GPST on generated English: its induced trees, and ablations of its parts."""

import examples.one_thread  # noqa: F401
