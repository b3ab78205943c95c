"""Legitimate differences: no row may fail."""
