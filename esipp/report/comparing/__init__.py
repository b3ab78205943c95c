"""Several runs: compared, or merged into one matrix."""
