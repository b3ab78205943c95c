"""Health checks that do not tell the truth."""
