"""Tests of the repository itself: imports, names, pages, links, READMEs, installation."""
