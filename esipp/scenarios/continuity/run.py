"""The run of continuity: steady requests on all ways, one phase after the other, on one clock."""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import astuple, dataclass, field

from esipp.base.errors import HarnessError
from esipp.base.interrupt import Stop
from esipp.base.waiting import LEAST, Reading
from esipp.checks.check import Feature, on_link
from esipp.checks.continuity import CHECKED, Continuity, Event, Phase, Way
from esipp.checks.model import OUTSIDE, Balancer, Family, Protocol, Role
from esipp.checks.stream import StreamKind
from esipp.checks.timing import Bound, fail_over_of, promise_of
from esipp.cluster.client import ApiError, UnreachableError
from esipp.disruption.disruptor import Disruptor
from esipp.disruption.marks import is_ready
from esipp.judging import ingress
from esipp.judging.durations import planned_events
from esipp.judging.link_owners import STEADY, off_link
from esipp.judging.schedule import steps
from esipp.judging.timeline import Steer
from esipp.judging.topology import IPAddress, Topology, parse_address
from esipp.probing import vantages
from esipp.probing.prober import Prober, Target
from esipp.scenarios.changing_pods import LEAST_BOUND, Watching, serves_on
from esipp.scenarios.context import Context
from esipp.scenarios.continuity import objects
from esipp.scenarios.continuity.actions import MOST_HELD, Acts, Gates, Notes
from esipp.scenarios.continuity.evidence import Asked, ContinuityEvidence, Places, Window
from esipp.scenarios.continuity.judge import Judge
from esipp.scenarios.continuity.objects import asked_streams, asking_link, events_of, families_of, ways_of
from esipp.scenarios.continuity.traffic import PACE, Streams, Targets
from esipp.scenarios.events import Following, control_targets
from esipp.scenarios.reference_reports import ReferenceReports
from esipp.scenarios.timeouts import TIMEOUTS, Timeouts
from esipp.testbed import manifests
from esipp.testbed.clients import Clients
from esipp.testbed.testbed import Testbed

QUIET = 1.5
"""Seconds in which nothing is done, before, between and after: no less, as the last requests need time to be over."""

FIRST_QUIET = 4.0
"""Seconds of the first quiet time, before any event: its checks need more probes than those between events."""

REJOINED = 5.0
"""Seconds for which VIPs are watched at least after a node's return. Others had taken it for dead, and it them; once it
is back, it tells them. So two of MetalLB's speakers claimed a VIP, 3.1 to 4.3 s after that (2026-11-28)."""

ASKED_AGAIN = 2.0
"""Seconds after which pods are asked again whose node's agent could not ask them: each attempt starts a process."""


