"""Mutation testing: wrong versions of our own code, which tests catch them, and which pass."""
