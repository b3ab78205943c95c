"""Breaks of single nodes, addresses and endpoints, whatever role they have."""
