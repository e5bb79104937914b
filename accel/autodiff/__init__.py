"""The tape, layers on it, and what arrays need on every backend."""
