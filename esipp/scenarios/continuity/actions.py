"""The events of continuity: how each is done, proven and undone. They wait for what shows, not for time."""

import math
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from esipp.base.errors import HarnessError
from esipp.base.interrupt import Stop
from esipp.base.json import Json
from esipp.base.plural import counted
from esipp.base.waiting import Budget, Reading
from esipp.checks.continuity import CHECKED, PROXIES, Event, Phase, Way
from esipp.checks.disruption import PLACED, ROLLOUTS, Disruption
from esipp.checks.model import Balancer, Family, Protocol, TrafficPolicy
from esipp.checks.timing import FIELD_LIMIT, PROMPT
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.cluster.node_ports import ALLOCATED
from esipp.disruption.disruptor import Disruptor
from esipp.disruption.marks import is_ready
from esipp.judging.timeline import Sample
from esipp.judging.topology import IPAddress, parse_address
from esipp.scenarios.changing_pods import Watching
from esipp.scenarios.continuity import objects
from esipp.scenarios.continuity.evidence import Asked, Places
from esipp.scenarios.continuity.traffic import CALM, Streams
from esipp.scenarios.events import Steps
from esipp.scenarios.timeouts import LOOKS, TIMEOUTS, Timeouts
from esipp.testbed.manifests import GATE, gate
from esipp.testbed.testbed import Testbed

MOST_HELD = 40.0
"""The most seconds for which a node is kept without a pod. A breach of a longer bound is not detected."""

CLOSING_CHECKS = frozenset({Disruption.KUBE_PROXY, *ROLLOUTS})
"""Disruptions that end the service proxy's agent, and with it a node's health checks, for a while."""

FLAPS = 3
"""The number of times that a pod becomes unready and ready again."""


