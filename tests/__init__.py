"""The tests, one room for each part of the project."""
