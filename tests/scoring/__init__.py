"""Tests of accel/scoring."""
