"""Breaks of what follows changes of Services and their pods."""
