"""The sections that a run prints about what it measured, as lines of text."""
