"""One policy change, what the API server made of it, and how its effect is probed."""

import json
import time
from collections.abc import Callable
from typing import Any

from esipp.base.json import Json
from esipp.checks.model import TrafficPolicy
from esipp.judging.timeline import Reader, Sample, read_health, read_request
from esipp.probing.prober import Pace
from esipp.scenarios.policy_change.evidence import ACCEPTED, REOPENED, PolicyAction
from esipp.testbed.testbed import Testbed

TIMEOUT = 0.9
"""Seconds until a connection counts as unanswered: below the second SYN, which may meet the next policy."""

PATIENT = 2.5
"""The same where every connection must be answered: what is late on a busy machine is not lost."""

PACE, PATIENT_PACE = Pace(0.08, TIMEOUT), Pace(0.08, PATIENT)
"""New connections at one entry; the second where every one must be answered."""

HEALTH_PACE = Pace(0.15, TIMEOUT)
"""Requests to a health-check node port."""

CONTROL_PACE = Pace(0.2, PATIENT)
"""Requests to a node's control listener: losses and delays are compared with those."""

BARE_PACE = Pace(0.2, TIMEOUT)
"""New connections to a neighbour at the node without local endpoints."""

KEPT_PACE = Pace(0.25, PATIENT)
"""Exchanges on a connection that stays open."""


def policy_path(namespace: str, service: str) -> str:
    """The Service object."""
    return f"/api/v1/namespaces/{namespace}/services/{service}"


def change_policy(testbed: Testbed, service: str, number: int, to: TrafficPolicy) -> PolicyAction:
    """Change the policy of a Service; nothing else of it.

    Raises:
        ApiError: the API server refused.
        UnreachableError: it did not answer.
    """
    cause = time.monotonic()
    body = {"spec": {"externalTrafficPolicy": to.value}}
    return as_change(
        number, to, cause, testbed.cluster.patch(policy_path(testbed.namespace, service), body, "merge-patch")
    )


def as_change(number: int, to: TrafficPolicy, cause: float, service: Json) -> PolicyAction:
    """A policy change, from the API server's answer."""
    spec = service["spec"]
    port = int(spec.get("healthCheckNodePort") or 0)
    return PolicyAction(number, to, cause, time.monotonic(), str(spec.get("externalTrafficPolicy")), port)


def read_port(service: str, namespace: str) -> Reader:
    """Reads an answer at a health-check node port.

    The outcome is the HTTP status; ``foreign`` where it is that of another Service, which may have the port once it is
    free; ``accepted`` if a connection was accepted without any data.
    """

    def read(result: dict[str, Any], ours: Callable[[float], float]) -> Sample:
        sample = read_health(result, ours)
        if result["outcome"] == "timeout" and result.get("connected") is not None:
            return sample._replace(outcome=ACCEPTED)
        try:
            document = json.loads((result.get("response") or {}).get("body") or "null")
            whose = (document["service"]["namespace"], document["service"]["name"])
        except (ValueError, KeyError, TypeError):
            return sample
        return sample if whose == (namespace, service) else sample._replace(outcome="foreign")

    return read


def read_kept(result: dict[str, Any], ours: Callable[[float], float]) -> Sample:
    """How an exchange on a connection that is to stay open is read; on the one made for a lost one it is another's."""
    sample = read_request(result, ours)
    return sample._replace(outcome=REOPENED) if result.get("connection") else sample
