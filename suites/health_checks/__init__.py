"""Health checks that tell the truth: the health-check node port as a contract."""
