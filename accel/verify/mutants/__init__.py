"""Seeded errors that the table must catch."""
