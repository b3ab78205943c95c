"""A large cluster, simulated: ``ci/test --large``."""
