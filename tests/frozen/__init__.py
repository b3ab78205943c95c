"""Frozen ledgers of real runs, and snapshots of what the commands say (README.md)."""
