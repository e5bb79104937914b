"""Transformer Grammars (Sartran et al. 2022)."""
