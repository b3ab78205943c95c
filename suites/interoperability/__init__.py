"""Interoperability: clients inside the cluster, isolation of Services, many Services, and DNS names."""

TITLE = "Interoperability"
ORDER = 30
