"""By hand, on the kept cluster: the suite inside of it (``ci/test --in-cluster``)."""
