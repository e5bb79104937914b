"""Tests of accel/drawing."""
