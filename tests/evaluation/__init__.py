"""Tests of accel/evaluation."""
