"""Tests of `accel.torch`: operators, modules, trained models inside PyTorch, and their speed beside each other."""
