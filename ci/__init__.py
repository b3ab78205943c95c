"""Continuous integration: a real cluster for the suite, and nothing left behind."""
