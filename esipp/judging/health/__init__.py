"""Judges of the nodes' health checks."""
