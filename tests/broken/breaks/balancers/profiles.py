"""Load balancers whose health checks are not those of their profile, and one that is hardly slower."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from ipaddress import ip_address
from pathlib import Path

from ci.containers import docker
from ci.loadbalancer import NAME
from esipp.checks.check import Check, is_about
from esipp.scenarios.load_balancer_probes.subject import ProfileFigure, What
from tests.broken.balancing import OWN, access, balancer_addresses, fault, options
from tests.broken.breakage import Break, Group, RunOptions, no_check
from tests.broken.nodes import Nodes, Placed

PROFILE = Path(__file__).with_name("own-balancer.toml")
"""A user's own profile of the cluster's load balancer (``--provider FILE``)."""

FIGURES = RunOptions(("health_checks",), ("healthcheck.profile.",), own=OWN, options=("--provider", str(PROFILE)))

OTHERS = {4: ("172.18.0.250", 16), 6: ("fc00:f853:ccd:e793::fa", 64)}
"""Unused addresses of kind's network, from which the load balancer then probes."""

TABLE = "esipp-broken-source"
PORTS = "{ 10256, 30000-32767 }"


@contextmanager
def other_source(_: Nodes) -> Iterator[Placed]:
    """The load balancer's own connections to nodes come from other addresses of its container."""
    there = access()
    own = {ip_address(each).version: each for each in balancer_addresses()}

    def inside(*command: str) -> None:
        docker(there, "exec", NAME, *command)

    rules = []
    for version, (address, _) in OTHERS.items():
        ip = "ip" if version == 4 else "ip6"
        to = f"snat {ip} to {address}"
        rules.append(f"add rule inet {TABLE} out {ip} saddr {own[version]} tcp dport {PORTS} {to}")
    try:
        for address, length in OTHERS.values():
            nodad = ["nodad"] if ":" in address else []
            inside("ip", "address", "add", f"{address}/{length}", "dev", "eth0", *nodad)
        hook = "{ type nat hook postrouting priority 100; }"
        inside("nft", "; ".join((f"add table inet {TABLE}", f"add chain inet {TABLE} out {hook}", *rules)))
        yield Placed(time.time())
    finally:
        inside("nft", f"delete table inet {TABLE}")
        for address, length in OTHERS.values():
            inside("ip", "address", "delete", f"{address}/{length}", "dev", "eth0")


def about(*figures: What) -> Callable[[Check], bool]:
    """Checks of these figures."""
    return lambda check: is_about(check, ProfileFigure) and check.subject.what in figures


def _break(
    name: str,
    what: str,
    apply: Callable[[Nodes], AbstractContextManager[Placed]],
    figure: What,
    names: str,
    *,
    may: Callable[[Check], bool] = no_check,
) -> Break:
    """A break that nothing settles before: only health checks and packets are asked."""
    return Break(
        name, Group.BALANCERS, what, FIGURES, apply, about(figure), names=names, may=may, unsure=about(*What),
        at_once=False,
    )  # fmt: skip


BREAKS = (
    _break(
        "balancer-asks-for-another-path",
        "a load balancer's health checks ask for another path than its profile says",
        fault("wrong-path"),
        What.PATH,
        "asks for",
    ),
    _break(
        "balancer-probes-from-another-address",
        "a load balancer's health checks come from another address than its own",
        other_source,
        What.SOURCE,
        "probes from",
        may=about(What.PORT, What.PATH),  # the source shows who asks kube-proxy
    ),
    _break(
        "balancer-probes-less-often-than-its-profile-says",
        "a load balancer probes nodes ten times less often than its profile says",
        fault("slow"),
        What.PERIOD,
        "probes every",
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
