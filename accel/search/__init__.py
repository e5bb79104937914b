"""Beam search, word-level search, and the step states they keep."""
