"""Tests of accel/autodiff."""
