"""Tests of accel/parsing and accel/drawing."""
