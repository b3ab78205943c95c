"""The evidence on every node and every endpoint. No I/O."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from esipp.checks.model import AddressClass, Family, Outcome, Protocol, TrafficPolicy
from esipp.checks.timing import Bound
from esipp.judging.controls import Counts
from esipp.judging.frame import Interruptions
from esipp.judging.link_owners import LinkAnswer
from esipp.judging.observation import Tracked, Witness
from esipp.scenarios.every_node.subject import Entrance

CLUSTER, LOCAL, SOME = "every-node-cluster", "every-node-local", "some-nodes-local"
"""Services: with endpoints on every node, under Cluster and under Local; and under Local on some of them only."""

HEALTH = "some-nodes-health"
LISTENER = "listener"
"""The control listener of a node, reached without a Service."""

PROXY = "kube-proxy"
AGENT = "the agent on "
"""What clients that are host processes are called: this, and their node."""


def vip_service(policy: TrafficPolicy, protocol: Protocol) -> str:
    """The name of a Service with a VIP. Load balancers get one protocol each, because many do not support several."""
    return f"every-node-vip-{policy.value}-{protocol.value}".lower()


@dataclass(frozen=True)
class Answer:
    """Equal results of ``count`` connections.

    Args:
        outcome: how they ended.
        count: how many they are.
        pod: the pod that answered.
        node: the node of that pod.
        classes: the address classes of the source that it saw.
        source: that address and its owner as text.
        detail: what else the prober says of a failed one; for a health check the status.
        resent: of how many the SYN was sent again.
        copies: how many further copies of answers came.
        paired: of how many the source port is known at both ends; of ``moved`` the two differ.
        took: the seconds of each, for health checks and control listeners; empty in ledgers of older versions.
    """

    outcome: Outcome
    count: int
    pod: str = ""
    node: str = ""
    classes: tuple[AddressClass, ...] = ()
    source: str = ""
    detail: str = ""
    resent: int = 0
    copies: int = 0
    paired: int = 0
    moved: int = 0
    took: tuple[float, ...] = ()

    @property
    def words(self) -> str:
        """The result as text."""
        if self.outcome is not Outcome.ANSWERED:
            return {Outcome.TIMEOUT: "no answer"}.get(self.outcome, self.outcome.value)
        return self.detail or f"{self.pod} saw {self.source}"


@dataclass(frozen=True)
class Dialled:
    """One target: an address and port, dialled by one client.

    Args:
        service: the Service, or what else was asked.
        entrance: the kind of address.
        protocol: the protocol.
        family: the family.
        node: the node that was dialled, or at a ClusterIP the client's; empty for a VIP.
        address: the address.
        port: the port.
        client: the client.
        answers: the results.
        first: the answers while the run waited until every target answers.
    """

    service: str
    entrance: Entrance
    protocol: Protocol
    family: Family
    node: str
    address: str
    port: int
    client: str
    answers: tuple[Answer, ...] = ()
    first: tuple[Answer, ...] = ()

    @property
    def key(self) -> str:
        """The target and its client as text, which no other target has."""
        how = f"{self.entrance} {self.protocol} {self.family} {self.port}"
        return f"{self.service} at {self.where}, {how}, from {self.client}"

    @property
    def total(self) -> int:
        """The number of connections."""
        return sum(each.count for each in self.answers)

    @property
    def answered(self) -> tuple[Answer, ...]:
        """The results with an answer."""
        return tuple(each for each in self.answers if each.outcome is Outcome.ANSWERED)

    @property
    def lost(self) -> int:
        """The number of connections without an answer."""
        return self.total - sum(each.count for each in self.answered)

    @property
    def tally(self) -> Counter[str]:
        """The results by their text."""
        found: Counter[str] = Counter()
        for each in self.answers:
            found[each.words] += each.count
        return found

    @property
    def from_outside(self) -> bool:
        """Whether a client outside dialled it."""
        return not self.client.startswith(AGENT)

    @property
    def where(self) -> str:
        """The target as text."""
        return f"{self.node} ({self.address})" if self.node else self.address


def by_pod(rows: Iterable[Dialled]) -> Counter[str]:
    """The number of connections that each pod answered."""
    found: Counter[str] = Counter()
    for row in rows:
        for each in row.answered:
            found[each.pod] += each.count
    return found


class _Targets:
    """All targets by their kind, and the control listeners among them by their node: on many nodes there are many."""

    def __init__(self, dialled: tuple[Dialled, ...]) -> None:
        self.dialled = dialled
        self.of_kind: dict[tuple[str, Entrance, Protocol, Family], list[Dialled]] = {}
        self.listeners: dict[tuple[Protocol, Family, str], list[Dialled]] = {}
        for each in dialled:
            self.of_kind.setdefault((each.service, each.entrance, each.protocol, each.family), []).append(each)
            if each.service == LISTENER:
                self.listeners.setdefault((each.protocol, each.family, each.node), []).append(each)


@dataclass
class EveryNodeEvidence(Interruptions):
    """The whole evidence.

    Args:
        nodes: the families of InternalIPs of every node that can run pods, by its name.
        sampled: the nodes that were asked.
        unasked: why a node was not asked, by its name.
        endpoints: the node of each endpoint, by pod; ``some`` are those of the Services on some nodes.
        obstacles: why a Service has no VIP of a family.
        dialled: all targets with their results.
        witnesses: the evidence of packets for the connections that they follow, by the target's key.
        blind: why there are no packets; empty if there are, and in runs that captured none.
        tracked: what the nodes' connection tracking says of the connections, by the target's key.
        gives_up: after how long without an answer the load balancer gives up a health check, for ``HEALTH`` and
            ``PROXY``; empty in ledgers of older versions.
        has_vip: who answered on the client's link that it has an announced address, by the address.
        has_own: the same for the nodes' InternalIPs, by node.
    """

    nodes: Mapping[str, tuple[Family, ...]] = field(default_factory=dict)
    sampled: tuple[str, ...] = ()
    unasked: Mapping[str, str] = field(default_factory=dict)
    endpoints: Mapping[str, str] = field(default_factory=dict)
    some: tuple[str, ...] = ()
    obstacles: Mapping[str, str] = field(default_factory=dict)
    dialled: tuple[Dialled, ...] = ()
    witnesses: Mapping[str, Sequence[Witness]] = field(default_factory=dict)
    blind: str = ""
    tracked: Mapping[str, Tracked] = field(default_factory=dict)
    gives_up: Mapping[str, Bound] = field(default_factory=dict)
    has_vip: Mapping[str, tuple[LinkAnswer, ...]] = field(default_factory=dict)
    has_own: Mapping[str, tuple[LinkAnswer, ...]] = field(default_factory=dict)

    def rows(self, service: str, entrance: Entrance, protocol: Protocol, family: Family) -> list[Dialled]:
        """The targets of a kind."""
        return list(self._targets.of_kind.get((service, entrance, protocol, family), ()))

    def endpoints_on(self, node: str, service: str) -> list[str]:
        """The endpoints of a Service on a node."""
        own = self.some if service in (SOME, HEALTH) else tuple(self.endpoints)
        return [pod for pod in own if self.endpoints[pod] == node]

    def listener(self, row: Dialled) -> Dialled | None:
        """The control of a target: the control listener of its node, at the same address if that was dialled.

        Without one for its own client, it is that of any client outside.
        """
        rows = self._targets.listeners.get((row.protocol, row.family, row.node), [])
        same = [each for each in rows if each.address == row.address] or rows
        return next(iter([each for each in same if each.client == row.client] or same), None)

    @property
    def _targets(self) -> "_Targets":
        """The targets, sorted once."""
        found = vars(self).get("_sorted")
        if found is None or found.dialled is not self.dialled:
            found = self._sorted = _Targets(self.dialled)
        return found

    def without_a_service(self, client: str) -> Counts:
        """The connections of a client to all control listeners, and the lost ones among them."""
        rows = [each for each in self.dialled if (each.service, each.client) == (LISTENER, client)]
        return Counts(sum(each.lost for each in rows), sum(each.total for each in rows))
