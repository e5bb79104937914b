"""The chart of phrases."""
