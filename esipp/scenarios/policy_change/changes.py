"""One policy change: the request, and what the API server made of it."""

import time

from esipp.base.json import Json
from esipp.checks.model import TrafficPolicy
from esipp.scenarios.policy_change.timeline import Flip
from esipp.testbed.testbed import Testbed


def policy_path(namespace: str, service: str) -> str:
    """The Service object."""
    return f"/api/v1/namespaces/{namespace}/services/{service}"


def flip(testbed: Testbed, service: str, number: int, to: TrafficPolicy) -> Flip:
    """Change the policy of a Service; nothing else of it.

    Raises:
        ApiError: the API server refused.
        UnreachableError: it did not answer.
    """
    cause = time.monotonic()
    body = {"spec": {"externalTrafficPolicy": to.value}}
    return as_flip(
        number, to, cause, testbed.cluster.patch(policy_path(testbed.namespace, service), body, "merge-patch")
    )


def as_flip(number: int, to: TrafficPolicy, cause: float, service: Json) -> Flip:
    """A policy change, from the API server's answer."""
    spec = service["spec"]
    port = int(spec.get("healthCheckNodePort") or 0)
    return Flip(number, to, cause, time.monotonic(), str(spec.get("externalTrafficPolicy")), port)
