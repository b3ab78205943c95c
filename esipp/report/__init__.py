"""Reports: each is rendered from a ledger and from nothing else."""
