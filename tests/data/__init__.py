"""Tests of accel/data."""
