"""The health check scenarios: probes of the nodes' health checks in every situation and during pod changes."""
