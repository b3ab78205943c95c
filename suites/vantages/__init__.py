"""Clients at other places: behind a router, behind NAT, second pods, and on nodes where no other client is."""

TITLE = "Other clients"
ORDER = 15
