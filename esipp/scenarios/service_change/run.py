"""The run of this scenario: every event on Services of its own, side by side, each seen by every stream."""

import copy
import ipaddress
import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, groupby

from esipp.base.errors import HarnessError
from esipp.base.interrupt import Stop
from esipp.base.json import Json
from esipp.base.labels import FINALIZER, UNSERVED_CLASS
from esipp.base.waiting import Reading
from esipp.checks.check import Feature
from esipp.checks.disruption import Disruption, Proof
from esipp.checks.model import OUTSIDE, Family, Protocol, Role
from esipp.checks.profile import PROXY_PORT
from esipp.checks.stream import Reuse, StreamKind
from esipp.checks.timing import FIELD_LIMIT, PROMPT
from esipp.cluster.client import ApiError, Cluster
from esipp.cluster.node_ports import ALLOCATED, taken
from esipp.cluster.pods import is_ready, say_pod
from esipp.disruption.addresses import another
from esipp.disruption.together import Together
from esipp.judging.timeline import Stream
from esipp.judging.topology import IPAddress, by_family, parse_address
from esipp.probing.prober import FIRST_PORT, Pace, Target, Traffic
from esipp.scenarios.changing_pods import SERVICE_LABEL, Versions, slices_path, unchanged, versions_of
from esipp.scenarios.context import Context, kept, perform, spare
from esipp.scenarios.events import Following, control_targets, last_answers
from esipp.scenarios.service_change.evidence import (
    STAYS,
    Asked,
    InStage,
    ServiceChangeEvidence,
    Stage,
    Stages,
    gone,
    shows,
    steady,
    wanted,
)
from esipp.scenarios.service_change.objects import (
    LATER_PORT,
    PORT,
    SECOND_TARGETS,
    events_of,
    objects,
    policy,
    selector,
    slices,
)
from esipp.scenarios.service_change.subject import (
    AFFINITY_SECONDS,
    BESIDE,
    INSIDE,
    MINUTE,
    NAMED,
    At,
    Change,
    Do,
    Event,
    Health,
    Pods,
    ServiceChange,
    ServiceChangeCheck,
    again,
)
from esipp.scenarios.timeouts import TIMEOUTS, Timeouts
from esipp.testbed import manifests, network_policies
from esipp.testbed.clients import Clients
from esipp.testbed.manifests import HTTP
from esipp.testbed.source_ranges import SourceRanges
from esipp.testbed.testbed import Testbed

CONTROL_PACE = Pace(0.5, 2.5)
HEALTH_PACE = Pace(0.5, 1.0)

