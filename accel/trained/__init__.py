"""Trained models: opening them, averaging them, released weights."""
