"""Tests of the house itself: what a change of names and places must leave as it is."""
