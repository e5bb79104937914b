"""Seeded errors. Each one is a backend with one mistake, and must turn its row of the table red."""
