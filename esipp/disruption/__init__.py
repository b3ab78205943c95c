"""Disruptions of a cluster. Each proves that it happened, and is undone even if the run is killed."""
