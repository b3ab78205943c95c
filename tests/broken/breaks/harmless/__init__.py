"""Legitimate differences: no check may fail."""
