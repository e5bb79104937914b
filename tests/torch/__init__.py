"""Tests of `accel.torch`: operators, modules, trained models inside PyTorch, and the peers of the GPU report."""