@dataclass
class Gathering:
    """Runs the traffic and all phases, and collects the evidence.

    Args:
        testbed: has the Services of all ways.
        clients: have the client outside.
        topology: the owners of addresses.
        image: the image of the pods.
        ways: the probed ways, in these ``families``; ``sent``: the other streams of each way.
        events: what is to happen, in this order.
        reported: the reports of the reference load balancer.
        stop: ends the scenario.
        disruptor: creates the disruptor; called only if a phase needs it.
        say: receives progress messages.
        timeouts: how long each wait may take.
        bound: the promise of the cluster's own load balancer, how soon it has left a node; None if there is none.
        fails_over: its promise, how soon another node has the VIP of one that is gone; None if there is none.
        timed: records when an event was.
        so_far: the evidence so far.
        links: the families of VIPs for which the client asks its link who has them.
    """

    testbed: Testbed
    clients: Clients
    topology: Topology
    image: str
    ways: Sequence[Way]
    families: Sequence[Family]
    events: Sequence[Event]
    reported: ReferenceReports
    stop: Stop
    disruptor: Callable[[], Disruptor]
    say: Callable[[str], None]
    uncertainty: float = 0.0
    timeouts: Timeouts = TIMEOUTS
    bound: Bound | None = None
    fails_over: Bound | None = None
    timed: Callable[[Event], AbstractContextManager[object]] = contextlib.nullcontext
    so_far: Callable[[], ContinuityEvidence] = ContinuityEvidence
    sent: Mapping[Way, Sequence[StreamKind]] = field(default_factory=dict)
    links: frozenset[Family] = frozenset()
    _windows: list[Window] = field(default_factory=list)
    _since: float = 0.0
    _counted: dict[str, float] = field(default_factory=dict)
    """When the pods of each node were last asked what they had counted."""
    _failed: dict[str, float] = field(default_factory=dict)
    """When the pods of a node were last asked in vain."""
    _uncounted: dict[str, tuple[float, str]] = field(default_factory=dict)
    """The nodes whose pods cannot be asked: since when, and why."""

    def __post_init__(self) -> None:
        self._settling = Following(self.stop, later=LEAST, forgives=True)
        self._owning = Following(self.stop, later=LEAST, forgives=True)

    def run(self) -> ContinuityEvidence:
        """Have everything done.

        Raises:
            HarnessError: something of ours failed.
        """
        obstacles = self._obstacles()
        keys = [(way, family) for way in self.ways for family in self.families if (way, family) not in obstacles]
        if not keys:
            return ContinuityEvidence(obstacles=obstacles, trouble="no way could be probed")
        testbed, roles = self.testbed, self.testbed.roles
        places = Places(roles[Role.ENDPOINT_NODE], roles[Role.OTHER_NODE], roles[Role.BARE_NODE])
        checking = self.reported.checking
        serves = serves_on(checking.bound)
        service = objects.service_name(keys[0][0])
        with contextlib.ExitStack() as stack:
            names = [objects.service_name(way) for way, _ in keys] + [
                objects.service_name(*each) for each in self._others
            ]
            names += [objects.HEALTH] if objects.HEALTH in testbed.services else []
            beside = {name: service for name in names if name != service}
            watching = Watching(
                testbed.cluster, testbed.namespace, {objects.DEPLOYMENT: service}, patient=True, beside=beside
            )
            stack.callback(watching.stop)
            stack.enter_context(self.reported.listening())
            streams = stack.enter_context(self._streams(keys, places))
            gates = Gates(testbed.cluster, testbed.namespace, watching)
            stack.callback(gates.stop)
            gates.start()
            addresses = self._addresses()
            joined = dict[str, frozenset[IPAddress]]()
            acts = Acts(
                testbed, gates, streams, watching, places, list(self.ways), self._longest(checking.bound),
                checking.silent_bound or self._longest(checking.bound),
                self._own(), self._of_balancer(), self.stop, timeouts=self.timeouts, others=self._others,
                addresses=addresses, steered=lambda: self._steered(keys), joined=joined,
            )  # fmt: skip
            trouble = ""
            self.so_far = lambda: ContinuityEvidence(
                places, streams.streams, streams.lasting, streams.control, streams.health, tuple(self._windows),
                tuple(watching.marks[service]), dict(watching.nodes),
                {way: tuple(self.reported.steers.get(objects.service_name(way), ())) for way in self.ways},
                checking, serves, self._own(),
                frozenset(each for of in (addresses | joined).values() for each in of),
                self._of_balancer(),
                obstacles, trouble, self._since, streams.details, streams.others, self.bound, addresses | joined,
                PACE.every, PACE.timeout, self.uncertainty, streams.sent, self._held(watching),
                *min(self._uncounted.values(), default=(0.0, "")), links=streams.links, fails_over=self.fails_over,
                owners=streams.owners, own_links=streams.own_links,
                joined=streams.joined, joined_health=streams.joined_health,
            )  # fmt: skip
            trouble = self._begin(acts, serves, keys)
            if not trouble:
                self._go_through(acts, stack)
                self._count(acts)
            streams.stop()
            addresses = self._addresses()  # as they are now: a first pod brings a bridge with an address
        return self.so_far()

    def _steered(self, keys: Sequence[Asked]) -> dict[Asked, tuple[str, ...]]:
        """The nodes to which load balancers send requests by their last report; without those that report nothing."""
        found = dict[Asked, tuple[str, ...]]()
        for way, family in keys:
            nodes = steered(self.reported.steers.get(objects.service_name(way), ()), family)
            found |= {} if nodes is None else {(way, family): nodes}
        return found

    @property
    def _others(self) -> list[tuple[Way, Protocol]]:
        """The ways with a Service for another protocol than TCP."""
        return objects.protocols_of(self.sent)

    def _longest(self, bound: float | None) -> float:
        """The time for which a node is kept without a pod, so that a slow load balancer is detected."""
        own = self.bound if any(way.by == Balancer.DEFAULT.value and way.local for way in self.ways) else None
        return max(bound or LEAST_BOUND, min(own.seconds, MOST_HELD) if own else 0.0)

    def _begin(self, acts: Acts, serves: int, keys: Sequence[Asked]) -> str:
        """Make the pods, have traffic flow; why that did not come about."""
        testbed, places = self.testbed, acts.places
        raw = any(protocol is Protocol.SCTP for _, protocol in self._others)
        manifest = objects.deployment(testbed.run, self.image, (places.endpoint, places.other), serves, raw=raw)
        testbed.cluster.create(f"/apis/apps/v1/namespaces/{testbed.namespace}/deployments", manifest)
        held = self.stop.converge(acts.whole, self.timeouts.pods_ready)
        if not held.held:
            raise HarnessError(f"The pods of the Deployment are not ready: {held}.", "see 'kubectl get events -A'.")
        acts.streams.start()
        self._settle(acts, keys)
        # What is answered now and then is for the checks to judge.
        return "" if any(acts.streams.latest(key) for key in keys) else "no way answered any request at the start"

    def _go_through(self, acts: Acts, stack: contextlib.ExitStack) -> None:
        """One phase after the other, each when traffic has settled after the one before."""
        # A port from which something came before the rules were there may be one that a node goes on to drop.
        acts.streams.renew()
        self._since = time.monotonic()
        acts.streams.send_counted(self.stop.check)
        acts.hold(self._since + FIRST_QUIET - time.monotonic())
        sound = True
        for event in (each for each in self.events if each.phase is not Phase.QUIET):
            if not sound:
                now = time.monotonic()
                self._windows.append(Window(event.phase, now, now, trouble="an earlier phase did not end"))
                continue
            if event.disruption and acts.disruptor is None:
                acts.disruptor = stack.enter_context(self.disruptor())
            with self.timed(event):
                sound = self._phase(acts, event)
            if sound and not event.frees_for:  # what flows over pods that are not all there does not flow undisturbed
                acts.hold(QUIET)

    def _phase(self, acts: Acts, event: Event) -> bool:
        """One of them; whether all was well again afterwards."""
        self.say(f"continuity: {event.phase.value}")
        self._count(acts)  # before the pods go that know it
        notes, trouble, began = Notes(), "", time.monotonic()
        try:
            acts.perform(event, notes)
        except HarnessError as broken:
            trouble = broken.sentence
        except (ApiError, UnreachableError) as broken:
            trouble = str(broken)
        if event.disruption:
            self.clients.renew()
        held = self.stop.converge(acts.whole, self.timeouts.pods_ready)
        left = self._settle(acts, list(acts.streams.streams)) if held.held else [held.state]
        if held.held:
            self.stop.converge(lambda: self._heard(acts), self.timeouts.streams_heard)
            now, one_node = time.monotonic(), self.timeouts.vips_at_one_node
            # Enough questions who has each VIP must follow each event before the next one begins.
            watched = (REJOINED if event.frees_for else STEADY) if acts.streams.owners else 0.0
            self._owning.wait(acts.streams.shared, one_node, now, lasts=(notes.ended or now) + watched - now)
            self._count(acts)  # a new port is a new flow: what is not read of the one before is lost
        acts.streams.renew()
        over = None
        if event.frees_for:  # VIPs may still move: no quiet time comes between this window and the next one
            over = time.monotonic()
            acts.hold(QUIET)
        window = Window(
            event.phase, began, time.monotonic(), notes.happened, notes.ended, tuple(notes.causes), tuple(notes.either),
            notes.words, trouble, ", ".join(left), notes.returned, notes.cut, over, notes.started,
        )  # fmt: skip
        self._windows.append(window)
        return held.held

    def _settle(self, acts: Acts, keys: Sequence[Asked]) -> list[str]:
        """Wait until every way answers, and the load balancer uses all nodes again; the ways that do not in time.

        A later change of its routes would break connections in the quiet phase. A way that did not settle the last time
        does not take the whole time again: else each phase would wait for a way that never answers.
        """
        places = acts.places
        local = (places.endpoint, places.other)

        def behind(now: float) -> list[str]:
            left = acts.streams.unsettled(now, keys)
            for way, family in keys:
                nodes = local if way.local else (*local, places.bare)
                steers = self.reported.steers.get(objects.service_name(way), ())
                left += [f"{way.slug} {family.value} by way of {node}" for node in lacks(steers, family, nodes)]
            return left

        return self._settling.wait(behind, self.timeouts.ways_settled, time.monotonic())

    def _heard(self, acts: Acts) -> Reading:
        """Whether every stream that keeps its port is answered again."""
        self._count(acts)
        marks = [mark for marks in acts.watching.marks.values() for mark in tuple(marks)]
        left = acts.streams.silent(time.monotonic(), marks)
        return Reading(not left, ", ".join(left))

    def _count(self, acts: Acts) -> None:
        """Ask the pods which datagrams they have counted that nobody answers."""
        if not acts.streams.counts:
            return
        for name, pod in list(acts.watching.pods.items()):
            node, address = acts.watching.nodes.get(name, ""), pod.get("status", {}).get("podIP")
            if not is_ready(pod) or not address:
                continue
            if node not in self.clients.agents:
                self._uncounted[node] = (0.0, f"node {node} has no agent that could ask its pod")
                continue
            now = time.monotonic()
            if now - self._failed.get(node, 0.0) < ASKED_AGAIN:
                continue
            try:
                acts.streams.ask_arrived(self.clients.agent(node), Target(address, manifests.HTTP), node)
            except HarnessError as broken:
                self._failed[node] = now
                self._uncounted[node] = (self._counted.get(node, 0.0), broken.sentence)
            else:
                self._counted[node] = now
                self._uncounted.pop(node, None)

    # ------------------------------------------------------------------------------------------------ where to ask
    def _obstacles(self) -> dict[Asked, str]:
        """The ways that cannot be probed, and why."""
        found: dict[Asked, str] = {}
        for way in self.ways:
            name = objects.service_name(way)
            for family in self.families:
                if way.balancer is not None and family not in self.testbed.vips.get(name, {}):
                    found[way, family] = self.testbed.obstacles.get((name, family), f"its Service has no {family} VIP")
        return found

    @contextlib.contextmanager
    def _streams(self, keys: Sequence[Asked], places: Places) -> Iterator[Streams]:
        """A separate prober in the place of the client outside."""
        prober = self.clients.another(OUTSIDE.name, "continuity")
        try:
            prober.hello()
            clock = prober.clock()
            self.uncertainty = clock.uncertainty
            yield Streams(prober, self._targets(keys, places), clock)
        finally:
            prober.close()

    def _targets(self, keys: Sequence[Asked], places: Places) -> Targets:
        services, nodes = self.testbed.services, self.testbed.nodes
        ways: dict[Asked, Target] = {}
        for way, family in keys:
            name = objects.service_name(way)
            if way.balancer is not None:
                ways[way, family] = Target(self.testbed.vips[name][family], objects.PORT)
            else:
                node = places.endpoint if way.local else places.bare
                ways[way, family] = Target(nodes[node].internal[family], self._port(way, Protocol.TCP))
        # those of one Local service; when a pod has left another one's endpoints our watch knows
        local = [way for way in self.ways if way.local and way.balancer]
        probed = {way for way, _ in keys}
        local.sort(key=lambda way: (way not in probed, way.by not in CHECKED))
        checked = objects.service_name(local[0]) if local else objects.HEALTH
        health: dict[Family, dict[str, Target]] = {}
        if checked in services:
            port = services[checked]["spec"]["healthCheckNodePort"]
            for family in self.families:
                health[family] = {
                    node: Target(nodes[node].internal[family], port) for node in (places.endpoint, places.other)
                }
        listeners = {
            (node, family): target
            for (node, family), target in control_targets(self.testbed, astuple(places)).items()
            if family in self.families
        }
        control = {family: target for (node, family), target in listeners.items() if node == places.endpoint}
        others = {key: target for key, target in listeners.items() if key[0] != places.endpoint}
        sent = {
            (way, family, kind): Target(ways[way, family].host, self._port(way, kind.protocol))
            for way, family in keys
            for kind in self.sent.get(way, ())
        }
        own = {(name, f): host for name, node in nodes.items() for f, host in node.internal.items() if f in self.links}
        return Targets(ways, health, control, others, sent, own)

    def _port(self, way: Way, protocol: Protocol) -> int:
        """The port at which a way takes a protocol."""
        if way.balancer is not None:
            return objects.PORT
        return int(self.testbed.services[objects.service_name(way, protocol)]["spec"]["ports"][0]["nodePort"])

    def _own(self) -> frozenset[IPAddress]:
        """The addresses of the client, as the cluster sees them."""
        return self.clients.addresses(OUTSIDE.name)

    def _held(self, watching: Watching) -> frozenset[IPAddress]:
        """Every known address of a node, a pod or a client, our own pods' included."""
        pods = [pod.get("status", {}).get("podIPs") or () for pod in list(watching.pods.values())]
        return ingress.held(self.topology) | {parse_address(each["ip"]) for of in pods for each in of}

    def _of_balancer(self) -> frozenset[IPAddress]:
        reference = self.reported.reference
        return frozenset(map(parse_address, reference.addresses.values())) if reference else frozenset()

    def _addresses(self) -> dict[str, frozenset[IPAddress]]:
        """All addresses of each node as they are now: a first pod brings a bridge with an address."""

        def ask(node: str) -> list[str]:
            agent = Prober(f"the agent on {node}", self.clients.on_agent(node, vantages.IN_IMAGE))
            try:
                return list(agent.hello()["addresses"])
            finally:
                agent.close()

        known = {name: frozenset(node.addresses) for name, node in self.topology.nodes.items()}
        asked = sorted(self.clients.agents)
        with ThreadPoolExecutor(max_workers=12) as pool:
            for node, addresses in zip(asked, pool.map(ask, asked), strict=True):
                known[node] = known.get(node, frozenset()) | {parse_address(each) for each in addresses}
        return known


