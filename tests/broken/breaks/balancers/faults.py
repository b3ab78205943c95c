"""The faults that the reference load balancer can be given, of forwarders and of proxies."""

from collections.abc import Callable
from dataclasses import replace

from esipp.checks.check import Check
from esipp.checks.endpoint_change import What
from esipp.checks.model import Claim
from tests.broken.balancing import HEADER_OF_OWN, HEADERS, LATE, MOVING, fault, forwarder, reports_in
from tests.broken.breakage import Break, Group, RunOptions, no_check


def _forwarder(
    name: str,
    what: str,
    how: str,
    notices: Callable[[Check], bool],
    names: str,
    *,
    may: Callable[[Check], bool] = no_check,
    run: RunOptions = MOVING,
) -> Break:
    """A fault that shows while endpoints change: such a run never settles, so it need not be there at once."""
    return Break(name, Group.BALANCERS, what, run, fault(how), notices, names=names, may=may, at_once=False)


def _proxy(name: str, what: str, how: str, *headers: Claim, names: str, fixed: bool = False) -> Break:
    """A fault in what a proxy reports as the client's address."""
    return Break(name, Group.BALANCERS, what, HEADERS, fault(how), reports_in(*headers), names=names, fixed=fixed)


BREAKS = (
    _proxy(
        "balancer-drops-x-forwarded-for",
        "a proxy sends no X-Forwarded-For, or passes on the client's own header",
        "drop-xff",
        Claim.FORWARDED_FOR,
        names=r"the backend got (no address|\S+) in",
    ),
    Break(
        "balancer-sends-no-proxy-header",
        Group.BALANCERS,
        "a proxy whose profile says that it sends PROXY protocol v2 headers sends none",
        HEADER_OF_OWN,
        fault("drop-proxy-header"),
        reports_in(Claim.PROXY_V2),
        names=r"the backend got (no address|\S+) in",
    ),
    _forwarder(
        "balancer-flaps",
        "for four seconds in every ten, a load balancer adds nodes with failing health checks and removes others",
        "flap",
        forwarder(What.STEERS),
        "flaps",
        may=forwarder(*LATE, What.VIEW_LOCAL, What.VIEW_CLUSTER),
    ),
    _proxy(
        "balancer-forges-x-forwarded-for",
        "a proxy sends backends X-Forwarded-For with 192.0.2.1 or 2001:db8::1 as the client",
        "forge-xff",
        Claim.FORWARDED_FOR,
        names="reports another one",
        fixed=True,
    ),
    _forwarder(
        "balancer-gap-at-each-change",
        "a load balancer drops all packets for a VIP for 1.5 seconds whenever its nodes change",
        "gap",
        forwarder(What.NO_LOSS),
        "lost|drops requests",
        may=forwarder(What.STEERS, *LATE),
    ),
    _forwarder(
        "balancer-ignores-health",
        "a load balancer ignores health checks and sends packets to all nodes",
        "ignore-health",
        forwarder(What.STEERS, What.BLACK_HOLE),
        "ignores health checks",
        may=forwarder(*LATE),
    ),
    _forwarder(
        "balancer-keeps-one",
        "a load balancer never removes a node once it has sent packets there",
        "keep-one",
        forwarder(What.STEERS, What.BLACK_HOLE),
        "keeps a removed node",
        may=forwarder(*LATE),
    ),
    _forwarder(
        "balancer-keeps-a-vip",
        "a load balancer keeps serving the VIPs of deleted Services",
        "keep-vip",
        forwarder(What.FREED),
        "keeps the VIP",
        may=forwarder(What.NO_LOSS),
    ),
    _forwarder(
        "balancer-slow",
        "a load balancer checks nodes ten times less often than it reports",
        "slow",
        forwarder(What.BLACK_HOLE),
        "probes less often, than its bound",
        may=forwarder(What.STEERS, *LATE),
    ),
    _forwarder(
        "balancer-one-in-fifty-to-a-removed-node",
        "a load balancer sends one connection in fifty to removed nodes",
        "one-in-fifty-stale",
        forwarder(What.STEERS),
        "keeps a removed node",
        may=forwarder(*LATE),
    ),
    _forwarder(
        "balancer-unequal",
        "a load balancer prefers nodes by name: one gets a fourth of another's share",
        "unequal",
        forwarder(What.BALANCE),
        "uses only one node",
        may=forwarder(What.NO_LOSS),
    ),
    _forwarder(
        "balancer-uneven-by-a-little",
        "a load balancer gives one of two nodes 55 of 100 connections, and the other 45",
        "uneven",
        forwarder(What.BALANCE),
        "uses only one node",
        may=forwarder(What.NO_LOSS),
        run=replace(MOVING, moves=10),  # a split as small takes many connections to be measured
    ),
    _proxy(
        "balancer-wrong-proxy-header",
        "a proxy sends PROXY protocol headers with 192.0.2.1 or 2001:db8::1 as the client",
        "wrong-proxy-header",
        Claim.PROXY_V1,
        Claim.PROXY_V2,
        names="reports another one",
    ),
)
