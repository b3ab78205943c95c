"""Disruptions: done, proven, and undone whatever happens to the run."""
