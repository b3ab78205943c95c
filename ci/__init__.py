"""Continuous integration: test clusters for the suite, with complete clean-up."""
