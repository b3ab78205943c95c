"""Convergence: load balancers and nodes follow endpoint changes."""
