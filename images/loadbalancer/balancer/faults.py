"""Ways in which the balancer does wrong on purpose, so that tests can ask whether the right rows notice.

All are off by default. The admin view reports them. The real code asks this module at the few places where a fault
would change something; what each one does stands here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

FAULTS = {
    "ignore-health": "steers to all nodes, whatever their checks say",
    "keep-one": "never takes a node away once it has been steered to, whatever its checks say",
    "joins-unchecked": "forwarders: send to a node as soon as it joins, until so many checks have failed",
    "slow": "checks ten times less often than it says",
    "flap": "inverts the result of every other check in four seconds of every ten",
    "one-in-fifty-stale": "reference-ecmp: goes on sending one connection in fifty to nodes that were taken away",
    "old-health-port": "the reference-proxy classes: go on asking the health port that a Service had at first",
    "keep-vip": "goes on serving the VIPs of Services that were deleted",
    "one-address": "forwarders: of several VIPs of a Service and family, only the first leads to nodes",
    "forge-xff": "reference-proxy-xff: names 192.0.2.1 or 2001:db8::1 as the client",
    "drop-xff": "reference-proxy-xff: sends no X-Forwarded-For",
    "wrong-proxy-header": "reference-proxy-v1 and -v2: names 192.0.2.1 or 2001:db8::1 as the client",
    "drop-proxy-header": "reference-proxy-v1 and -v2: sends no PROXY protocol header",
    "wrong-path": "asks nodes for /livez instead of /healthz",
    "gap": "drops what comes for a VIP for a second and a half whenever its nodes change",
    "hang": "the reference-proxy classes: take one connection in twelve, and never answer it",
    "uneven": "gives the first node by its name 11 connections for 9 of each other one",
    "wander": "forwarders: send everything to one healthy node at a time, another one every three seconds",
    "unequal": "prefers nodes by their names: each gets four times what the one before it gets",
}
FORGED = {"IPv4": "192.0.2.1", "IPv6": "2001:db8::1"}
SLOWER = 10
PREFERRED = 4
UNEVEN = (11, 9)
HANGS = 12  # one connection in so many
GAP_SECONDS = 1.5
WANDER_SECONDS = 3.0
MOST_SHARE = 256  # what HAProxy and the kernel can have
STALE_SHARE = 49  # healthy nodes together get this many times what a stale one gets


class Faults:
    """The faults that are on."""

    def __init__(self, names: Collection[str] = ()) -> None:
        self.names = frozenset(names)

    def period(self, period: float) -> float:
        """How often is really checked."""
        return period * SLOWER if "slow" in self.names else period

    @property
    def joins_unchecked(self) -> bool:
        """Whether a node counts as healthy before its first check."""
        return "joins-unchecked" in self.names

    def result(self, passed: bool, count: int, now: float) -> bool:
        """What is made of the count-th result of a check."""
        return not passed if "flap" in self.names and now % 10 < 4 and count % 2 else passed

    def steer(
        self, candidates: Collection[str], healthy: Collection[str], before: Mapping[str, int], now: float = 0.0
    ) -> tuple[set[str], set[str]]:
        """Which nodes count as healthy, and which get a little although they do not.

        Args:
            candidates: every node that may be a target.
            healthy: those whose checks pass.
            before: what was steered to so far, with weights.
            now: in monotonic seconds.
        """
        good, stale = set(healthy), set[str]()
        if "ignore-health" in self.names:
            good = set(candidates)
        if "keep-one" in self.names:
            good |= set(before)
        if "one-in-fifty-stale" in self.names:
            stale = set(before) - good
        if self.wanders and good:
            good = {sorted(good)[int(now / WANDER_SECONDS) % len(good)]}
        return good, stale

    def shares(self, nodes: Iterable[str]) -> dict[str, int]:
        """How much each of these nodes gets, in proportion; all the same by right."""
        if "uneven" in self.names:
            return {node: UNEVEN[min(place, 1)] for place, node in enumerate(sorted(nodes))}
        grow = PREFERRED if "unequal" in self.names else 1
        return {node: min(MOST_SHARE, grow**place) for place, node in enumerate(sorted(nodes))}

    @property
    def keeps_ports(self) -> bool:
        """Whether a proxy asks a node at the port it had at first, whatever the Service says now."""
        return "old-health-port" in self.names

    @property
    def wanders(self) -> bool:
        """Whether a VIP goes from node to node though nothing changes."""
        return "wander" in self.names

    @property
    def gap(self) -> float:
        """For how long what comes for a VIP is dropped when its nodes change."""
        return GAP_SECONDS if "gap" in self.names else 0.0

    @property
    def hangs(self) -> bool:
        """Whether a proxy never answers some connections that it takes."""
        return "hang" in self.names

    @property
    def keeps_vips(self) -> bool:
        """Whether VIPs outlive their Services."""
        return "keep-vip" in self.names

    @property
    def one_address(self) -> bool:
        """Whether only the first VIP of a Service and family leads to nodes."""
        return "one-address" in self.names

    @property
    def never_down(self) -> bool:
        """Whether a proxy's node stays up once it was."""
        return "keep-one" in self.names

    @property
    def no_checks(self) -> bool:
        """Whether a proxy's nodes are not checked at all."""
        return "ignore-health" in self.names

    @property
    def forwarded_for(self) -> str:
        """What X-Forwarded-For says: ``true``, ``forged`` or ``absent``."""
        if "drop-xff" in self.names:
            return "absent"
        return "forged" if "forge-xff" in self.names else "true"

    @property
    def path(self) -> str:
        """The path that nodes are asked for; both have the same answer."""
        return "/livez" if "wrong-path" in self.names else "/healthz"

    @property
    def drops_proxy_header(self) -> bool:
        """Whether PROXY protocol headers are missing."""
        return "drop-proxy-header" in self.names

    @property
    def forges_proxy_header(self) -> bool:
        """Whether PROXY protocol headers name another client."""
        return "wrong-proxy-header" in self.names
