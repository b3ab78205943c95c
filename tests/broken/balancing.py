"""The reference load balancer with other options, such as faults; and the checks of its behaviour."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from http import HTTPStatus

from ci import emulation, loadbalancer, metallb, returning, router
from ci.access import ClusterAccess
from ci.containers import docker
from ci.places import places
from esipp.base.waiting import Budget, Reading, converge
from esipp.checks.check import Check, Level, is_about
from esipp.checks.endpoint_change import EndpointChange, What
from esipp.checks.model import Balancer, Claim
from esipp.cluster.client import ApiError
from tests.broken.breakage import RunOptions, path_checks
from tests.broken.nodes import Nodes, Placed

FEW = 3
"""Endpoint changes up, and as many down: each that is not followed takes the full timeout."""

OWN = ("--default", Balancer.ECMP.value)
"""Options that make the reference load balancer the cluster's default: as the forwarder to all healthy nodes."""

HOSTNAME_FORWARDER = ("--default", emulation.TRANSLATING, "--announce", emulation.HOSTNAME)
HOSTNAME_PROXY = ("--default", emulation.PROXY, "--announce", emulation.HOSTNAME)
"""The same with a hostname in the status, like AWS's load balancers."""

ONLY_POOL = "--only-pool"
PUBLIC = "192.88.99.0/24"
"""VIPs in a public but unused range: the 6to4 relays' range, deprecated by RFC 7526."""

PROFILE = ("--provider", "reference-forward")
"""The provider option of such a user: the profile's period and thresholds are its promise."""

WITH_PROXY = (
    *("--provider", "reference-proxy"),
    *(f"--without=load-balancer.carries.{each}" for each in ("sctp", "udp")),
)

MOVING = RunOptions(
    ("convergence",), ("convergence.reference-ecmp", "convergence.default"), moves=FEW, own=OWN, options=PROFILE
)
"""Checks of a forwarder's use of health checks, as the cluster's default load balancer and in addition to it."""

HEADERS = RunOptions(("source_ip",), own=OWN, options=PROFILE)
"""All paths, including those of proxies with and without the client's address."""

HEADER_OF_OWN = RunOptions(
    ("source_ip",),
    ("loadbalancer.local.reports-", "nodeport.local.tcp.ipv4.outside-1"),
    own=("--default", Balancer.PROXY_V2.value),
    options=("--provider", Balancer.PROXY_V2.value, *WITH_PROXY[2:]),
)
"""The header of a proxy that is the cluster's default load balancer."""

CONTROLLER = f"/apis/apps/v1/namespaces/{metallb.NAMESPACE}/deployments/controller"

LATE = (What.NO_LOSS, What.BALANCE, What.BLACK_HOLE, What.THRESHOLD)
"""Checks that may also fail if nodes are removed too late, though not in every sequence of endpoint changes."""


def options(*words: str) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """Restart the load balancer with additional options, and afterwards without them."""

    @contextmanager
    def apply(_: Nodes) -> Iterator[Placed]:
        there = access()
        before = loadbalancer.options(there)
        try:
            loadbalancer.restart(there, (*before, *words))
            yield Placed(time.time())
        finally:
            loadbalancer.restart(there, before)

    return apply


@contextmanager
def own_balancer(nodes: Nodes, given: tuple[str, ...]) -> Iterator[None]:
    """Make the reference load balancer the cluster's default, with these options; without options nothing changes.

    MetalLB is disabled meanwhile: without its controller it assigns no addresses, and its speakers announce none.
    """
    if not given:
        yield
        return
    try:
        run_metallb(nodes, 0)
        with options(*given)(nodes):
            route(given)
            yield
    finally:
        forget(access(), given)
        run_metallb(nodes, 1)


def forget(there: ClusterAccess, given: Sequence[str]) -> None:
    """Remove what such options added outside the container: nodes' return routes, and the route to another pool."""
    if emulation.TRANSLATING in given:
        returning.take_away(there)
    if ONLY_POOL in given:
        taking = router.on_this_machine(loadbalancer.image_of(there), "route", "del", given[given.index(ONLY_POOL) + 1])
        there.ask("docker", *taking)  # it may be gone


def route(given: Sequence[str]) -> None:
    """Route a pool outside the nodes' network, for all hosts with the docker engine as default gateway."""
    if ONLY_POOL in given:
        there, pool = access(), given[given.index(ONLY_POOL) + 1]
        via = next(each for each in balancer_addresses() if ":" not in each)
        docker(there, *router.on_this_machine(loadbalancer.image_of(there), "route", "replace", pool, "via", via))


def balancer_addresses() -> list[str]:
    """Source addresses of the reference load balancer's health checks and proxied connections."""
    return loadbalancer.addresses(access())


def run_metallb(nodes: Nodes, replicas: int) -> None:
    """Scale MetalLB's controller, if the lane has MetalLB, and wait for it."""
    try:
        if nodes.cluster.request("GET", CONTROLLER)["spec"].get("replicas", 1) != replicas:
            nodes.cluster.patch(f"{CONTROLLER}/scale", {"spec": {"replicas": replicas}}, "merge-patch")
    except ApiError as missing:
        if missing.status == HTTPStatus.NOT_FOUND:
            return
        raise

    def look() -> Reading:
        status = nodes.cluster.request("GET", CONTROLLER)["status"]
        pods = nodes.cluster.list(f"/api/v1/namespaces/{metallb.NAMESPACE}/pods", labelSelector="component=controller")
        return Reading(status.get("readyReplicas", 0) == replicas == len(pods), str(status))

    waited = converge(look, Budget("MetalLB's controller", 60.0, need=1, spacing=0.5))
    assert waited.held, waited


def access() -> ClusterAccess:
    there = ClusterAccess.load(places())
    assert there is not None, "these tests need a cluster that ci/conformance keeps"
    return there


def fault(name: str) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """Start it with a fault (images/loadbalancer/README.md)."""
    return options("--fault", name)


def forwarder(*about: What) -> Callable[[Check], bool]:
    """Checks of the forwarder to all healthy nodes, requested by class and as the cluster's default."""
    ours = (Balancer.ECMP, Balancer.DEFAULT)
    return lambda check: (
        is_about(check, EndpointChange)
        and check.subject.balancer in ours
        and check.subject.what in about
        and promised(check)
    )


def promised(check: Check) -> bool:
    """Whether the check can fail: recorded values turn no check red."""
    return check.level is not Level.RECORD


def reports_in(*headers: Claim) -> Callable[[Check], bool]:
    """Checks that require the client's address in one of these headers."""
    return path_checks(lambda path_check: path_check.subject.reported in headers)
