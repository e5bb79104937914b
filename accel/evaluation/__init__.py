"""Scores as the papers measure them."""
