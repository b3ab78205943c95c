"""The reference load balancer started again with other options, faults say; and which checks are about what it does."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from http import HTTPStatus

from ci import dressing, loadbalancer, metallb, returning, router
from ci.containers import docker
from ci.places import places
from ci.surroundings import Surroundings
from esipp.base.waiting import Budget, Reading, converge
from esipp.checks.check import Check, Level
from esipp.checks.endpoint_change import EndpointChangeCheck, What
from esipp.checks.model import Balancer, Claim
from esipp.cluster.client import ApiError
from tests.broken.breakage import Asked, path_checks
from tests.broken.nodes import Nodes, Placed

FEW = 3
"""Moves up, and as many down: each that is not followed takes its whole budget."""

OWN = ("--default", Balancer.ECMP.value)
"""How the reference load balancer is the cluster's own one: as the forwarder to all healthy nodes."""

HOSTNAME_FORWARDER = ("--default", dressing.TRANSLATING, "--announce", dressing.HOSTNAME)
HOSTNAME_PROXY = ("--default", dressing.PROXY, "--announce", dressing.HOSTNAME)
"""The same, announced by a hostname: as AWS's load balancers are."""

ONLY_POOL = "--only-pool"
PUBLIC = "192.88.99.0/24"
"""VIPs that are public, as addresses go, and nobody's: the range of relays that RFC 7526 gave up."""

PROFILE = ("--provider", "reference-forward")
"""What a user says who has it: its period and thresholds are what it promises, and what it is held to."""

WITH_PROXY = (
    *("--provider", "reference-proxy"),
    *(f"--without=load-balancer.carries.{each}" for each in ("sctp", "udp")),
)

MOVING = Asked(
    ("convergence",), ("convergence.reference-ecmp", "convergence.default"), moves=FEW, own=OWN, options=PROFILE
)
"""What a forwarder makes of health checks, as the cluster's own load balancer and beside that."""

HEADERS = Asked(("source_ip",), own=OWN, options=PROFILE)
"""All paths. The proxies, those that tell the client's address and the one that does not, are among them."""

CONTROLLER = f"/apis/apps/v1/namespaces/{metallb.NAMESPACE}/deployments/controller"

LATE = (What.NO_LOSS, What.BALANCE, What.BLACK_HOLE)
"""What may go wrong as well where nodes are left too late, if not in every sequence of moves."""


def options(*words: str) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """Start the balancer with these beside what it has, and again without."""

    @contextmanager
    def apply(_: Nodes) -> Iterator[Placed]:
        there = _surroundings()
        before = loadbalancer.options(there)
        try:
            loadbalancer.restart(there, (*before, *words))
            yield Placed(time.time())
        finally:
            loadbalancer.restart(there, before)

    return apply


@contextmanager
def own_balancer(nodes: Nodes, given: tuple[str, ...]) -> Iterator[None]:
    """Make the reference load balancer the cluster's own, by these options; without any nothing changes.

    MetalLB rests meanwhile: without its controller it gives no Service an address, and its speakers announce none.
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
        forget(_surroundings(), given)
        run_metallb(nodes, 1)


def forget(there: Surroundings, given: Sequence[str]) -> None:
    """Take away what such options brought beside the container: nodes' ways back, and the route to a pool elsewhere."""
    if dressing.TRANSLATING in given:
        returning.take_away(there)
    if ONLY_POOL in given:
        taking = router.on_this_machine(loadbalancer.image_of(there), "route", "del", given[given.index(ONLY_POOL) + 1])
        there.ask("docker", *taking)  # it may be gone


def route(given: Sequence[str]) -> None:
    """Route a pool that is not of the nodes' network, for everybody whose default gateway is the docker engine."""
    if ONLY_POOL in given:
        there, pool = _surroundings(), given[given.index(ONLY_POOL) + 1]
        via = next(each for each in balancer_addresses() if ":" not in each)
        docker(there, *router.on_this_machine(loadbalancer.image_of(there), "route", "replace", pool, "via", via))


def balancer_addresses() -> list[str]:
    """Where the reference load balancer checks and proxies from."""
    return loadbalancer.addresses(_surroundings())


def run_metallb(nodes: Nodes, replicas: int) -> None:
    """Have so many of MetalLB's controllers, where the lane has MetalLB, and wait until it is so."""
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


def _surroundings() -> Surroundings:
    there = Surroundings.load(places())
    assert there is not None, "these tests need a cluster that ci/conformance keeps"
    return there


def fault(name: str) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """Have it do wrong on purpose (images/loadbalancer/README.md)."""
    return options("--fault", name)


def forwarder(*about: What) -> Callable[[Check], bool]:
    """Checks about this of the forwarder to all healthy nodes, asked for by its class and as the cluster's own."""
    ours = (Balancer.ECMP, Balancer.DEFAULT)
    return lambda check: (
        isinstance(check, EndpointChangeCheck) and check.balancer in ours and check.what in about and promised(check)
    )


def promised(check: Check) -> bool:
    """Whether somebody promises it: what is only recorded turns no check red."""
    return check.level is not Level.RECORD


def told_in(*headers: Claim) -> Callable[[Check], bool]:
    """Checks that want the client's address in one of these headers."""
    return path_checks(lambda path_check: path_check.told in headers)
