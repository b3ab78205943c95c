"""Utilities for all packages: errors, redaction, waiting, clocks, labels."""
