"""The reference load balancer: see ../README.md, which is its contract."""

VERSION = "0.2.0"
