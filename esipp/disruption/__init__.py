"""What disturbs a cluster, on purpose: done, proven, and undone whatever happens to the run."""
