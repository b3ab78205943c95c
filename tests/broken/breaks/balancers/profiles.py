"""Load balancers whose health checks are not those of their profile, and one that is hardly slower."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

from ci import emulation
from ci.containers import docker
from ci.loadbalancer import NAME
from esipp.checks.check import Check, is_about
from esipp.checks.endpoint_change import EndpointChange
from esipp.checks.endpoint_change import What as Change
from esipp.checks.model import Balancer, Family, TrafficPolicy
from esipp.judging.topology import read_node
from esipp.scenarios.load_balancer_probes.subject import ProfileFigure, What
from tests.broken.balancing import (
    LATE,
    MOVING,
    OWN,
    access,
    balancer_addresses,
    fault,
    forget,
    forwarder,
    options,
)
from tests.broken.breakage import Break, Group, RunOptions, no_check
from tests.broken.nodes import Nodes, Placed

PROFILE = Path(__file__).with_name("own-balancer.toml")
"""A user's own profile of the cluster's load balancer (``--provider FILE``)."""

FIGURES = RunOptions(("health_checks",), ("healthcheck.profile.",), own=OWN, options=("--provider", str(PROFILE)))

OF_DEFAULT = replace(FIGURES, checks=("healthcheck.profile.default.",))
"""Of the cluster's own load balancer alone, which is no proxy: it connects to nodes for health checks only."""

OTHERS = {4: ("172.18.0.250", 16), 6: ("fc00:f853:ccd:e793::fa", 64)}
"""Unused addresses of kind's network, from which the load balancer then probes."""

TABLE = "esipp-broken-source"
NODE_PORTS = "30000-32767"
PORTS = f"{{ 10256, {NODE_PORTS} }}"


def inside(*command: str) -> None:
    """Run a command in the load balancer's container."""
    docker(access(), "exec", NAME, *command)


@contextmanager
def translated(hook: str, rules: Iterable[str]) -> Iterator[Placed]:
    """The load balancer's own connections, with these rules of NAT at such a hook in its container."""
    chain = f"add chain inet {TABLE} out {{ type nat hook {hook}; }}"
    try:
        inside("nft", "; ".join((f"add table inet {TABLE}", chain, *(f"add rule inet {TABLE} out {r}" for r in rules))))
        yield Placed(time.time())
    finally:
        inside("nft", f"delete table inet {TABLE}")


@contextmanager
def other_source(_: Nodes) -> Iterator[Placed]:
    """The load balancer's own connections to nodes come from other addresses of its container."""
    own = {ip_address(each).version: each for each in balancer_addresses()}
    rules = []
    for version, (address, _) in OTHERS.items():
        ip = "ip" if version == 4 else "ip6"
        rules.append(f"{ip} saddr {own[version]} tcp dport {PORTS} snat {ip} to {address}")
    try:
        for address, length in OTHERS.values():
            nodad = ["nodad"] if ":" in address else []
            inside("ip", "address", "add", f"{address}/{length}", "dev", "eth0", *nodad)
        with translated("postrouting priority 100", rules) as placed:
            yield placed
    finally:
        for address, length in OTHERS.values():
            inside("ip", "address", "delete", f"{address}/{length}", "dev", "eth0")


def other_port(nodes: Nodes) -> AbstractContextManager[Placed]:
    """The load balancer's health checks of Local Services reach kube-proxy's own port instead."""
    found = [read_node(item) for item in nodes.cluster.list("/api/v1/nodes")]
    rules = []
    for family, address in (pair for node in found for pair in node.internal.items()):
        ip, to = ("ip", address) if family is Family.IPV4 else ("ip6", f"[{address}]")
        rules.append(f"{ip} daddr {address} tcp dport {NODE_PORTS} dnat {ip} to {to}:10256")
    return translated("output priority -100", rules)


@contextmanager
def other_destination(nodes: Nodes) -> Iterator[Placed]:
    """The load balancer translates VIPs to nodePorts, although its profile says that it does not."""
    try:
        with options("--default", emulation.TRANSLATING)(nodes) as placed:
            yield placed
    finally:
        forget(access(), (emulation.TRANSLATING,))


def about(*figures: What) -> Callable[[Check], bool]:
    """Checks of these figures."""
    return lambda check: is_about(check, ProfileFigure) and check.subject.what in figures


def under_local(*figures: What) -> Callable[[Check], bool]:
    """Those of Services under Local."""
    return lambda check: (
        is_about(check, ProfileFigure) and about(*figures)(check) and check.subject.policy is TrafficPolicy.LOCAL
    )


def threshold(check: Check) -> bool:
    """Whether a check is that of the threshold of the cluster's own load balancer."""
    own = (Balancer.DEFAULT, Change.THRESHOLD)
    return is_about(check, EndpointChange) and (check.subject.balancer, check.subject.what) == own


def _break(
    name: str,
    what: str,
    apply: Callable[[Nodes], AbstractContextManager[Placed]],
    notices: Callable[[Check], bool],
    names: str,
    *,
    may: Callable[[Check], bool] = no_check,
    run: RunOptions = FIGURES,
) -> Break:
    """A break that nothing settles before: only health checks and packets are asked."""
    return Break(
        name, Group.BALANCERS, what, run, apply, notices, names=names, may=may, unsure=about(*What), at_once=False
    )


BREAKS = (
    _break(
        "balancer-asks-for-another-path",
        "a load balancer's health checks ask for another path than its profile says",
        fault("wrong-path"),
        about(What.PATH),
        "asks for",
    ),
    _break(
        "balancer-probes-from-another-address",
        "a load balancer's health checks come from another address than its own",
        other_source,
        about(What.SOURCE),
        "probes from",
        may=about(What.PORT, What.PATH),  # the source shows who asks kube-proxy
    ),
    _break(
        "balancer-probes-less-often-than-its-profile-says",
        "a load balancer probes nodes ten times less often than its profile says",
        fault("slow"),
        about(What.PERIOD),
        "probes every",
    ),
    _break(
        "balancer-asks-another-port",
        "a load balancer's health checks of Local Services ask kube-proxy's own port instead of the one of its profile",
        other_port,
        under_local(What.PORT),
        "asks another port",
        run=OF_DEFAULT,
    ),
    _break(
        "balancer-translates-the-destination",
        "a load balancer whose profile says that packets keep the VIP as destination translates it to the nodePort",
        other_destination,
        about(What.DESTINATION),
        "another destination",
        run=OF_DEFAULT,
    ),
    Break(
        "balancer-needs-more-failed-checks-than-its-profile-says",
        Group.BALANCERS,
        "a load balancer leaves a node after six failed health checks, and its profile says two",
        replace(MOVING, checks=("convergence.default.",), options=FIGURES.options),
        options("--unhealthy", "6"),
        threshold,
        names="more or fewer failed health checks",
        may=forwarder(Change.STEERS, *LATE),
        at_once=False,
    ),
    Break(
        "balancer-probes-a-little-less-often",
        Group.HARMLESS,
        "a load balancer probes nodes every 1.3 s, and its profile says 1 s",
        FIGURES,
        options("--period", "1.3"),
        lambda check: False,
        at_once=False,
    ),
)
