"""Parser for Kubernetes versions."""

import re

OLDEST = (1, 4)
"""The first Kubernetes version that can preserve the client's source IP: kubernetes/kubernetes#29409."""


def read_version(text: str) -> tuple[int, int] | None:
    """Major and minor of a ``gitVersion`` (``v1.7.16-gke.0``, ``v1.6.4+coreos.0``) or of ``1.5``; None if invalid."""
    found = re.match(r"v?(\d+)\.(\d+)(?![\d])", text)
    return (int(found[1]), int(found[2])) if found else None
