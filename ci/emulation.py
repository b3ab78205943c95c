"""Emulation of a cloud's load balancer: the reference load balancer with the class, period and thresholds of a profile.

A lane's ``emulates`` names the profile. Three things are not emulated: the cloud's own health check under policy
Cluster (the reference has one period for both policies, and checks kube-proxy over HTTP), its addresses, and its API's
times.
"""

from ci.step import SetupError
from esipp.base.errors import EsippError
from esipp.checks.check import HEALTH_VIEW, ONE_NODE
from esipp.checks.model import Protocol
from esipp.checks.profile import Class, Destination, LoadBalancer, Steering
from esipp.loadbalancers.profiles.loading import provider

FORWARDER, PROXY = "reference-ecmp", "reference-proxy"
FOLLOWER, LEADER, NODES = "reference-forward", "reference-leader", "reference-nodes"
"""The classes for nodes that announce VIPs: one with an endpoint, one for all Services, or addresses of their own."""

TRANSLATING = "reference-nat"
"""The forwarding class if only a hostname is announced: nodes then do not know the VIP, so it dials nodePorts."""

HOSTNAME = "hostname"
HEADERS = {"proxy-v1": "reference-proxy-v1", "proxy-v2": "reference-proxy-v2"}
"""The class of the reference that sends this PROXY protocol header."""

PROXIED = (Protocol.TCP,)
"""Protocols of the reference load balancer's proxies."""


def options(profile: str) -> list[str]:
    """The options with which the reference load balancer emulates the profile.

    Nothing but a class stands for nodes that announce VIPs themselves and have no health checks.

    Raises:
        SetupError: the profile is unknown, or its health checks are off.
    """
    found = _profile(profile)
    if Steering.ANNOUNCEMENT in found.steering.by.value:
        return ["--default", class_of(found)]
    check = found.local
    if not check.on:
        raise SetupError(
            f"The reference load balancer cannot emulate {profile}: its health checks under Local are off.",
            "'esipp load-balancers' lists profiles; a variant with a monitor has a period and thresholds.",
        )
    figures = {
        "--period": check.period,
        "--timeout": check.timeout or check.period,
        "--healthy": check.healthy,
        "--unhealthy": check.unhealthy,
    }
    opened = found.steering.fail_open
    return [
        "--default",
        class_of(found),
        *(["--announce", HOSTNAME] if found.status.form.value == HOSTNAME else []),
        *(["--fail-open"] if found.kind is Class.FORWARDER and opened and opened.value else []),
        *(f"{name}={figure.value:g}" for name, figure in figures.items() if figure),
    ]


def left_out(profile: str) -> list[str]:
    """Options of a run that exclude what the reference load balancer cannot carry in the profile's place.

    Raises:
        SetupError: the profile is unknown.
    """
    found = _profile(profile)
    if not found.local.there:
        # Such a load balancer reports no health, and nodes answer ARP for its VIPs; the reference does both itself.
        return [f"--without={each}" for each in (HEALTH_VIEW, ONE_NODE)]
    if found.kind is Class.FORWARDER:
        return []
    carried = sorted(each.value.lower() for each in found.carries.protocols.value if each not in PROXIED)
    return [f"--without=load-balancer.carries.{each}" for each in carried]


def _profile(name: str) -> LoadBalancer:
    try:
        return provider(name)
    except EsippError as error:
        raise SetupError(error.sentence, error.hint) from None


def _announcing(profile: LoadBalancer) -> str:
    """The class of the reference for a load balancer whose nodes announce the VIPs, one at a time.

    Raises:
        SetupError: it is not known to use one node at a time.
    """
    if profile.datapath.destination.value is Destination.NODE:
        return NODES
    spreads, follows = profile.steering.spreads, profile.steering.follows
    if spreads is None or spreads.value:
        raise SetupError(
            f"The reference load balancer cannot emulate {profile.name}: it is not known to use one node at a time.",
            "only a profile with steering.spreads = false is emulated, if its nodes announce the VIPs.",
        )
    return LEADER if follows and not follows.value else FOLLOWER


def class_of(profile: LoadBalancer) -> str:
    """The class of the reference that does with packets as the profile's load balancer does."""
    if Steering.ANNOUNCEMENT in profile.steering.by.value:
        return _announcing(profile)
    if profile.kind is Class.FORWARDER:
        return TRANSLATING if profile.status.form.value == HOSTNAME else FORWARDER
    headers = profile.datapath.out_of_band.value if profile.datapath.out_of_band else ()
    return next((HEADERS[each] for each in headers if each in HEADERS), PROXY)
