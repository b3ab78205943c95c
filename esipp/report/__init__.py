"""The ledger of a run, and everything a person or a machine reads from it. Nothing here talks to a cluster."""
