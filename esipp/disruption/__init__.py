"""Disruptions of a cluster, each proven, and undone whatever happens to the run."""
