"""Sections of the summary about measurements, as lines of text."""
