"""The values of a profile as text, for page and terminal."""

from collections.abc import Iterable

from esipp.checks.model import AddressClass
from esipp.checks.profile import HealthCheck, LoadBalancer, Steering

OF_SOURCE = {
    AddressClass.CLIENT: "the client",
    AddressClass.NODE: "a node",
    AddressClass.POD: "a pod",
    AddressClass.LOAD_BALANCER: "the load balancer",
    AddressClass.OTHER: "others",
}
OF_STEERING = {
    Steering.HEALTH_CHECKS: "health checks",
    Steering.MEMBERSHIP: "its target list, updated through an API",
    Steering.ANNOUNCEMENT: "the nodes that announce the VIP",
}

OF_FOLLOWING = {True: "under Local with an endpoint", False: "with or without an endpoint"}
OF_FAIL_OPEN = {True: "sends to all nodes", False: "sends to none"}


def sources_seen(classes: Iterable[AddressClass]) -> str:
    """The owner of the address that a pod sees: ``the client``, ``a node or a pod``."""
    given = set(classes)
    return " or ".join(text for each, text in OF_SOURCE.items() if each in given)


def seconds(value: float) -> str:
    """Seconds; whole minutes from two on."""
    if value >= 120 and value % 60 == 0:
        return f"{value / 60:g} min"
    return f"{value:g} s"


def span(value: tuple[float, float]) -> str:
    """``3 to 5 minutes``, ``up to 5 minutes``, ``107 to 138 s``."""
    first, last = value
    if last >= 120 and last % 60 == 0 and first % 60 == 0:
        return f"{first / 60:g} to {last / 60:g} minutes" if first else f"up to {last / 60:g} minutes"
    return f"{first:g} to {last:g} s" if first else f"up to {last:g} s"


def asks(check: HealthCheck) -> str:
    """The target of a health check, and its protocol: ``HTTP /healthz at the health-check node port``."""
    if not check.there:
        return "no health check"
    path = f" {check.path.value}" if check.path and check.path.value and check.protocol.value.value == "http" else ""
    off = " (off by default)" if not check.on else ""
    return f"{check.protocol.value.value.upper()}{path} at {check.target.value.words}{off}"


def bound(check: HealthCheck) -> str:
    """The bound of the black hole as text; ``none`` if there is no bound."""
    if check.bound is None:
        return "none"
    said = seconds(check.bound)
    if check.idle_bound is not None:
        said += f" ({seconds(check.idle_bound)} while idle)"
    return f"none; with a monitor {said}" if not check.on else said


def takes(profile: LoadBalancer) -> str:
    """The usual creation time as a sentence of a progress line; empty if unknown."""
    usual = profile.times.usual
    return f"{profile.noun} takes {span(usual.value)}" if usual else ""
