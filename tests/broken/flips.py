"""Data planes that go wrong while policies flip: how each is made, and which rows must notice; none other may.

What is wrong for a moment only is put in by a watcher that sees the flips as the API server tells them, and taken away
by the same command on the node: nothing is left behind, whatever becomes of the test.
"""

import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from esipp.cluster import ApiError, UnreachableError
from esipp.flips.model import At, BesideRow, FlipClaim, FlippedRow, Flipping
from esipp.flips.props import NEIGHBOURS
from esipp.model import AddressClass, EntryKind, Family, Role, ServiceType, TrafficPolicy
from esipp.rows import Row
from esipp.topology import family_of, parse_address
from tests.broken import lying_proxy
from tests.broken.health import CLOSED, health_proxies, redirected
from tests.broken.nodes import Json, Live, Nodes, Placed, Rule, new_mark
from tests.broken.rowbreaks import RowBreak

LONGEST = 400.0
"""Seconds after which no watcher looks any more."""

LOOKS = 0.2


# ---------------------------------------------------------------------------------------------- seeing a run's flips
@contextmanager
def beside(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Work in a thread of its own, until the test is over; what goes wrong in it goes wrong in the test."""
    ended, broken = threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            work(ended)
        except BaseException as error:
            broken.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    assert not broken, broken


def arranged(nodes: Nodes, names: set[str], ended: threading.Event) -> Live | None:
    """Our run, once its pods and these Services are there; None if the test is over before."""
    until = time.monotonic() + LONGEST
    while not ended.wait(LOOKS) and time.monotonic() < until:
        live = nodes._arranged()
        if live is not None and names <= {each["metadata"]["name"] for each in live.services}:
            return live
    return None


@contextmanager
def after_each_flip(
    nodes: Nodes,
    services: tuple[str, ...],
    steady: tuple[str, ...],
    make: Callable[[Live], list[Rule]],
    seconds: float,
    to: TrafficPolicy | None = None,
) -> Iterator[Placed]:
    """For so long after each flip of one of these Services (to one policy), rules on the nodes, about steady ones."""
    placed = Placed()

    def work(ended: threading.Event) -> None:
        live = arranged(nodes, {*services, *steady}, ended)
        if live is None:
            return
        rules, until = make(live), time.monotonic() + LONGEST
        known = {name: _policy(_service(live, name)) for name in services}
        namespace = f"esipp-{live.run}"
        while not ended.wait(0.03) and time.monotonic() < until:
            for name in services:
                try:
                    now = _policy(nodes.cluster.request("GET", f"/api/v1/namespaces/{namespace}/services/{name}"))
                except UnreachableError:
                    continue  # a busy one; nothing is changed then either
                except ApiError:
                    return  # the run is over
                flipped, known[name] = now != known[name], now
                if flipped and to in (None, now):
                    for_a_moment(nodes, rules, seconds)
                    placed.at = placed.at or time.time()

    try:
        with beside(work):
            yield placed
    finally:
        nodes.heal()


def for_a_moment(nodes: Nodes, rules: list[Rule], seconds: float) -> None:
    """Rules on the nodes they name, put in and taken away by one command each."""
    running, mark = [], new_mark()
    for node in {node for rule in rules for node in rule.nodes}:
        ours = [rule for rule in rules if node in rule.nodes]
        commands = [[shlex.join(each.command(how, mark)) for each in ours] for how in ("--insert", "--delete")]
        script = "; ".join([*commands[0], f"sleep {seconds}", *commands[1]])
        running.append(subprocess.Popen(["docker", "exec", node, "sh", "-c", script], stdout=subprocess.DEVNULL))
    for each in running:
        assert each.wait(timeout=60) == 0


def _service(live: Live, name: str) -> Json:
    return next(each for each in live.services if each["metadata"]["name"] == name)


def _policy(service: Json) -> str:
    return str(service["spec"].get("externalTrafficPolicy"))


# -------------------------------------------------------------------------------------------------------- the breaks
NODE_PORT = Flipping.NODE_PORT.object_name
STEADY = "nodeport-local"
"""The steady service that is disturbed."""


def serving_bare_node(nodes: Nodes) -> AbstractContextManager[Placed]:
    """The bare node goes on serving when the policy is Local, masquerading as under Cluster."""

    def make(live: Live) -> list[Rule]:
        rules, service = [], _service(live, NODE_PORT)
        for port, address, _, target in live.targets(service):
            number, host = str(port["nodePort"]), f"[{address}]" if ":" in address else address
            to = ("--jump", "DNAT", "--to-destination", f"{host}:{target}")
            local = ("--match", "addrtype", "--dst-type", "LOCAL")
            rules.append(
                Rule(family_of(address), "PREROUTING", (*_tcp(), "--dport", number, *local, *to), (nodes.bare,))
            )
            rules.append(
                Rule(family_of(address), "POSTROUTING", (*_came_by(number), "--jump", "MASQUERADE"), (nodes.bare,))
            )
        return rules

    return nodes.live(make)


def another_address(nodes: Nodes) -> AbstractContextManager[Placed]:
    """For a moment after each flip to Cluster, the bare node masquerades by an address that is nobody's.

    It is one of the node's own range of pods, so that answers come back to it.
    """

    def make(live: Live) -> list[Rule]:
        number = str(_service(live, NODE_PORT)["spec"]["ports"][0]["nodePort"])
        spec = nodes.cluster.request("GET", f"/api/v1/nodes/{nodes.bare}")["spec"]
        rules = []
        for cidr in spec["podCIDRs"]:
            first = parse_address(cidr.partition("/")[0])
            words = (*_came_by(number), "--jump", "SNAT", "--to-source", str(first + 250))
            rules.append(Rule(family_of(first), "POSTROUTING", words, (nodes.bare,)))
        return rules

    return after_each_flip(nodes, (NODE_PORT,), (), make, 2.0, TrafficPolicy.CLUSTER)


@contextmanager
def open_health_port(nodes: Nodes) -> Iterator[Placed]:
    """The first health-check port of the service is answered for ever, as it was at last, on every node."""

    def make(live: Live) -> list[Rule]:
        service = _service(live, Flipping.DEFAULT.object_name)
        return redirected([str(service["spec"]["healthCheckNodePort"])], lying_proxy.PORT)

    with health_proxies(nodes, "stays"), nodes.live(make) as placed:
        yield placed


def disturbed_neighbour(*, refused: bool) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """Whenever a neighbour flips, a steady service's nodePort is masqueraded, or refused, for half a second."""

    def apply(nodes: Nodes) -> AbstractContextManager[Placed]:
        def make(live: Live) -> list[Rule]:
            number, here = str(_service(live, STEADY)["spec"]["ports"][0]["nodePort"]), nodes.roles[Role.ENDPOINT_NODE]
            if refused:
                local = ("--match", "addrtype", "--dst-type", "LOCAL")
                words = (*_tcp(), "--dport", number, *local, "--jump", "REDIRECT", "--to-ports", str(CLOSED))
                return [Rule(family, "PREROUTING", words, (here,)) for family in Family]
            words = (*_came_by(number), "--jump", "MASQUERADE")
            return [Rule(family, "POSTROUTING", words, (here,)) for family in Family]

        return after_each_flip(nodes, tuple(sorted(NEIGHBOURS)), (STEADY,), make, 0.5)

    return apply


def _tcp() -> tuple[str, ...]:
    return ("--protocol", "tcp")


def _came_by(port: str) -> tuple[str, ...]:
    """Connections that were made to a nodePort."""
    return (*_tcp(), "--match", "conntrack", "--ctorigdstport", port)


# ------------------------------------------------------------------------------------------------- who must notice
def _flips(row: Row, service: Flipping, at: At | None, *claims: FlipClaim) -> bool:
    return isinstance(row, FlippedRow) and (row.service, row.at) == (service, at) and row.claim in claims


def _steady_at(row: Row, role: Role) -> bool:
    """Whether a row is about the disturbed service's nodePort on a node."""
    if not isinstance(row, BesideRow):
        return False
    path, service = row.cell.path, row.cell.path.service
    ours = service is not None and (service.type, service.policy) == (ServiceType.NODE_PORT, TrafficPolicy.LOCAL)
    return ours and path.entry.kind is EntryKind.NODE_PORT and path.entry.role is role


ASKED = ("flip.nodeport.", "flip.loadbalancer.", "flip.health-port.loadbalancer.")

FLIP_BREAKS = (
    RowBreak(
        "flip-bare-node-goes-on-serving",
        "compatibility",
        serving_bare_node,
        ASKED,
        lambda row: _flips(row, Flipping.NODE_PORT, At.BARE_NODE, FlipClaim.SETTLES),
        at_once=False,
    ),
    RowBreak(
        "flip-another-address-for-a-moment",
        "compatibility",
        another_address,
        ASKED,
        lambda row: _flips(row, Flipping.NODE_PORT, At.BARE_NODE, FlipClaim.OTHERWISE),
        at_once=False,
    ),
    RowBreak(
        "flip-health-port-stays-open",
        "compatibility",
        open_health_port,
        ASKED,
        lambda row: _flips(row, Flipping.DEFAULT, None, FlipClaim.HEALTH_CLOSED),
        at_once=False,
    ),
    RowBreak(
        "flip-masquerades-a-neighbour",
        "compatibility",
        disturbed_neighbour(refused=False),
        ("beside.nodeport.", "beside.loadbalancer.local.", "beside.health."),
        lambda row: _steady_at(row, Role.ENDPOINT_NODE) and AddressClass.CLIENT in _accepted(row),
        at_once=False,
    ),
    RowBreak(
        "flip-cuts-off-a-neighbour",
        "compatibility",
        disturbed_neighbour(refused=True),
        ("beside.nodeport.", "beside.loadbalancer.local.", "beside.health."),
        lambda row: _steady_at(row, Role.ENDPOINT_NODE),
        lambda row: _steady_at(row, Role.BARE_NODE),
        at_once=False,
    ),
)


def _accepted(row: Row) -> frozenset[AddressClass]:
    return row.cell.accept if isinstance(row, BesideRow) else frozenset()