KEPT = ("type", "clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "ports")
"""What a Service has in common with the one whose addresses and ports it gets."""

TAKING_BACK = (Do.CREATE_AGAIN, Do.BOTH_FAMILIES)
"""Changes that ask for ports or ClusterIPs of before."""

OF_OTHERS = ("192.0.2.0/24", "2001:db8::/32")
MANY = tuple(f"198.18.{number}.0/24" for number in range(100))
"""Ranges that are reserved for documentation and for benchmarks."""

AGAIN = PROMPT + STAYS
"""Seconds that a stream gets in a stage if it did not show an earlier one like it in the whole time."""

HOLDS = STAYS + 0.5
"""Seconds for which what is right must last before the next stage."""

SILENT = HOLDS + 3.0
"""The same for silence: until its probe ends after 3 s, a SYN is sent again every second, and may be answered in the
next stage. With half of that, two silent probes were left of a stage (kind-cilium under load, 2026-11-28)."""


LOOKED_AT_EVERY = 2.0
"""Seconds between two looks at the EndpointSlices, until they change, while streams do not show a stage."""

ASKED_EVERY = 1.0
"""Seconds between two questions to the pods for their counts of one-way streams, while a stage waits for these."""

BEATS = 16
"""How many different periods the streams of a kind have, if they vary."""


def off_beat(kind: StreamKind, name: str) -> StreamKind:
    """The kind of a stream, with a period of its own.

    Linux sends a client one ICMP error a second (``icmp_ratelimit``). Of streams with the same period, always the same
    one got it: a stream had one request refused in 27 s, and two others of that node 24 (kind-iptables, 2026-11-27).
    """
    step = zlib.crc32(name.encode()) % BEATS
    return replace(kind, every=kind.every * (1 - kind.varies * step / (BEATS - 1)))


@dataclass
class Driver:
    """One event: its Services, its streams and its stages.

    Args:
        testbed: has the Service of the first stage.
        event: the event.
        asked: the streams that checks ask for.
        traffic: the streams of each client.
        stop: ends all waits.
        pods: the manifests of the pods, by name.
        admitted: the CIDRs of the nodes and of the client outside.
        outside: the addresses of the client outside.
        disrupt: performs a disruption, as ``Together`` does; None if the event has none.
        first_port: the first source port of the streams. No other event has the same: all share their pods, and Cilium
            takes two connections from one port to one pod for the same (cilium/cilium#11810).
        timeouts: how long each wait may take.
        seen: the evidence.
    """

    testbed: Testbed
    event: Event
    asked: list[tuple[At, StreamKind, Family]]
    traffic: Mapping[str, Traffic]
    stop: Stop
    pods: Mapping[str, Json] = field(default_factory=dict)
    admitted: Sequence[str] = ()
    outside: Collection[IPAddress] = ()
    timeouts: Timeouts = TIMEOUTS
    disrupt: Callable[[Disruption, str, Callable[[float], object]], Proof] | None = None
    first_port: int = FIRST_PORT
    seen: Stages = field(default_factory=Stages)
    enforced: Feature | None = None
    """Whether NetworkPolicies have an effect here; None if that was not observed."""
    _name: str = ""
    _held: str = ""
    _written: Versions = frozenset()
    """The versions of the EndpointSlices before the last change; empty if they were not read."""
    _awaited: bool = False
    """Whether a controller has to change them, and was not seen to have done so."""
    _unwritten: float | None = None
    """Until when they were seen unchanged in this stage; None if they were not."""
    _shown: dict[Asked, StreamKind] = field(default_factory=dict)
    """The streams that stages wait for: those that go on."""
    _counted: float = 0.0
    """Until when the counts of one-way streams are known: when pods were last asked for them, and all said."""
    _asked: float = 0.0
    """When pods were last asked for them, whether or not they said."""

    def __post_init__(self) -> None:
        self._following = Following(self.stop, later=AGAIN)

    def perform(self) -> None:
        """Go through all stages.

        Raises:
            ApiError: the API server refused a change.
            UnreachableError: it did not answer.
            HarnessError: a prober is gone.
            StoppedError: the session ends.
        """
        self._name = self.event.service
        first, *others = self.event.changes
        now = time.monotonic()
        self.seen.stages.append(self._seen(first, now, now))
        try:
            if self.event.own_slices:
                self._write_slices(self.event.service, first.names)
            self._start()
            self._wait(first)
            self._start(followed=True)
            self._wait(first)  # for those that have just begun
            self._written = self._slices_now(first)
            cause = time.monotonic()
            for (what, node), alike in groupby(others, key=lambda change: (change.disruption, change.node)):
                changes = list(alike)
                cause = self._disrupted(changes, what, node) if what else self._stages(changes, cause)
            self.seen.end = end = time.monotonic()
            last = max((kind.timeout for _, kind, _ in self.asked), default=0.0) + 0.1
            last_answers(self.stop, end, last, self.timeouts.last_answers, self.seen.streams.values())
            self._ask_pods()
        finally:
            self.seen.end = self.seen.end or time.monotonic()
            for traffic in self.traffic.values():
                traffic.stop(self.seen.streams.values())
            self._release()
        self._end_pods()

    # --------------------------------------------------------------------------------------------------- the changes
    def _stages(self, changes: Iterable[Change], cause: float) -> float:
        """Stages one after the other; when the last one ended. They end early where NetworkPolicies have no effect."""
        for change in changes:
            if self.enforced and not self.enforced.present:
                break
            self._stage(change, cause)
            cause = time.monotonic()
        return cause

    def _stage(self, change: Change, cause: float) -> None:
        refused = ""
        try:
            self._does[change.do](change)
        except ApiError as broken:
            if change.do not in TAKING_BACK or ALLOCATED not in str(broken):
                raise
            if rival := self._rival():
                raise HarnessError(f"The API server refused the Service: {rival}.", "run the check again.") from broken
            refused = str(broken)
        self.seen.stages.append(self._seen(change, cause, time.monotonic(), refused))
        self._start()
        self._awaited, self._unwritten = self._must_be_written(change), None
        missing = self._wait(change) if not refused else []
        self._awaited = self._awaited and bool(missing)
        if missing:
            self._look_at_slices()
            self.seen.stages[-1] = replace(self.seen.stages[-1], unwritten=self._unwritten)
        self._written = self._slices_now(change)
        if change.do is Do.POLICY_FOR_OTHERS:
            self._wait_for_silence()
            self.enforced = self._observe_policy()

    def _must_be_written(self, change: Change) -> bool:
        """Whether a controller has EndpointSlices to write since this change, or still since the one before."""
        before = self.event.changes[len(self.seen.stages) - 2]
        alters = change.names != before.names or change.do in (Do.OTHER_TARGET, Do.FIRST_TARGET)
        able = not change.disruption and not self.event.own_slices
        return (alters or self._awaited) and able and change.is_there and before.is_there

    def _look_at_slices(self) -> None:
        """See whether a controller has written the EndpointSlices that nodes wait for."""
        now = time.monotonic()
        self._awaited = self._awaited and unchanged(*self._of_service, self._written)
        self._unwritten = now if self._awaited else self._unwritten

    def _slices_now(self, change: Change) -> Versions:
        """The versions of the Service's EndpointSlices; none while something is disrupted."""
        return frozenset() if change.disruption else versions_of(*self._of_service)

    @property
    def _of_service(self) -> tuple[Cluster, str, str]:
        return self.testbed.cluster, self.testbed.namespace, self._name

    def _seen(self, change: Change, cause: float, accepted: float, refused: str = "") -> Stage:
        """The stage, as evidence."""
        stuck, sick = (frozenset(each.value for each in those) for those in (change.stuck, change.sick))
        return Stage(
            change.words, cause, accepted, change.names, change.is_there, change.closed, change.sticky, change.brief,
            stuck, sick, change.within, refused, self.testbed.agents.get(self.testbed.roles[Role.ENDPOINT_NODE], ""),
            change.other.names, frozenset(each.value for each in change.away),
        )  # fmt: skip

    def _rival(self) -> str:
        """The Service of the cluster that has got a nodePort or a ClusterIP of this one; empty if none has."""
        services = self.testbed.cluster.list("/api/v1/services")
        own = (self.testbed.namespace, self._name)
        return taken(services, _node_ports(self._spec).values(), but=(own,), addresses=self._spec["clusterIPs"])

    def _disrupted(self, changes: Iterable[Change], what: Disruption, node: Role) -> float:
        """Stages during which something is disrupted; when that began to be undone, which the next stage begins with.

        Raises:
            HarnessError: it could not be done, proven or undone.
        """
        if self.disrupt is None:
            raise HarnessError(f"The disruption {what} is not allowed.", "--allow-disruptive allows it.")
        return self.disrupt(what, self.testbed.roles[node], lambda began: self._stages(changes, began)).ending

    @property
    def _does(self) -> Mapping[Do, Callable[[Change], object]]:
        return {
            Do.SELECT: self._rewrite_slices if self.event.own_slices else self._update,
            Do.STAY: _nothing,
            Do.STAY_GONE: _nothing,
            Do.KILL: self._kill,
            Do.START: self._start_again,
            Do.TERMINATE: self._terminate,
            Do.DELETE: self._delete,
            Do.HOLD: self._hold,
            Do.RELEASE: lambda _: self._release(),
            Do.CREATE_AGAIN: lambda change: self._create(self._name, change),
            Do.TAKE_OVER: self._take_over,
            Do.TO_CLUSTER_IP: partial(
                self._update, type="ClusterIP", loadBalancerClass=None, externalTrafficPolicy=None
            ),
            Do.TO_NODE_PORT: partial(self._update, type="NodePort", loadBalancerClass=None, ports=self._spec["ports"]),
            Do.TO_LOAD_BALANCER: partial(
                self._update, type="LoadBalancer", loadBalancerClass=UNSERVED_CLASS, ports=self._spec["ports"]
            ),
            Do.REUSE: self._reuse,
            Do.UNNAME: partial(self._rewrite_slices, named=False),
            Do.NAME: self._rewrite_slices,
            Do.NAMESAKE: self._add_namesake,
            Do.NAMESAKE_LEAVES: self._empty_namesake,
            Do.ONE_FAMILY: partial(self._update, ipFamilyPolicy="SingleStack"),
            Do.BOTH_FAMILIES: partial(
                self._update,
                ipFamilyPolicy="RequireDualStack",
                ipFamilies=self._spec.get("ipFamilies"),
                clusterIPs=self._spec.get("clusterIPs"),
            ),
            Do.SHARE_PORT: self._share_port,
            Do.NO_EXTERNAL_IP: partial(self._update, externalIPs=None),
            Do.EXTERNAL_IP_AGAIN: partial(self._update, externalIPs=self._spec.get("externalIPs")),
            Do.OTHER_PORT: partial(self._update, ports=[{**port, "port": LATER_PORT} for port in self._spec["ports"]]),
            Do.WITHOUT_UDP: partial(
                self._update, ports=[port for port in self._spec["ports"] if port["protocol"] != Protocol.UDP.value]
            ),
            Do.OTHER_TARGET: partial(self._update, ports=list(map(_at_second_target, self._spec["ports"]))),
            Do.FIRST_TARGET: partial(self._update, ports=self._spec["ports"]),
            Do.INTERNAL_LOCAL: partial(self._update, internalTrafficPolicy="Local"),
            Do.INTERNAL_CLUSTER: partial(self._update, internalTrafficPolicy="Cluster"),
            Do.AFFINITY_ON: partial(self._update, sessionAffinity="ClientIP"),
            Do.AFFINITY_BRIEF: partial(
                self._update,
                sessionAffinity="ClientIP",
                sessionAffinityConfig={"clientIP": {"timeoutSeconds": AFFINITY_SECONDS}},
            ),
            Do.AFFINITY_MINUTE: partial(
                self._update,
                sessionAffinity="ClientIP",
                sessionAffinityConfig={"clientIP": {"timeoutSeconds": MINUTE}},
            ),
            Do.AFFINITY_OFF: partial(self._update, sessionAffinity="None", sessionAffinityConfig=None),
            Do.ADMIT_OTHERS: partial(self._update, loadBalancerSourceRanges=list(OF_OTHERS)),
            Do.ADMIT_CLIENT: partial(self._update, loadBalancerSourceRanges=[*MANY, *self.admitted]),
            Do.ADMIT_ALL: partial(self._update, loadBalancerSourceRanges=self._spec.get("loadBalancerSourceRanges")),
            Do.PREFER_CLOSE: partial(self._update, trafficDistribution="PreferClose"),
            Do.PREFER_NONE: partial(self._update, trafficDistribution=None),
            Do.POLICY_FOR_OTHERS: self._shut,
            Do.POLICY_FOR_CLIENT: lambda _: self._open("client", _blocks((*MANY, *_cidrs(self.outside)))),
            Do.POLICY_FOR_PODS: lambda _: self._open("pods", _labelled(INSIDE.name, BESIDE.name)),
        }

    def _path(self, name: str = "", kind: str = "services") -> str:
        return f"/api/v1/namespaces/{self.testbed.namespace}/{kind}" + (f"/{name}" if name else "")

    def _update(self, change: Change, **fields: object) -> None:
        body = {"spec": {"selector": selector(self.testbed.run, change.pods), **fields}}
        self.testbed.cluster.patch(self._path(self._name), body, "merge-patch")

    def _share_port(self, change: Change) -> None:
        number = _node_ports(self._spec)[Protocol.TCP.value]
        self._update(change, ports=[{**port, "nodePort": number} for port in self._spec["ports"]])

    def _kill(self, _: Change) -> None:
        for name in self.event.changes[0].names:
            self.testbed.cluster.delete(self._path(name, "pods"), grace=0)

    def _terminate(self, change: Change) -> None:
        for name in change.names:
            self.testbed.cluster.delete(self._path(name, "pods"))

    def _end_pods(self) -> None:
        """Kill the pods that still terminate, so that nobody has to wait for them."""
        for change in self.event.changes:
            for name in change.names if change.do is Do.TERMINATE else ():
                self.testbed.cluster.delete(self._path(name, "pods"), grace=0)

    def _start_again(self, change: Change) -> None:
        """Create a pod in place of each killed one, and wait until it is ready."""
        for killed in change.pods.names:
            pod = copy.deepcopy(self.pods[killed])
            pod["metadata"]["name"] = pod["metadata"]["labels"][manifests.POD_LABEL] = again(killed)
            self.testbed.cluster.create(self._path(kind="pods"), pod)

        def look() -> Reading:
            found = [self.testbed.cluster.request("GET", self._path(name, "pods")) for name in change.names]
            return Reading(all(map(is_ready, found)), "; ".join(map(say_pod, found)))

        held = self.stop.converge(look, self.timeouts.pods_ready)
        if not held.held:
            raise HarnessError(
                f"The pod in place of the killed one is not ready: {held}.", "see 'kubectl get events -A'."
            )

    def _delete(self, _: Change) -> None:
        self.testbed.cluster.delete(self._path(self._name))

    def _hold(self, change: Change) -> None:
        self._held = self._path(self._name)
        self.testbed.cluster.patch(self._held, {"metadata": {"finalizers": [FINALIZER]}}, "merge-patch")
        self._delete(change)

    def _release(self) -> None:
        """Remove the finalizer, as a controller does once it has cleaned up."""
        held, self._held = self._held, ""
        if held:
            self.testbed.cluster.patch(held, {"metadata": {"finalizers": None}}, "merge-patch")

    def _create(self, name: str, change: Change) -> None:
        """Create a Service with the addresses and ports of the first one."""
        first, pods = self.testbed.services[self.event.service], selector(self.testbed.run, change.pods)
        spec = {key: first["spec"][key] for key in KEPT if key in first["spec"]}
        spec["selector"] = {key: value for key, value in pods.items() if value}
        metadata = {"name": name, "labels": first["metadata"]["labels"]}
        made = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
        self.testbed.cluster.create(self._path(), made)
        self._name = name

    def _take_over(self, change: Change) -> None:
        self._delete(change)
        self._create(f"heir-of-{self._name}", change)

    @property
    def _namesake(self) -> str:
        """The other Service: its name is the beginning of this one's."""
        return self.event.service.removesuffix(NAMED)

    def _add_namesake(self, change: Change) -> None:
        ports = [{key: port[key] for key in ("name", "protocol", "port", "targetPort")} for port in self._spec["ports"]]
        pods = {key: value for key, value in selector(self.testbed.run, change.pods).items() if value}
        labels = self.testbed.services[self.event.service]["metadata"]["labels"]
        made = {"metadata": {"name": self._namesake, "labels": labels}, "spec": {"selector": pods, "ports": ports}}
        self.testbed.cluster.create(self._path(), {"apiVersion": "v1", "kind": "Service", **made})
        self._prove_namesake(change.names, change.names)

    def _empty_namesake(self, change: Change) -> None:
        body = {"spec": {"selector": selector(self.testbed.run, Pods.NONE)}}
        self.testbed.cluster.patch(self._path(self._namesake), body, "merge-patch")
        self._prove_namesake(change.names, ())

    def _prove_namesake(self, own: Collection[str], others: Collection[str]) -> None:
        """Wait until the EndpointSlices of both Services have these pods.

        Raises:
            HarnessError: they do not.
        """

        def look() -> Reading:
            found = [self._endpoints(name) for name in (self._name, self._namesake)]
            return Reading(found == [{*own}, {*others}], f"the EndpointSlices have {' and '.join(map(str, found))}")

        held = self.stop.converge(look, self.timeouts.slices_written)
        held.required("The EndpointSlices do not follow the Services", "kubectl get endpointslices -A")

    def _endpoints(self, service: str) -> set[str]:
        """The pods in the EndpointSlices of a Service."""
        own = self.testbed.cluster.list(self._slices_path(), labelSelector=f"{SERVICE_LABEL}={service}")
        return {each["targetRef"]["name"] for found in own for each in found.get("endpoints") or []}

    # --------------------------------------------------------------------------------------------- own EndpointSlices
    def _slices(self, service: str, pods: Iterable[str], *, named: bool = True) -> list[Json]:
        """The EndpointSlices of a Service without a selector, with these pods."""
        spec = self.testbed.services[service]["spec"]
        return slices(service, spec, self.testbed.run, [self.testbed.pods[name] for name in pods], named=named)

    def _write_slices(self, service: str, pods: Iterable[str]) -> None:
        for made in self._slices(service, pods):
            self.testbed.cluster.create(self._slices_path(), made)

    def _reuse(self, change: Change) -> None:
        """Give another Service the address of a former endpoint, as a pod has it that gets a former pod's address."""
        self._write_slices(self.event.another, change.other.names)

    def _rewrite_slices(self, change: Change, *, named: bool = True) -> None:
        for made in self._slices(self.event.service, change.names, named=named):
            endpoints = {"endpoints": made["endpoints"]}
            self.testbed.cluster.patch(self._slices_path(made["metadata"]["name"]), endpoints, "merge-patch")

    def _slices_path(self, name: str = "") -> str:
        path = slices_path(self.testbed.namespace)
        return f"{path}/{name}" if name else path

    # ------------------------------------------------------------------------------------------ the NetworkPolicies
    def _open(self, name: str, peers: list[Json]) -> None:
        """Create a NetworkPolicy for the pod. It admits these peers; earlier policies still admit theirs."""
        collection = network_policies.collection_of(self.testbed.namespace)
        self.testbed.cluster.create(collection, policy(self.event, self.testbed.run, name, peers))

    def _shut(self, _: Change) -> None:
        """Create the first one, after which no client of ours is admitted."""
        for (at, _name, family), stream in self.seen.streams.items():
            last = next((each.source for each in reversed(stream.samples) if each.answered), "")
            if at.is_vip and last and parse_address(last) not in self.outside:
                why = f"the pod sees {last} at the VIP and not the client's address, so no NetworkPolicy can admit it"
                self.seen.obstacles[at, family] = why
        self._open("others", _blocks(OF_OTHERS))

    def _reached(self, now: float) -> list[str]:
        """The families in which a pod still reaches the serving one, at its own address."""
        since = max(self.seen.stages[-1].accepted, now - SILENT)
        ways = ((family, stream) for (at, _, family), stream in self.seen.streams.items() if at is At.POD_IP)
        found = (family.value for family, stream in ways if any(each.answered for each in stream.view(since, now, now)))
        return list(dict.fromkeys(found))

    def _wait_for_silence(self) -> None:
        """Give NetworkPolicies as long again: one with a late effect is late, and not without one."""

        def look() -> Reading:
            reached = self._reached(time.monotonic())
            return Reading(not reached, f"a pod reaches another one over {' and '.join(reached)}")

        self.stop.converge(look, self.timeouts.shown_within(FIELD_LIMIT))

    def _observe_policy(self) -> Feature:
        """Whether NetworkPolicies have an effect. They have none if a pod that none admits reaches the pod itself.

        Raises:
            HarnessError: it did not reach the pod before, or too few of its requests got a result.
        """
        shut, now = self.seen.stages[-1], time.monotonic()
        ways = {asked: stream for asked, stream in self.seen.streams.items() if asked[0] is At.POD_IP}
        began = self.seen.stages[0].accepted
        if not all(any(each.answered for each in way.view(began, shut.accepted, now)) for way in ways.values()):
            sentence = (
                "It was not observed whether NetworkPolicies have an effect: a pod did not reach another one before."
            )
            raise HarnessError(sentence, "check whether other policies deny traffic between pods.")
        if answering := self._reached(now):
            others = ", ".join(self.testbed.network_policies)
            lifted = f"; esipp allows all traffic in its namespace, as others added {others}" if others else ""
            still = f"{now - shut.accepted:.0f} s after a NetworkPolicy shut it out, a pod still reached another one's"
            return Feature(False, f"{still} own address over {' and '.join(answering)}{lifted}")
        silent = [
            steady(InStage(shut, now, stream.view(shut.accepted, now, now)), gone(shut.at(asked)))
            for asked, stream in ways.items()
        ]
        if silent and all(silent):
            return Feature(True, "a NetworkPolicy kept a pod from another one's own address")
        sentence = "It was not observed whether NetworkPolicies have an effect: requests had too few results."
        raise HarnessError(sentence, "check the load of this machine.")

    # --------------------------------------------------------------------------------------------------- the streams
    def _ask_pods(self) -> None:
        """Ask every pod of the event for its counts of the one-way streams."""
        sent = [stream for asked, stream in self.seen.streams.items() if self._is_one_way(asked)]
        self._asked = began = time.monotonic()
        for name in dict.fromkeys(name for change in self.event.changes for name in change.pods.names) if sent else ():
            pod = self.testbed.pods[name]
            address = next(iter(pod.addresses.values()))
            for traffic in self.traffic.values():
                traffic.ask_arrived(self.traffic[INSIDE.name].prober, Target(address, HTTP), pod.node, sent)
        self._counted = began

    def _is_one_way(self, asked: Asked) -> bool:
        """Whether pods count a stream's datagrams, and do not answer them."""
        return asked in self._shown and self._shown[asked].reuse is Reuse.ONE_WAY

    def _ask_pods_anew(self) -> None:
        """Ask them again, if that was a while ago. If one does not say, the stage waits; all are asked at the end."""
        if time.monotonic() >= self._asked + ASKED_EVERY:
            with suppress(HarnessError):
                self._ask_pods()

    @property
    def _spec(self) -> Json:
        """The Service of the first stage."""
        spec: Json = self.testbed.services[self.event.service]["spec"]
        return spec

    def _start(self, *, followed: bool = False) -> None:
        """Start the streams that begin with this stage: some once nodes follow it (``_is_patient``)."""
        ports = source_ports(self.asked, self.first_port)
        for at, kind, family in self.asked:
            stage = self.event.reuses if at.is_another else 0
            if (stage, self._is_patient(at, kind)) != (len(self.seen.stages) - 1, followed):
                continue
            port = ports[at.ports_of, kind, family]
            where = self._target(at, kind.protocol, family)
            if isinstance(where, str):
                self.seen.obstacles[at, family] = where
                continue
            traffic, name = self.traffic[at.client.name], f"{self.event.service} {at} {kind.name} {family}"
            if kind.name in tuple(Health):
                stream = traffic.check_health(name, self._health(Health(kind.name), where), HEALTH_PACE)
            else:
                if at is At.OUT and not kind.is_fresh:
                    kind, port = replace(kind, ports=1), _node_ports(self._spec)[kind.protocol.value]
                stream = traffic.send(off_beat(kind, name), name, where, port)
            self.seen.streams[at, kind.name, family] = stream
            if not kind.count:
                self._shown[at, kind.name, family] = kind

    def _is_patient(self, at: At, kind: StreamKind) -> bool:
        """Whether a stream begins only once nodes follow the first stage.

        So do lasting connections, and streams of few probes. Without endpoints, a SYN marks its port in connection
        tracking (suites/changes/events.py, ``OTHERS_OF_FEW``): EndpointSlices of ours are written when streams begin.
        """
        marks = self.event.own_slices and kind.protocol is Protocol.TCP and bool(kind.ports)
        return not at.is_another and (kind.reuse is Reuse.LASTING or bool(kind.count) or marks)

    def _target(self, at: At, protocol: Protocol, family: Family) -> Target | str:
        """What is dialled; a sentence if it cannot be."""
        name = self.event.another if at.is_another else self.event.service
        spec = self.testbed.services[name]["spec"]
        own = LATER_PORT if at.is_later else _numbers(spec, "port").get(protocol.value, PORT)
        if at.is_vip:
            vip = self.testbed.vips.get(name, {}).get(family)
            why = self.testbed.obstacles.get((name, family), f"the Service has no {family} VIP")
            return Target(vip, own) if vip else why
        if at is At.OUT:
            node = self.testbed.nodes[self.testbed.roles[Role.ENDPOINT_NODE]]
            port, address = self.testbed.listeners.get(node.name, {}).get(protocol), node.internal.get(family)
            return Target(address, port) if address and port else f"there is no {family} listener on {node.name}"
        if at is At.POD_IP:
            (pod,) = self.event.changes[0].names
            ip = self.testbed.pods[pod].addresses.get(family)
            return Target(ip, manifests.TARGETS[protocol]) if ip else f"the pod {pod} has no {family} address"
        if at.role is None:
            address = by_family(spec.get("clusterIPs") or []).get(family)
            return Target(address, own) if address else f"the Service has no {family} ClusterIP"
        node = self.testbed.nodes[self.testbed.roles[at.role]]
        if family not in node.internal:
            return f"node {node.name} has no {family} address"
        address = node.internal[family]
        if at is At.EXTERNAL_IP:
            return Target(address, own)
        number = _node_ports(spec)[(Protocol.TCP if at is At.SHARED_PORT else protocol).value]
        return Target(another(address) if at.is_new else address, number)

    def _health(self, health: Health, node: Target) -> Target:
        port = PROXY_PORT if health is Health.PROXY else int(self._spec["healthCheckNodePort"])
        return node._replace(port=port)

    def _wait(self, change: Change) -> list[str]:
        """Wait until every stream shows the stage, and has done so for long enough; or until it is late.

        Returns:
            the streams that do not show it.
        """
        stage = self.seen.stages[-1]
        able = [
            asked
            for asked in self._shown
            if asked[0] not in stage.stuck or (asked[1] in tuple(Health) and not stage.is_silent(asked[0]))
        ]

        def behind(now: float) -> list[str]:
            missing = [asked for asked in able if not self._shows(asked, stage.at(asked), now)]
            looked_at = self._unwritten or stage.accepted
            if missing and self._awaited and now >= looked_at + LOOKED_AT_EVERY:
                self._look_at_slices()
            if any(map(self._is_one_way, missing)):
                self._ask_pods_anew()
            return [" ".join(asked) for asked in missing]

        within, kind = self.timeouts.shown_within(max(change.within, change.lasts)), (bool(stage.pods), stage.sticky)
        return self._following.wait(behind, within, stage.accepted, kind, change.lasts)

    def _shows(self, asked: Asked, stage: Stage, now: float) -> bool:
        seen = self._so_far(asked, stage, now)
        found = steady(seen, wanted(stage, asked[1]))
        is_new = self._shown[asked].is_fresh
        holds = HOLDS if stage.pods else SILENT
        if asked[1] in tuple(Health):
            return found is not None
        return found is not None and seen.until - found.since >= holds and shows(seen, is_new=is_new)

    def _so_far(self, asked: Asked, stage: Stage, now: float) -> InStage:
        """What is known of a stream in this stage, until now or until its pods were asked."""
        stream = self.seen.streams[asked]
        if self._is_one_way(asked):
            traffic, until = self.traffic[asked[0].client.name], self._counted
            return InStage(stage, until, traffic.counted(stream, stage.accepted, until))
        # Silence counts by results: on a busy machine, probes that seem to be on their way may not have begun.
        return InStage(stage, now, stream.view(stage.accepted, now, now if stage.pods else None))


def _ports(kind: StreamKind) -> int:
    """How many source ports a stream keeps for itself."""
    return max(kind.ports, 1)


def source_ports(
    asked: Iterable[tuple[At, StreamKind, Family]], first: int
) -> dict[tuple[At, StreamKind, Family], int]:
    """The first source port of each stream, by the entry whose ports it has."""
    made = dict[tuple[At, StreamKind, Family], int]()
    for at, kind, family in asked:
        if (at.ports_of, kind, family) not in made:
            made[at.ports_of, kind, family] = first
            first += _ports(kind)
    return made


def streams_of(checks: Iterable[ServiceChangeCheck]) -> dict[Event, list[tuple[At, StreamKind, Family]]]:
    """The streams of each event, as these checks ask for them."""
    made = dict[Event, dict[tuple[At, StreamKind, Family], None]]()
    for each in (check.subject for check in checks):
        of_event = made.setdefault(each.event, {})
        of_event |= dict.fromkeys((at, kind, each.family) for at, kind in each.sent)
    return {event: list(streams) for event, streams in made.items()}


def first_ports(asked: Mapping[Event, Sequence[tuple[At, StreamKind, Family]]]) -> dict[Event, int]:
    """The first source port of each event, so that no two share one."""
    needed = (sum(_ports(kind) for _, kind, _ in streams) for streams in asked.values())
    return dict(zip(asked, accumulate(needed, initial=FIRST_PORT), strict=False))


def _nothing(_: Change) -> None:
    """The Service stays as it is."""


def _cidrs(addresses: Collection[IPAddress]) -> list[str]:
    return sorted(str(ipaddress.ip_network(each)) for each in addresses)


def _blocks(cidrs: Collection[str]) -> list[Json]:
    """Peers of a NetworkPolicy: the addresses of these CIDRs."""
    return [{"ipBlock": {"cidr": cidr}} for cidr in cidrs]


def _labelled(*pods: str) -> list[Json]:
    """Peers of a NetworkPolicy: these pods. An ``ipBlock`` is for addresses outside the cluster."""
    return [{"podSelector": {"matchLabels": {manifests.POD_LABEL: pod}}} for pod in pods]


def _at_second_target(port: Json) -> Json:
    """A port of a Service whose target is the second server of its pods, as far as that has one."""
    return {**port, "targetPort": SECOND_TARGETS.get(port["protocol"], port["targetPort"])}


def _node_ports(spec: Json) -> dict[str, int]:
    return _numbers(spec, "nodePort")


def _numbers(spec: Json, key: str) -> dict[str, int]:
    """Numbers of a Service's ports, by protocol."""
    return {port["protocol"]: int(port[key]) for port in spec["ports"]}


def controls(traffic: Mapping[str, Traffic], clients: Clients) -> dict[tuple[str, str, Family], Stream]:
    """The control listeners of two nodes, with no Service in the way.

    Raises:
        HarnessError: there is no agent on a node.
    """
    testbed, made = clients.testbed, dict[tuple[str, str, Family], Stream]()
    nodes = [testbed.roles[role] for role in (Role.ENDPOINT_NODE, Role.BARE_NODE)]
    for (node, family), target in control_targets(testbed, nodes, required=True).items():
        for client, own in traffic.items():
            name = f"listener of {node} {family} {client}"
            made[client, node, family] = own.connect(name, target, CONTROL_PACE)
    return made


def observe(context: Context) -> ServiceChangeEvidence:
    """The evidence of all events."""
    run, testbed, clients, topology = context.run, context.testbed, context.clients, context.topology
    checks, seen, stop = context.asked(ServiceChange), ServiceChangeEvidence(), Stop()
    wanted_clients = {OUTSIDE, INSIDE, *(check.subject.at.client for check in checks)}
    probers = {client.name: clients.probers[client.name] for client in wanted_clients}
    traffic = {name: Traffic(prober, prober.clock()) for name, prober in probers.items()}
    events, scenario_objects = events_of(checks), objects(list(checks), context.ground)
    pods = {pod["metadata"]["name"]: pod for pod in scenario_objects.pods}
    of_nodes = [each for node in topology.nodes.values() for each in node.internal.values()]
    outside = topology.stands[OUTSIDE.name].addresses
    admitted = SourceRanges(clients=True).of([*of_nodes, *map(str, outside)], list(Family))

    asked = streams_of(checks)
    ports = first_ports(asked)

    enforced, adopting = dict[str, Feature](), threading.Lock()

    def go_through(event: Event) -> None:
        driver = Driver(
            testbed, event, asked[event], traffic, stop, pods, admitted, outside, context.timeouts,
            disrupt=together.perform, first_port=ports[event],
        )  # fmt: skip
        before, left = list(seen.events), [testbed.roles[role] for role in event.left]
        seen.events[event.name] = driver.seen
        with kept(event.name, run, seen):
            if left:  # what happens to these nodes and their pods is our own doing, and no reason to spare any part
                spare(testbed, seen, before)
            driver.perform()
            if left:
                spare(testbed, seen, [event.name], but=left)
                with adopting:
                    testbed.adopt(left)
                    clients.start_again(left)
        if driver.enforced:
            enforced[event.name] = driver.enforced

    phase = run.phase("changes", ", ".join(event.name for event in events))
    with phase, context.disruptor(stop) as disruptor:
        together = Together(disruptor, stop.set)
        seen.controls = controls(traffic, clients)
        try:
            perform(run, "changes", {event.name: partial(go_through, event) for event in events}, stop, together.lead)
        finally:
            for client, own in traffic.items():
                own.stop(stream for (name, _, _), stream in seen.controls.items() if name == client)
    if enforced and context.features[network_policies.FEATURE].present:
        feature = min(enforced.values(), key=lambda each: each.present)  # one without an effect decides
        context.findings.features[network_policies.FEATURE] = feature
        run.feature(network_policies.FEATURE, feature)
    spare(testbed, seen, (event.name for event in events))
    return seen
