"""Scenario: every connection of every path check, in one window."""
