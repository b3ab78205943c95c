"""Pods that come and go behind a load balancer, under traffic."""
