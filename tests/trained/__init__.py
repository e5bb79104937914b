"""Tests of accel/trained."""
