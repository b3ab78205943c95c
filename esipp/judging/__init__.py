"""The judges: from evidence to verdicts. Pure: no cluster, no clock, no files."""
