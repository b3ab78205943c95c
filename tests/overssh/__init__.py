"""By hand, on the kept cluster: clients outside over ssh, and on this machine (``ci/test --over-ssh``)."""
