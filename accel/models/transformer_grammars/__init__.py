"""Transformer Grammars, Transformer-XL over actions or words, and the parser that proposes trees."""
