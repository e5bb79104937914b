"""Mutation testing: wrong versions of our own code, the tests that catch them, and versions that no test catches."""
