"""Trained models: opening them, the abilities of every kind, words to ids, averages, released weights."""
