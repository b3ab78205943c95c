"""Health checks with wrong answers."""
