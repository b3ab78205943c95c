"""Live settings of the reference load balancer, which override its profile's defaults. Pure.

It counts only where it serves Services that name no class (``--default``), and so is the cluster's own load balancer.
As the emulation of a cloud's it is named so (``--provider``), and taken for it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from esipp.checks.profile import Figure, Grade, HealthCheck, HealthChecks, LoadBalancer, Source
from esipp.loadbalancers.detection import Detected
from esipp.loadbalancers.reference import DEFAULT

HOW = "the reference load balancer reports that it serves Services without a class"
SOURCE = Source(Grade.DOCUMENTED, "reported by the reference load balancer (GET /view)")


def as_it_runs(detected: Detected, known: Iterable[LoadBalancer], settings: Mapping[str, Any]) -> Detected:
    """The detected load balancer with live figures, if the reference load balancer is the cluster's own.

    Args:
        detected: what was named or found so far.
        known: the profiles that there are.
        settings: the reference load balancer's, as it tells them; empty where there is none.
    """
    served = f"esipp.dev/{settings.get(DEFAULT)}"
    profile = next((each for each in known if served in each.found.classes), None)
    if profile is None or (detected.named_profile is not None and detected.named_profile.name != profile.name):
        return detected
    checks = (_as_reported(each, settings) for each in (profile.local, profile.cluster))
    running = replace(profile, check=HealthChecks(*checks))
    if detected.named:
        return replace(detected, profiles=(running,))
    return replace(detected, profiles=(running,), how=HOW, itself=True)


def _as_reported(check: HealthCheck, settings: Mapping[str, Any]) -> HealthCheck:
    """A health check with the reported figures."""

    def figure(name: str) -> Figure[Any] | None:
        before: Figure[Any] | None = getattr(check, name)
        return Figure(settings[name], (SOURCE,)) if name in settings else before

    return replace(
        check,
        period=figure("period"),
        timeout=figure("timeout"),
        healthy=figure("healthy"),
        unhealthy=figure("unhealthy"),
    )
