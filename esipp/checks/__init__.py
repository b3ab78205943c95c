"""Checks as data: their types, and the rules that decide which checks can run."""