@dataclass
class Gates:
    """From ``start`` on, pods become ready as soon as their containers are; those in ``closed`` are left alone.

    ``trouble`` is why the last gate could not be opened; it is tried again.
    """

    cluster: Cluster
    namespace: str
    watching: Watching
    closed: set[str] = field(default_factory=set)
    trouble: str = ""
    _ended: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Begin, in a thread."""
        threading.Thread(target=self._open_all, name="gates", daemon=True).start()

    def stop(self) -> None:
        """Open none any more."""
        self._ended.set()

    def set(self, pod: str, is_open: bool) -> None:
        """Open or close one.

        Raises:
            ApiError, UnreachableError: of the API server.
        """
        self.cluster.patch(f"/api/v1/namespaces/{self.namespace}/pods/{pod}/status", gate(is_open))

    def _open_all(self) -> None:
        while not self._ended.wait(LOOKS):
            for name, pod in list(self.watching.pods.items()):
                if name in self.closed or "deletionTimestamp" in pod["metadata"] or _is_open(pod):
                    continue
                try:
                    self.set(name, True)
                    self.trouble = ""
                except (ApiError, UnreachableError) as broken:  # it may have gone; else it is tried again
                    self.trouble = str(broken)


def _is_open(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions") or []
    return any(each["type"] == GATE and each["status"] == "True" for each in conditions)


@dataclass
class Notes:
    """The notes of an action on itself."""

    causes: list[float] = field(default_factory=list)
    either: list[tuple[float, float]] = field(default_factory=list)
    happened: float | None = None
    ended: float | None = None
    returned: float | None = None
    words: str = ""
    cut: str = ""
    """The node that was cut off or taken away."""
    started: tuple[float, ...] = ()
    pods: set[str] = field(default_factory=set)
    """The pods that are to go, or to become unready."""

    def cause(self) -> float:
        """Something is done now."""
        now = time.monotonic()
        self.causes.append(now)
        return now


@dataclass
class Acts:
    """All events.

    Args:
        testbed: whose namespace and cluster it is.
        gates: makes pods ready and unready.
        streams: the traffic, which shows the effect of some actions.
        watching: our watch of the pods.
        places: the nodes by role.
        ways: the probed ways; ``others`` those with a Service for another protocol than TCP.
        bound: (N+1) x period of the load balancer, the longest of the probed ones, in seconds.
        silent: N x timeout + period, after which a load balancer leaves a node that does not answer, in seconds.
        own: the client's addresses; ``of_balancer``: those of the reference load balancer.
        stop: ends all waits.
        disruptor: makes disruptions; None if they are not allowed.
        timeouts: how long each wait may take.
        addresses: those of each node.
        steered: the nodes to which load balancers that report it now send requests.
        joined: the addresses of nodes that joined.
    """

    testbed: Testbed
    gates: Gates
    streams: Streams
    watching: Watching
    places: Places
    ways: list[Way]
    bound: float
    silent: float
    own: frozenset[IPAddress]
    of_balancer: frozenset[IPAddress]
    stop: Stop
    disruptor: Disruptor | None = None
    timeouts: Timeouts = TIMEOUTS
    others: Sequence[tuple[Way, Protocol]] = ()
    addresses: Mapping[str, frozenset[IPAddress]] = field(default_factory=dict)
    steered: Callable[[], Mapping[Asked, Collection[str]]] = dict
    joined: dict[str, frozenset[IPAddress]] = field(default_factory=dict)
    _pause: threading.Event = field(default_factory=threading.Event)

    def perform(self, event: Event, notes: Notes) -> None:
        """Do, prove and undo an event.

        Raises:
            HarnessError: it could not be done or proven.
            ApiError, UnreachableError: of the API server.
            StoppedError: the session ends.
        """
        notes.cause()
        left = self.silent + self.bound + CALM if event.refuses else 0.0  # for longer than a load balancer may need
        steps = self._steps.get(event.phase, Steps(prove=lambda _: self.hold(max(event.lasts, left))))
        steps = Steps(self._delete, self._see_deleted) if event.moves else steps
        if event.disruption is not None:
            self._disrupt(event.disruption, event, steps, notes)
            return
        steps.perform(notes)
        notes.ended = time.monotonic()

    @cached_property
    def _steps(self) -> Mapping[Phase, Steps[Notes]]:
        """How each event is done. The disruptor does and undoes disruptions, which stay in effect until proven."""
        return {
            Phase.ROLLING_UPDATE: Steps(self._roll, self._see_rolled),
            Phase.DELETED: Steps(self._delete, self._see_deleted),
            Phase.FLAPS: Steps(self._close, self._see_unready, self._open, self._see_ready, FLAPS),
            Phase.POLICY_CHANGES: Steps(self._change_policy, self._see_cluster, self._return_policy, self._see_local),
            Phase.DRAIN: Steps(prove=self._see_drained),
            Phase.KUBELET: Steps(prove=self._see_503),
            Phase.PROXY_MODE: Steps(prove=self._see_served),
            Phase.JOINED: Steps(prove=self._see_joined),
        }

    def hold(self, seconds: float) -> None:
        """Let traffic flow for a while, without any other action."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.stop.check()
            self._pause.wait(min(left, 0.25))

    def whole(self) -> Reading:
        """Whether every pod of the Deployment is there and ready, and none ends."""
        self.watching.check()
        pods = list(self.watching.pods.values())
        ready = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"] and is_ready(pod)]
        said = f"{len(ready)} of {len(pods)} pods are ready"
        why = self.gates.trouble if len(ready) < len(pods) else ""
        return Reading(len(pods) == len(ready) == 2, f"{said}; a gate could not be opened: {why}" if why else said)

    # ------------------------------------------------------------------------------------------------- without harm
    def _roll(self, notes: Notes) -> None:
        notes.pods = set(self.watching.pods)
        template = {"metadata": {"annotations": {objects.ROLLED: "1"}}}
        path = f"/apis/apps/v1/namespaces/{self.testbed.namespace}/deployments/{objects.DEPLOYMENT}"
        self.testbed.cluster.patch(path, {"spec": {"template": template}})
        notes.happened = time.monotonic()

    def _delete(self, notes: Notes) -> None:
        notes.pods = {self._pod_of(self.places.endpoint)}
        for pod in notes.pods:
            self.testbed.cluster.delete(f"/api/v1/namespaces/{self.testbed.namespace}/pods/{pod}")
        notes.happened = time.monotonic()

    def _see_rolled(self, notes: Notes) -> None:
        self._until(lambda: self._replaced(notes.pods), self.timeouts.pods_ready)
        notes.words = f"{', '.join(sorted(notes.pods))} replaced by {', '.join(sorted(self.watching.pods))}"

    def _see_deleted(self, notes: Notes) -> None:
        (pod,) = notes.pods
        self._until(lambda: self._replaced(notes.pods), self.timeouts.pods_ready)
        notes.words = f"{pod} on node {self.places.endpoint} was deleted, and its replacement is ready there"

    def _close(self, notes: Notes) -> None:
        notes.pods = notes.pods or {self._pod_of(self.places.endpoint)}
        notes.cause()
        for pod in notes.pods:
            self._gate(pod, False)

    def _see_unready(self, notes: Notes) -> None:
        (pod,) = notes.pods
        self._until(lambda: self._got_about(pod, False), self.timeouts.health_follows)
        if notes.happened is None:  # once for as long as a balancer needs to steer away; then shorter than that
            notes.happened = time.monotonic()
            self.hold(self.bound + CALM)
        notes.words = f"{pod} on node {self.places.endpoint} was unready {FLAPS} times, by its node's health check"

    def _open(self, notes: Notes) -> None:
        notes.cause()
        for pod in notes.pods:
            self._gate(pod, True)

    def _see_ready(self, notes: Notes) -> None:
        (pod,) = notes.pods
        self._until(lambda: self._got_about(pod, True), self.timeouts.health_follows)
        self.hold(CALM)

    @property
    def _local(self) -> list[str]:
        """The Services whose policy is Local."""
        others = [objects.service_name(way, protocol) for way, protocol in self.others if way.local]
        own = [objects.service_name(way) for way in self.ways if way.local]
        return [*own, *others, *({objects.HEALTH} & set(self.testbed.services))]

    def _change_policy(self, notes: Notes) -> None:
        notes.either.append((notes.cause(), math.inf))
        for name in self._local:
            self._patch(name, {"externalTrafficPolicy": TrafficPolicy.CLUSTER.value})
        notes.happened = time.monotonic()

    def _see_cluster(self, _: Notes) -> None:
        self._until(lambda: self._health(lambda said: said not in ("200", "503"), "gone"), self.timeouts.health_follows)
        # One that loses the nodes by this may take its whole bound for it, and is then to be seen without them for
        # longer than that.
        self.hold(2 * self.bound + CALM)

    def _return_policy(self, notes: Notes) -> None:
        """Whatever broke it off: what is done next is about Local Services."""
        began, _ = notes.either.pop()
        notes.either.append((began, notes.cause() + FIELD_LIMIT))
        for name in self._local:
            self._return(name, self.testbed.services[name]["spec"].get("healthCheckNodePort"))
        notes.returned = time.monotonic()

    def _see_local(self, notes: Notes) -> None:
        assert notes.returned is not None
        self._until(lambda: self._health(lambda said: said == "200", "200 again"), self.timeouts.health_follows)
        stable = self.stop.converge(self._sources, self.timeouts.sources_stable)
        if stable.held:
            began, latest = notes.either.pop()
            notes.either.append((began, max(latest - FIELD_LIMIT, time.monotonic() - CALM / 2)))
        # A prompt return shows in answers that are later than its bound.
        self.hold(max(self.bound, notes.returned + PROMPT + CALM - time.monotonic()))
        took = f"{stable.seconds:.1f} s after" if stable.held else f"not within {FIELD_LIMIT:.0f} s after"
        services = counted(len(self._local), "Service", "Services")
        notes.words = f"{services} changed to Cluster and back to Local; sources stable {took} the health checks"

    # ----------------------------------------------------------------------------------------------------- with harm
    def _disrupt(self, what: Disruption, event: Event, steps: Steps[Notes], notes: Notes) -> None:
        phase = event.phase
        if self.disruptor is None:
            raise HarnessError(f"The disruption {phase} is not allowed.", "--allow-disruptive allows it.")
        node = "" if what in PLACED else self.places.of(event.node)
        if what is Disruption.SPEAKER:
            node = self._announcing()

        def meanwhile() -> None:
            notes.happened = notes.cause()
            steps.do(notes)
            steps.prove(notes)
            notes.cause()

        before, began = self._answering(), time.monotonic()
        selector = objects.SELECTOR if phase is Phase.DRAIN else ""
        not_ready = what is Disruption.KUBELET
        proof = self.disruptor.perform(
            what, node, meanwhile, selector=selector, not_ready=not_ready, before_joining=self._dial_joined
        )
        notes.happened, notes.ended, notes.words = proof.happened, proof.undone, proof.words
        if what in CLOSING_CHECKS:
            notes.words = "; ".join([notes.words, *self._unhealthy(began)])
        notes.cut = proof.node if event.cuts else ""
        notes.started = proof.started
        if event.frees_vip:  # the node takes its VIPs back, and breaks what is open once more
            self.stop.converge(lambda: self._back(before), self.timeouts.vips_back)

    def _see_drained(self, _: Notes) -> None:
        self._until(self._drained, self.timeouts.evicted)
        self.hold(CALM)

    def _see_503(self, _: Notes) -> None:
        node = self.places.endpoint
        self._until(lambda: self._health(lambda said: said == "503", "503", only=node), self.timeouts.health_follows)
        self.hold(self.bound + CALM)

    def _see_served(self, _: Notes) -> None:
        """Wait until all ways are answered again; a way that is not has had more time than it may take."""

        def look() -> Reading:
            left = self.streams.unsettled(time.monotonic(), list(self.streams.streams))
            return Reading(not left, ", ".join(left))

        self.stop.converge(look, self.timeouts.change_shown)
        self.hold(CALM)

    def _dial_joined(self, name: str, addresses: Mapping[Family, str]) -> None:
        self.joined[name] = frozenset(map(parse_address, addresses.values()))
        self.streams.dial_joined(addresses)

    def _see_joined(self, notes: Notes) -> None:
        """Wait until the node serves and load balancers use it; then delete its Node object, and wait until they do
        not.

        What does not come about in time has failed its checks by then.
        """
        self.stop.converge(self._joined_serves, self.timeouts.joined_serves)
        self.stop.converge(lambda: self._used(True), self.timeouts.health_follows)
        self.hold(self.bound + CALM)
        self.streams.leave_joined()
        for name in self.joined:
            notes.cause()
            self.testbed.cluster.delete(f"/api/v1/nodes/{name}")
        self.stop.converge(lambda: self._used(False), self.timeouts.health_follows)
        self.hold(self.bound + CALM)

    def _joined_serves(self) -> Reading:
        """Whether nodePorts of Cluster Services answer at the node that joined, and it says 503 of Local ones."""
        now = time.monotonic()
        left = list[str]()
        for asked, stream in self.streams.joined.items():
            way, _ = asked
            looked, wanted = (self.streams.joined_health.get(asked), "503") if way.local else (stream, "answered")
            recent = looked.view(now - CALM, now) if looked else []
            if looked and not (recent and all(each.outcome == wanted for each in recent)):
                left.append(stream.name)
        return Reading(not left, ", ".join(left))

    def _used(self, wanted: bool) -> Reading:
        """Whether the load balancers that report it use the nodes that joined for Cluster Services, or do not."""
        steered = {asked: nodes for asked, nodes in self.steered().items() if asked in self.streams.streams}
        left = [
            f"{way.slug} {family.value}"
            for (way, family), nodes in steered.items()
            if way.by in CHECKED and not way.local and any((name in nodes) is not wanted for name in self.joined)
        ]
        return Reading(not left, ", ".join(left))

    def _unhealthy(self, since: float) -> list[str]:
        """For how long the health check of each node did not say 200 since then, at most; nothing if it always did."""
        found, now = [], time.monotonic()
        for family, nodes in self.streams.health.items():
            for node, stream in nodes.items():
                seconds, outcomes = _longest_not_200(stream.view(since, now))
                if outcomes:
                    said = f"health check of {node} over {family}: not 200 for {seconds:.1f} s"
                    found.append(f"{said} ({', '.join(sorted(outcomes))})")
        return found

    def _announcing(self) -> str:
        """The node through which the cluster's own load balancer reaches the pods; its speaker announces the VIP."""
        return next((node for (way, _), node in self._answering().items() if way.local), self.places.endpoint)

    def _answering(self) -> dict[Asked, str]:
        """The nodes to which the cluster's own load balancer now sends connections, by way and family.

        A node without pods rewrites the source of a Cluster Service; it is known by that address.
        """
        found = dict[Asked, str]()
        for way, family in self.streams.streams:
            sample = self.streams.latest((way, family)) if way.by == Balancer.DEFAULT.value else None
            if sample is not None:
                node = sample.node if way.local else self._owner(sample.source)
                found |= {(way, family): node} if node else {}
        return found

    def _owner(self, source: str) -> str:
        address = parse_address(source) if source else None
        return next((node for node, own in self.addresses.items() if address in own), "")

    def _back(self, before: Mapping[Asked, str]) -> Reading:
        now = self._answering()
        away = [
            f"{way.slug} {family.value} by {now.get((way, family)) or 'a node that is not known'}"
            for (way, family), node in before.items()
            if now.get((way, family)) != node
        ]
        return Reading(not away, ", ".join(away))

    def _drained(self) -> Reading:
        left = [name for name in list(self.watching.pods) if self.watching.nodes.get(name) == self.places.endpoint]
        return Reading(not left, f"remaining: {', '.join(left)}" if left else "none remains")

    # ---------------------------------------------------------------------------------------------------- for both
    def _until(self, look: Callable[[], Reading], budget: Budget) -> None:
        waited = self.stop.converge(look, budget)
        if not waited.held:
            raise HarnessError(
                f"Timed out after {budget.seconds:.0f} s waiting for {budget.name}: {waited.state}.",
                "check the load of this machine, or give more time by --timeout-factor.",
            )

    def _replaced(self, before: set[str]) -> Reading:
        left = sorted(before & set(self.watching.pods))
        return Reading(False, f"{left[0]} still exists") if left else self.whole()

    def _pod_of(self, node: str) -> str:
        found = [name for name in list(self.watching.pods) if self.watching.nodes.get(name) == node]
        if not found:
            raise HarnessError(f"Node {node} has no pod of the Deployment.", "see 'kubectl get events -A'.")
        return found[0]

    def _gate(self, pod: str, is_open: bool) -> None:
        if not is_open:
            self.gates.closed.add(pod)
        else:
            self.gates.closed.discard(pod)
        self.gates.set(pod, is_open)

    def _got_about(self, pod: str, ready: bool) -> Reading:
        """Whether the pod's readiness has got about: to our watch, and to its node's health check."""
        item = self.watching.pods.get(pod)
        if item is None or is_ready(item) is not ready:
            return Reading(False, f"{pod} is not {'ready' if ready else 'unready'} yet")
        wanted = "200" if ready else "503"
        return self._health(lambda said: said == wanted, wanted, only=self.places.endpoint)

    def _health(self, right: Callable[[str], bool], wanted: str, only: str = "") -> Reading:
        """Whether the last answers of the nodes' health checks are right; they are if none is probed."""
        now = time.monotonic()
        said: dict[tuple[str, Family], str] = {}
        for family, nodes in self.streams.health.items():
            for node, stream in nodes.items():
                if only in ("", node):
                    recent = stream.view(now - CALM, now)
                    said[node, family] = recent[-1].outcome if recent else "nothing"
        wrong = [f"{node} {family.value}: {each}" for (node, family), each in said.items() if not right(each)]
        return Reading(not wrong, f"health checks are not {wanted}: {', '.join(wrong)}" if wrong else wanted)

    def _sources(self) -> Reading:
        """Whether all that was answered lately by way of Local services shows the source that is right there, and at
        the nodePort its own node's pods.
        """
        now = time.monotonic()
        for (way, _), stream in self.streams.streams.items():
            right = self.of_balancer if way.by in PROXIES else self.own
            if way.local and right:
                for sample in stream.view(now - CALM, now):
                    if sample.answered and parse_address(sample.source) not in right:
                        return Reading(False, f"{stream.name} shows {sample.source}")
                    # a data plane that keeps the source under Cluster tells its policies by the node alone
                    if sample.answered and way.balancer is None and sample.node != self.places.endpoint:
                        return Reading(False, f"node {sample.node} answers {stream.name}")
        return Reading(True, "all sources are right")

    def _return(self, name: str, port: int | None) -> None:
        """Make a Service Local again, with its previous health-check node port, which is probed all the time.

        If another Service has that port by now, the Service gets any other one, which is probed from then on.
        """
        local = {"externalTrafficPolicy": TrafficPolicy.LOCAL.value}
        if port:
            try:
                self._patch(name, {**local, "healthCheckNodePort": port})
            except ApiError as refused:
                if ALLOCATED not in refused.message:
                    raise
            else:
                return
        made = self._patch(name, local)
        new = made["spec"].get("healthCheckNodePort")
        if port and new:
            self.streams.redirect_health(port, new)

    def _patch(self, name: str, spec: Json) -> Json:
        return self.testbed.cluster.patch(
            f"/api/v1/namespaces/{self.testbed.namespace}/services/{name}", {"spec": spec}, "merge-patch"
        )


def _longest_not_200(samples: Sequence[Sample]) -> tuple[float, set[str]]:
    """The longest time without the answer 200, in seconds, and all other outcomes."""
    longest, first, outcomes = 0.0, math.inf, set[str]()
    for sample in samples:
        if sample.outcome == "200":
            first = math.inf
            continue
        first = min(first, sample.started)
        outcomes.add(sample.outcome)
        longest = max(longest, sample.ended - first)
    return longest, outcomes
