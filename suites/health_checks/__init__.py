"""Health checks: the answers of nodes on the health-check node port, and the life cycle of that port."""

TITLE = "Health checks"
ORDER = 20
