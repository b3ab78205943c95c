"""Services whose policies change, simulated: nodes that follow after a while, a balancer, and who of them may lie."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from esipp.checks.model import POD_BACKEND, Family, Role, TrafficPolicy
from esipp.checks.policy_change import PLACES, At, ChangingService
from esipp.judging.timeline import Sample, Stream
from esipp.scenarios.policy_change.evidence import Course, Established, Ground, PolicyAction, PolicyChangeEvidence
from esipp.scenarios.policy_change.run import ROUNDS
from tests.unit.world import CLIENT_ADDRESSES, NOBODY, NODE_ADDRESSES, ROLES, topology

LOCAL, CLUSTER = TrafficPolicy.LOCAL, TrafficPolicy.CLUSTER
SPACING, TIMEOUT = 0.1, 0.9
EVERY = 4.0
"""Seconds from change to change."""

GROUND = Ground(topology(), "outside-1", POD_BACKEND)
HOME, BARE = ROLES[Role.ENDPOINT_NODE], ROLES[Role.BARE_NODE]


@dataclass
class World:
    """One Service, six changes; each field below is a lie.

    Args:
        service: which.
        lag: seconds until the nodes follow a change.
        never_follows: an entry that stays as it was from a change on, by the number of that change.
        blip: an entry that is as the other policy says for a moment, so many seconds after each change to a policy.
        third: an entry that shows another address for a moment after each change to a policy.
        unrewritten: the bare node hands connections on with the client's address after each change to Local.
        strange_pod: an entry that is answered by another pod for a moment.
        strange_node: an entry that shows the address of a node that did not take the connection.
        silent: connections lost at an entry, for so many seconds from each change on.
        keeps_source: under Cluster the source is not rewritten at these entries.
        stays_open: a node whose old health-check port still answers after a change to Cluster.
        reopens: a node whose old health-check port answers again after a second.
        not_open: a node that opens no port after a return.
        says: another status of a node's health check under Local.
        foreign: the freed port is another Service's now.
        no_port: the Service gets no port on its return.
        keeps_port: its spec still names one under Cluster.
        refused_change: a change that the API server answers with the old policy.
        masqueraded_client: the client outside reaches even nodes as somebody else.
        listener_loses: the control listeners lose a connection.
        loses_kept, moves_kept: the change after which open connections are lost, or show another source.
        hangs_kept: open connections say nothing any more after the last change.
        every: seconds from change to change.
        listeners_late: seconds by which two answers of each control listener come late after each change.
    """

    service: ChangingService = ChangingService.NODE_PORT
    lag: float = 0.3
    changes_made: int = 2 * ROUNDS
    never_follows: dict[At, int] = field(default_factory=dict)
    blip: dict[At, tuple[float, TrafficPolicy]] = field(default_factory=dict)
    third: dict[At, TrafficPolicy] = field(default_factory=dict)
    unrewritten: bool = False
    strange_pod: frozenset[At] = frozenset()
    strange_node: frozenset[At] = frozenset()
    silent: dict[At, float] = field(default_factory=dict)
    keeps_source: frozenset[At] = frozenset()
    stays_open: str = ""
    reopens: str = ""
    not_open: str = ""
    says: dict[str, str] = field(default_factory=dict)
    foreign: bool = False
    no_port: bool = False
    keeps_port: bool = False
    refused_change: int = 0
    masqueraded_client: bool = False
    listener_loses: bool = False
    loses_kept: int = 0
    moves_kept: int = 0
    hangs_kept: bool = False
    every: float = EVERY
    listeners_late: float = 0.0

    def __post_init__(self) -> None:
        numbers = range(self.changes_made + 1)
        self.changes = [self._change(number) for number in numbers]
        self.end = self.every * (self.changes_made + 1)

    def _change(self, number: int) -> PolicyAction:
        to = CLUSTER if number % 2 else LOCAL
        policy = to if not self.refused_change or number != self.refused_change else LOCAL
        open_again = to is LOCAL and not (self.no_port and number)
        port = 30100 + number if self.service.balancer and (open_again or (self.keeps_port and number)) else 0
        return PolicyAction(number, to, self.every * number, self.every * number + 0.01, policy.value, port)

    # ------------------------------------------------------------------------------------------ new connections
    def _policy(self, at: At, when: float) -> tuple[PolicyAction, TrafficPolicy, float]:
        """The last change, what the data plane does at an entry, and the seconds since the change."""
        last = [change for change in self.changes if change.cause <= when][-1]
        followed = [f for f in self.changes if f.cause + (self.lag if f.number else 0) <= when]
        stuck = self.never_follows.get(at)
        now = [f for f in followed if stuck is None or f.number < stuck][-1]
        return last, now.to, when - last.cause

    def _sample(self, at: At, family: Family, seq: int, when: float) -> Sample:
        change, policy, since = self._policy(at, when)
        client, node = (
            CLIENT_ADDRESSES["outside-1"][family],
            NODE_ADDRESSES[BARE if at is At.BARE_NODE else HOME][family],
        )
        blip = self.blip.get(at)
        if change.number and blip and blip[1] is change.to and blip[0] <= since < blip[0] + 0.25:
            policy = CLUSTER if policy is LOCAL else LOCAL
        moment = bool(change.number) and self.lag <= since < self.lag + 0.35
        if since < self.silent.get(at, 0.0) and change.number:
            return Sample(seq, when, when + TIMEOUT, "timeout")
        if moment and self.third.get(at) is change.to:
            return Sample(seq, when, when + 0.002, "answered", POD_BACKEND, HOME, NOBODY[family])
        if moment and at in self.strange_pod:
            return Sample(seq, when, when + 0.002, "answered", "somebody", HOME, client)
        if moment and at in self.strange_node:
            other = NODE_ADDRESSES[ROLES[Role.OTHER_NODE]][family]
            return Sample(seq, when, when + 0.002, "answered", POD_BACKEND, HOME, other)
        if moment and self.unrewritten and at is At.BARE_NODE and change.to is LOCAL:
            return Sample(seq, when, when + 0.002, "answered", POD_BACKEND, HOME, client)
        if policy is LOCAL and at is At.BARE_NODE:
            return Sample(seq, when, when + TIMEOUT, "timeout")
        source = client if policy is LOCAL or at in self.keeps_source else node
        return Sample(seq, when, when + 0.002, "answered", POD_BACKEND, HOME, source)

    def _times(self, since: float = 0.0, until: float | None = None) -> Iterator[tuple[int, float]]:
        count = int(((until or self.end) - since) / SPACING)
        return ((seq, since + 0.03 + seq * SPACING) for seq in range(count))

    # -------------------------------------------------------------------------------------------- health checks
    def _status(self, node: str, number: int, when: float) -> str:
        last = [change for change in self.changes if change.cause <= when][-1]
        since = when - last.cause
        truth = self.says.get(node, "200" if node == HOME else "503")
        if last.number == number:
            return "refused" if number and (since < self.lag or node == self.not_open) else truth
        if since < self.lag or node == self.stays_open or (node == self.reopens and since > 1.5):
            return truth
        return "foreign" if self.foreign else "refused"

    def _health(self, family: Family) -> Iterator[tuple[tuple[int, str, Family], Stream]]:
        for change in self.changes:
            if change.to is CLUSTER or not change.health_port:
                continue
            until = min(self.end, change.cause + 2 * self.every)
            for node in dict.fromkeys(ROLES[place] for place in PLACES):
                made = [
                    Sample(seq, at, at + 0.002, self._status(node, change.number, at))
                    for seq, at in self._times(change.cause, until)
                ]
                yield (change.number, node, family), frozen(Stream("health", SPACING, made))

    # ------------------------------------------------------------------------------------------ open connections
    def _kept(self) -> Iterator[Established]:
        for at, number, node in ((At.ENDPOINT_NODE, 0, ""), (At.BARE_NODE, 1, BARE)):
            for family in Family:
                source = NODE_ADDRESSES[node][family] if node else CLIENT_ADDRESSES["outside-1"][family]
                begin = self.every * number + 2.0
                samples = []
                for seq, when in self._times(begin):
                    sample = Sample(seq, when, when + 0.002, "answered", POD_BACKEND, HOME, source)
                    if self.loses_kept and when > self.every * self.loses_kept + self.lag:
                        sample = sample._replace(outcome="reopened" if samples[-1].outcome != "answered" else "reset")
                    if self.moves_kept and when > self.every * self.moves_kept + self.lag:
                        sample = sample._replace(source=NOBODY[family])
                    if not self.hangs_kept or when < self.every * 2 * ROUNDS + self.lag:
                        samples.append(sample)
                yield Established(
                    at, family, number, [frozen(Stream(f"{self.service} {at} {family} kept", SPACING, samples))]
                )

    # ----------------------------------------------------------------------------------------------- everything
    def course(self) -> Course:
        made = Course(self.changes, self.end, 2 * ROUNDS, kept=list(self._kept()))
        for family in Family:
            for at in At:
                if at is not At.VIP or self.service.balancer:
                    samples = [self._sample(at, family, seq, when) for seq, when in self._times()]
                    name = f"{self.service} {at} {family}"
                    made.data[at, family] = frozen(Stream(name, SPACING, samples))
            made.health |= dict(self._health(family))
        return made

    def seen(self) -> PolicyChangeEvidence:
        seen = PolicyChangeEvidence(ground=GROUND, courses={self.service: self.course()})
        source = NODE_ADDRESSES[BARE] if self.masqueraded_client else CLIENT_ADDRESSES["outside-1"]
        for family in Family:
            answers = [Sample(n, n, n + 0.002, "answered", "agent", HOME, source[family]) for n in range(int(self.end))]
            if self.listener_loses:
                answers[3] = Sample(3, 3.0, 3.9, "timeout")
            if self.listeners_late:
                slow = self.listeners_late
                answers = [
                    s._replace(ended=s.ended + slow) if s.seq % int(self.every) in (3, 4) else s for s in answers
                ]
            for at in (At.ENDPOINT_NODE, At.BARE_NODE):
                listener = frozen(Stream(f"listener of {at} {family}", 1.0, answers))
                seen.controls = {**seen.controls, (at, family): listener}
        return seen


def frozen(stream: Stream) -> Stream:
    stream.freeze()
    return stream
