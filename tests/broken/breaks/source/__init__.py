"""Clients' addresses that are rewritten where they must survive."""
