"""Qualifies a Kubernetes cluster for source IP preservation (see docs/architecture.md)."""

__version__ = "0.2.0"
