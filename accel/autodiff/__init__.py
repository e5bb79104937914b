"""The tape, layers on it, and helpers for arrays of every backend."""
