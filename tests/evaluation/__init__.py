"""Tests of accel/scoring and accel/evaluation."""
