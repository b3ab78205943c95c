"""The testbed: pods, Services and clients of a run, set up once and removed at the end."""
