"""Judges of continuity: steady traffic during actions on its pods, nodes and the cluster."""
