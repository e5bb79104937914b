"""Symbols and words to ids."""
