"""Seeded errors. Each one is a backend with one mistake, and the tests of its row of the table must fail."""
