"""Continuity: steady traffic while pods, policies, nodes and components change."""
