"""Commands of the guides, run on a kind cluster."""
