"""Scenario: every sampled node and every endpoint, whatever role the node has."""
