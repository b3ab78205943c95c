"""Convergence: load balancers and nodes follow endpoint changes."""

TITLE = "Convergence"
ORDER = 50
