"""Scenario: a load balancer probes nodes, and delivers packets, as its profile says."""
