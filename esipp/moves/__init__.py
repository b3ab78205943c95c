"""Load balancers that follow the pods: seeded moves, continuous probes, one clock, a timeline a move."""
