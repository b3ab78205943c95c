"""Health checks of nodes, judged."""
