"""Continuity: steady traffic while pods, policies, nodes and components change."""

TITLE = "Continuity"
ORDER = 60
