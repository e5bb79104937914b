"""Tests of accel/training and accel/tasks."""
