"""Continuity: see suites/continuity."""
