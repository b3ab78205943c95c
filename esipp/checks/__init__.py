"""Checks as data: what they are made of, and what decides whether one can be asked."""
