"""Tests of accel/parsing."""
