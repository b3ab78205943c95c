"""Preflight: examines a cluster before anything is created."""
