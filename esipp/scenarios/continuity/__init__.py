"""Steady traffic while something is done to its pods, nodes or the cluster."""
