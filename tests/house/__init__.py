"""Tests of the house: imports, pages, links, the README."""
