"""Load balancers that follow the pods."""
