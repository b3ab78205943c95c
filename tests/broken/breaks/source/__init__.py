"""Client addresses that are rewritten where they must be preserved."""
