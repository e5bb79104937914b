"""Trained models: opening them, what each kind can do, words to ids, averages, released weights."""
