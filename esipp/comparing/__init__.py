"""Runs beside each other: what changed from one to the next, and many in one matrix. From ledgers alone."""
