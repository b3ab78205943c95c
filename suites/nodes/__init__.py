"""Nodes: what the other suites ask of nodes with a role, asked of every sampled node and of every endpoint."""

TITLE = "Every node"
ORDER = 15