def steered(steers: Iterable[Steer], family: Family) -> tuple[str, ...] | None:
    """The nodes to which a load balancer sends requests by its last report; None without one."""
    own = [steer for steer in steers if steer.family in ("", family.value)]
    return own[-1].nodes if own else None


def lacks(steers: Iterable[Steer], family: Family, nodes: Iterable[str]) -> list[str]:
    """The nodes to which a load balancer sends no requests since its last report; empty without one."""
    used = steered(steers, family)
    return [] if used is None else sorted(set(nodes) - set(used))


def observe(context: Context) -> ContinuityEvidence:
    """The evidence of all phases."""
    run, testbed, findings = context.run, context.testbed, context.findings
    checks = context.asked(Continuity)
    planned, events = planned_events("continuity"), events_of(checks)
    order = [each.name for step in steps(planned[event.phase.value] for event in events) for each in step]
    events.sort(key=lambda event: order.index(event.phase.value))
    stop = context.stop()
    gathering = Gathering(
        testbed, context.clients, context.topology, run.settings.image, ways_of(checks), families_of(checks), events,
        ReferenceReports(findings.reference, testbed.namespace), stop, lambda: context.disruptor(stop), run.say,
        timeouts=context.timeouts.answering(testbed.patience.answering),
        bound=promise_of(
            findings.balancer.profiles, sure=findings.balancer.named, bound=run.settings.bound
        ).bound,
        fails_over=fail_over_of(findings.balancer.profiles, sure=findings.balancer.named),
        timed=lambda event: run.event("continuity", planned[event.phase.value]), sent=asked_streams(checks),
        links=asking_link(checks),
    )  # fmt: skip
    context.gathered = lambda: gathering.so_far()
    with run.phase("continuity", ", ".join(event.phase.value for event in events)):
        try:
            judge = Judge(gathering.run())
        except HarnessError as broken:
            judge = Judge(ContinuityEvidence(trouble=broken.sentence))
        except (ApiError, UnreachableError) as broken:
            judge = Judge(
                ContinuityEvidence(trouble=f"A request to the API server failed while traffic flowed: {broken}")
            )
    tell_off_link(context, judge.seen)
    return judge.seen


def tell_off_link(context: Context, seen: ContinuityEvidence) -> None:
    """Say that VIPs are on no link of the client, which only their questions can find."""
    for family in Family:
        asked = [each for (_, of), told in seen.owners.items() if of is family for each in told]
        if off_link(asked):
            feature = Feature(False, f"{OUTSIDE.name} reaches the {family} VIPs through a gateway, not on their link")
            context.findings.features[on_link(family)] = feature
            context.run.feature(on_link(family), feature)
