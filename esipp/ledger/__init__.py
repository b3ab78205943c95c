"""The ledger: what a run writes, how it is read again and judged again, and what it comes to."""
