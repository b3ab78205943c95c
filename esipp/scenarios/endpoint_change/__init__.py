"""The endpoint change scenario: pods are added and removed behind a load balancer, under traffic."""
