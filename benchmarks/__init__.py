"""Timings: `python -m benchmarks.run`."""
