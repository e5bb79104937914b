"""Tests of accel/models."""
