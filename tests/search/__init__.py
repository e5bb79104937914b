"""Tests of accel/search."""
