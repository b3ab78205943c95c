"""The testbed: set-up of the pods, Services and VIPs that a set of checks needs, and teardown."""

import contextlib
import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from esipp.base.customisation import Pairs
from esipp.base.errors import HarnessError
from esipp.base.json import Json
from esipp.base.labels import RUN_LABEL
from esipp.base.waiting import Budget, Reading, converge, longer, waiting
from esipp.checks.model import Backends, Claim, EntryKind, Family, Path, Protocol, Role, ServiceType, backends_of
from esipp.checks.profile import LoadBalancer
from esipp.cluster.client import UNAUTHORIZED, ApiError, Cluster, UnreachableError
from esipp.cluster.leases import Heartbeat
from esipp.cluster.namespaces import GONE, of_runs, owner, remove_namespace, wait_for_account
from esipp.cluster.pods import identity, is_ready, say_pod
from esipp.judging.topology import Node, Pod, by_family
from esipp.loadbalancers.capabilities import guess
from esipp.loadbalancers.detection import NOTHING_FOUND, Detected
from esipp.loadbalancers.timeouts import USUAL, Timeouts
from esipp.testbed import agents, manifests, network_policies, pull_secret
from esipp.testbed.agents import key_of, node_of, waited_for
from esipp.testbed.announced import announced, carried, families_of, in_order, ingress_of, is_announced, protocols_of
from esipp.testbed.batches import ALL_AT_ONCE, Batches, balanced, is_balanced, quota_of
from esipp.testbed.integrity import Cast, Harm, NodeState, compare, injected, node_states
from esipp.testbed.leftovers import FORBIDDEN
from esipp.testbed.manifests import Numbers
from esipp.testbed.objects import Objects
from esipp.testbed.pods import pinned_pods
from esipp.testbed.refusals import concerns_one_object, hint_for, hint_of_one
from esipp.testbed.sampling import sample
from esipp.testbed.source_ranges import SourceRanges, is_open, limit

PODS_READY = Budget("the run's pods to be ready", 120.0)
VIP_ASSIGNED = "load balancers to get their VIPs"
COUNTED = Budget("the quota to release deleted objects", 30.0, need=1, spacing=0.5)
LISTENING = Budget("the control listeners", 60.0, need=1, spacing=0.1)
"""They take seconds on an idle machine, and up to a minute on a busy one."""

NO_OBJECTS = Objects()
EVERYBODY = SourceRanges()


def balanced_names(objects: Mapping[str, Sequence[Path]]) -> set[str]:
    """The Services that any load balancer serves."""
    of = {name: paths[0].service for name, paths in objects.items()}
    return {name for name, service in of.items() if service and service.type is ServiceType.LOAD_BALANCER}


def _named(manifests: Iterable[Json]) -> list[str]:
    return [str(each["metadata"]["name"]) for each in manifests]


class Services(dict[str, Json]):
    """The existing Services, by name; access to a missing one raises an error with the reason.

    Args:
        refused: why a Service was not created, by name.
    """

    def __init__(self, refused: Mapping[str, str]) -> None:
        super().__init__()
        self._refused = refused

    def __missing__(self, name: str) -> Json:
        raise HarnessError(
            self._refused.get(name) or f"The Service {name} does not exist.", "see 'kubectl get events -A'."
        )


def sharing(profiles: Sequence[LoadBalancer], objects: Mapping[str, Sequence[Path]]) -> dict[str, int]:
    """Numbers of the Services that share their VIPs with others, if the cluster's own load balancer does that.

    Args:
        profiles: those of the cluster's own load balancer; all must say so.
        objects: the paths of each Service.
    """
    shared = [each.status.shared for each in profiles]
    if not shared or not all(each and each.value for each in shared):
        return {}
    own = sorted(name for name, of in objects.items() if balanced(of))
    return {name: number for number, name in enumerate(own)}


@dataclass
class Testbed:
    """The objects of a run in the cluster.

    Args:
        raw: whether agents get root and CAP_NET_RAW, which SCTP and packets need; other pods get them only for SCTP.
        outside: addresses of the outside clients, by name, for loadBalancerSourceRanges.
        placed: waits for the outside clients, which start beside the pods, and returns their addresses; None if
            ``outside`` has them.
        ranges: the source ranges of the VIPs.
        hosted: whether the cluster admits agents, which are on the host network.
        learn: discovers the addresses of outside clients by means of the control listeners, by name; None if
            ``outside`` is complete. Services that name a client wait for it.
        patience: the timeouts for load balancers.
        timeout_factor: how many times as long its own pods may take.
        steering: maximum seconds until any load balancer stops using a node, if known.
        balancer: the cluster's own load balancer, if known.
        headers: the headers in which it reports clients, with the annotations that ask for them.
        sampled: the nodes that run an agent; by default a sample with seed 0.
        batching: returns the batches for a maximum number of load balancers; None means no limit.
        parallel: the maximum number of load balancers that the user requested.
        pull_secret: type and data of the pull secret, if any (pull_secret.py).
        note: called with problems of the run's Lease (leases.py).

    Attributes:
        pods: the pods, by name.
        agents: names of the agents, by node.
        services: the created Services, by name.
        obstacles: why a Service cannot be dialled, such as a missing VIP.
        listeners: ports of the control listeners, by node and protocol.
        admitted: the source ranges that limit the VIPs, if any.
        ingresses: how the cluster's own load balancer announces each Service: VIP, Proxy, hostname or none.
        refused: why the API server refused a Service, by name.
        injected: containers that others injected, by pod.
        absent: why a node without a role has no agent.
        network_policies: policies of others in the run's namespace, which esipp overrides.
        there: when the last of its pods and Services was there, on the monotonic clock; None before.
    """

    __test__ = False  # pytest would collect the class because of its name

    cluster: Cluster
    run: str
    image: str
    nodes: Mapping[str, Node]
    roles: Mapping[Role, str]
    raw: bool = False
    outside: Mapping[str, Sequence[str]] = field(default_factory=dict)
    ranges: SourceRanges = EVERYBODY
    hosted: bool = True
    placed: Callable[[], Mapping[str, Sequence[str]]] | None = None
    learn: "Callable[[Testbed], Mapping[str, Sequence[str]]] | None" = None
    patience: Timeouts = USUAL
    timeout_factor: float = 1.0
    steering: float | None = None
    balancer: Detected = NOTHING_FOUND
    headers: Mapping[Claim, Pairs] = field(default_factory=dict)
    sampled: Sequence[str] = ()
    batching: "Callable[[int | None], Batches]" = lambda _most: ALL_AT_ONCE
    parallel: int | None = None
    namespace: str = ""
    pods: dict[str, Pod] = field(default_factory=dict)
    agents: dict[str, str] = field(default_factory=dict)
    services: dict[str, Json] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    injected: dict[str, list[str]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    vips: dict[str, dict[Family, str]] = field(default_factory=dict)
    obstacles: dict[tuple[str, Family], str] = field(default_factory=dict)
    listeners: dict[str, dict[Protocol, int]] = field(default_factory=dict)
    second_addresses: dict[str, dict[Family, str]] = field(default_factory=dict)
    ingresses: dict[str, str] = field(default_factory=dict)
    network_policies: list[str] = field(default_factory=list)
    admitted: tuple[str, ...] = ()
    pull_secret: Json | None = field(default=None, repr=False)
    note: Callable[[str], object] = str
    there: float | None = None
    _heartbeat: Heartbeat | None = None
    batches: Batches = ALL_AT_ONCE
    _sharing: Mapping[str, int] = field(default_factory=dict)
    _later: dict[str, Callable[[], Json]] = field(default_factory=dict)
    _announced: AbstractSet[str] = frozenset()
    _identities: dict[str, tuple[str, int, str]] = field(default_factory=dict)
    _states: dict[str, Json] = field(default_factory=dict)
    _node_states: dict[str, NodeState] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.services, Services):
            stand = Services(self.refused)
            stand.update(self.services)
            self.services = stand
        if not self.hosted:
            self.sampled = ()
        elif not self.sampled:
            self.sampled = sample(self.nodes.values(), self.roles).nodes

    @property
    def ingress(self) -> str:
        """How the cluster's own load balancer announces Services; the least specific of several ways."""
        return max(self.ingresses.values(), default="none", key=("none", "VIP", "Proxy", "hostname").index)

    def set_up(self, paths: Iterable[Path], scenario_objects: Objects = NO_OBJECTS) -> None:
        """Create everything that the paths and the other suites need, and wait until it is ready.

        Raises:
            HarnessError: something could not be created or did not become ready. This is no verdict on the product.
        """
        paths = list(paths)
        self.namespace = f"esipp-{self.run}"
        objects: dict[str, list[Path]] = {}
        for path in paths:
            if path.service:
                objects.setdefault(path.object_name, []).append(path)
        try:
            level = manifests.PRIVILEGED if self.hosted else manifests.RESTRICTED
            self.cluster.create("/api/v1/namespaces", manifests.namespace(self.namespace, self.run, owner(), level))
            self._heartbeat = Heartbeat(self.cluster, self.namespace, self.run, owner(), self.note)
            self._heartbeat.begin()
            self._own_ports()
            if self.pull_secret:
                self.cluster.create(self._in("secrets"), pull_secret.manifest(self.run, self.pull_secret))
            wait_for_account(self.cluster, self.namespace)
            wanted = self.pods_for(paths, scenario_objects)
            with ThreadPoolExecutor(max_workers=8) as pool:
                made: list[Future[Any]] = []
                if self.sampled:
                    made.append(pool.submit(agents.create, self.cluster, self.namespace, self.daemon_set()))
                made += [pool.submit(self.cluster.create, self._in("pods"), pod) for pod in wanted]
                if self.placed is not None:
                    self.outside = self.placed()
                self._sharing = sharing(self.balancer.profiles, objects)
                naming = {name for name, of in objects.items() if self.learn and of[0].service and of[0].service.ranges}
                services = [self._service(name, of) for name, of in sorted(objects.items()) if name not in naming]
                services += scenario_objects.services
                late = [each for each in services if self.ranges.wanted and is_open(each)]
                self._plan_batches(services, {name: objects[name] for name in naming}, {*_named(late)})
                early = [each for each in services if each not in late and not self._is_deferred(each)]
                made += [pool.submit(self._create_service, each) for each in early]
                for each in made:
                    each.result()
                self._wait_for_pods({*(pod["metadata"]["name"] for pod in wanted), *map(waited_for, self.sampled)})
                if self.learn is not None:
                    self._read_listeners(self.agents)
                    self.outside = self.learn(self)
                self.admitted = self._admitted() if late else ()  # includes pods, whose addresses are known only now
                late = [limit(each, self.admitted) for each in late]
                late += [self._service(name, objects[name]) for name in sorted(naming)]
                list(pool.map(self._create_service, (each for each in late if not self._is_deferred(each))))
            self._announced = balanced_names(objects) | scenario_objects.announced
            self._heed_quota()
            self._wait_for_services(self._announced - self._later.keys() if self.batches.limited else self._announced)
            self.balance(self.batches.windows[0])
            self.network_policies = network_policies.lift(self.cluster, self.namespace, self.run)
            self._keep_identities(wanted, scenario_objects)
            if self.learn is None:
                self._read_listeners(self.agents)
        except ApiError as refused:
            raise HarnessError(f"Cannot set up the testbed: {refused.message}", hint_for(refused)) from None
        except UnreachableError as silent:
            raise HarnessError(
                f"The API server stopped answering during set-up: {silent}.",
                "run again when it is back; esipp removes its objects as soon as it answers.",
            ) from None

    def _own_ports(self) -> None:
        """Make sure that no other run has this run's ports on nodes and at externalIPs, which derive from its id.

        Raises:
            HarnessError: one has them, so each would answer the other's probes.
        """
        try:
            found = [(item["metadata"].get("labels") or {}).get(RUN_LABEL) for item in of_runs(self.cluster)]
        except ApiError as refused:
            if refused.status == FORBIDDEN:
                return  # this account cannot know
            raise
        runs = {str(run) for run in found if run} - {self.run}
        same = sorted(run for run in runs if Numbers.of(run) == Numbers.of(self.run))
        if same:
            raise HarnessError(
                f"The run {same[0]} uses the same ports on nodes as this one.",
                "start again, as each run draws its ports; 'esipp clean' removes what a killed run left.",
            )

    def leave(self) -> None:
        """Leave everything as it is; from now on nobody uses it."""
        if self._heartbeat is not None:
            self._heartbeat.end()

    def tear_down(self) -> None:
        """Remove everything and wait until it is gone.

        Raises:
            HarnessError: something still exists when the time is over.
        """
        self.leave()
        if not self.namespace:
            return
        try:
            remove_namespace(self.cluster, self.namespace, replace(GONE, seconds=self.patience.removed))
        except (ApiError, UnreachableError) as broken:
            first = "log in again, then " if isinstance(broken, ApiError) and broken.status == UNAUTHORIZED else ""
            raise HarnessError(
                f"Cannot remove the namespace {self.namespace}: {broken}.",
                f"{first}run 'esipp clean --context {self.cluster.context}'.",
            ) from None

    def address(self, path: Path) -> tuple[str, int] | str:
        """The address and port that a path dials; a sentence if it cannot be dialled."""
        kind, family = path.entry.kind, path.family
        if path.service and path.object_name not in self.services:
            return self.refused.get(path.object_name) or f"the Service {path.object_name} does not exist"
        if kind is EntryKind.POD_IP:
            (name,) = backends_of(path.service)
            pod = self.pods[name].addresses.get(family)
            listener = path.protocol.value.lower()
            return (pod, Numbers.of(self.run).backend(Backends.POD)[listener]) if pod else f"pods have no {family}"
        if path.entry.role is not None:
            node = self.nodes[self.roles[path.entry.role]]
            second = kind is EntryKind.SECOND_ADDRESS
            address = (self.second_addresses.get(node.name, {}) if second else node.internal).get(family)
            if address is None:
                return f"node {node.name} has no {'second ' if second else ''}{family} address"
            if kind is EntryKind.NODE_LISTENER:
                port = self.listeners.get(node.name, {}).get(path.protocol)
                return (address, port) if port else f"there is no agent on node {node.name}"
            if kind is not EntryKind.EXTERNAL_IP:
                return address, self._port_of(path)["nodePort"]
            return address, self._port_of(path)["port"]
        given = self.vips.get(path.object_name, {})
        if kind is EntryKind.CLUSTER_IP:
            given = by_family(self.services[path.object_name]["spec"].get("clusterIPs") or [])
        if family not in given:
            missing = f"the Service has no {family} {'VIP' if kind is EntryKind.VIP else 'ClusterIP'}"
            return self.obstacles.get((path.object_name, family), missing)
        return given[family], self._port_of(path)["port"]

    def harmed_parts(self, but: Collection[str] = ()) -> Harm:
        """What happened to pods and nodes with a role; agents on other nodes, and these nodes, are left out.

        Args:
            but: nodes that esipp disturbed itself, to be left out with their pods.

        Raises:
            HarnessError: as ``harmed``.
        """
        playing = set(self.roles.values()).difference(but)
        others = {name for node, name in self.agents.items() if node not in playing}
        others |= {name for name, pod in self.pods.items() if pod.node in but}
        harm = self.harmed()
        return harm.among(harm.pods.keys() - others, playing)

    @property
    def cast(self) -> Cast:
        """The pods and nodes of the names in a path."""
        return Cast(self.roles, self.agents, {name: pod.node for name, pod in self.pods.items()})

    def harmed(self) -> Harm:
        """What happened to esipp's pods and the nodes since set-up, or since the last call.

        A pod or node that was temporarily not ready is reported once; one that is gone is reported every time.

        Raises:
            HarnessError: the pods cannot be listed; or someone added a NetworkPolicy to the run's namespace.
        """
        try:
            pods = self.cluster.list(self._in("pods"))
            states = node_states(self.cluster.list("/api/v1/nodes"))
            network_policies.check(self.cluster, self.namespace, bool(self.network_policies))
        except (ApiError, UnreachableError) as broken:
            hint = hint_for(broken) if isinstance(broken, ApiError) else "run again."
            raise HarnessError(f"Cannot check our pods after the window: {broken}.", hint) from None
        return self._compare(pods, states)

    def _compare(self, pods: Sequence[Json], states: Mapping[str, NodeState]) -> Harm:
        """See ``harmed``."""
        homes = {name: pod.node for name, pod in self.pods.items()}
        harm = compare(pods, self._identities, homes, states, self._node_states)
        ready = {name: state for name, state in states.items() if state[0] == "True"}
        self._node_states |= {name: state for name, state in ready.items() if name in self._node_states}
        for item in pods:
            name, now = item["metadata"]["name"], identity(item)
            if name in self._identities and now[:2] == self._identities[name][:2]:
                self._identities[name] = now
        return harm

    def adopt(self, nodes: Collection[str]) -> None:
        """Take the pods on nodes as they are now, after esipp itself has disturbed these: their starts, addresses and
        ports.

        Raises:
            HarnessError: the pods cannot be listed, or an agent does not report its ports.
        """
        try:
            pods = self.cluster.list(self._in("pods"))
        except (ApiError, UnreachableError) as broken:
            raise HarnessError(f"Cannot look at the pods of {', '.join(nodes)}: {broken}.", "run again.") from None
        for item in pods:
            name = item["metadata"]["name"]
            if name in self.pods and self.pods[name].node in nodes:
                addresses = by_family(each["ip"] for each in item["status"].get("podIPs") or [])
                self.pods[name] = replace(self.pods[name], addresses=addresses)
                self._identities[name] = identity(item)
        self._read_listeners({node: self.agents[node] for node in nodes if node in self.agents})

    @contextlib.contextmanager
    def suspected(self) -> Iterator[None]:
        """If the body fails, check esipp's pods first: a prober may be gone because of its pod.

        Raises:
            HarnessError: a pod changed, which explains more; otherwise the error of the body.
        """
        try:
            yield
        except HarnessError:
            with contextlib.suppress(ApiError, UnreachableError):
                pods = self.cluster.list(self._in("pods"))
                self._compare(pods, node_states(self.cluster.list("/api/v1/nodes"))).raise_first()
            raise

    # ------------------------------------------------------------------------------------------------- creation

    # ----------------------------------------------------------------------------------------------------- in batches
    def _plan_batches(
        self, services: Iterable[Json], naming: Mapping[str, Sequence[Path]], late: AbstractSet[str]
    ) -> None:
        """Plan the batches of load balancers, and store how to create each."""
        for each in services:
            if is_balanced(each):
                name = each["metadata"]["name"]
                self._later[name] = partial(self._limited, each) if name in late else partial(dict, each)
        for name, paths in naming.items():
            if is_balanced(self._service(name, paths)):
                self._later[name] = partial(self._service, name, paths)
        self._adopt(self.batching(self.parallel))

    def _adopt(self, batches: Batches) -> None:
        self.batches = batches
        for name in self._later:
            self._forget_refusal(name)
        for name, why in batches.too_many.items():
            self._refuse(name, why)

    def _limited(self, manifest: Json) -> Json:
        return limit(manifest, self.admitted)

    def _is_deferred(self, manifest: Json) -> bool:
        """Whether a Service is created later, with its batch."""
        return self.batches.limited and manifest["metadata"]["name"] in self._later

    def _heed_quota(self) -> None:
        """If a ResourceQuota allowed only some load balancers, use that number as the limit from now on."""
        ours = self.refused.keys() & self._later.keys()
        if self.batches.limited or not any(quota_of(self.refused[name]) is not None for name in ours):
            return
        made = self._later.keys() - ours
        if made:
            self._adopt(self.batching(len(made)))

    def balance(self, names: AbstractSet[str]) -> None:
        """If the number is limited, create these load balancers and remove all others.

        ``refused`` lists Services that the API server still refuses, ``obstacles`` those that get no VIP.

        Raises:
            HarnessError: the API server does not answer.
        """
        if not self.batches.limited:
            return
        going = [name for name in self._later if name in self.services and name not in names]
        coming = sorted(name for name in names if name not in self.services and name not in self.batches.too_many)
        try:
            with ThreadPoolExecutor(max_workers=8) as pool:
                list(pool.map(self._remove_service, going))
                list(pool.map(self._create_soon, coming))
            self._wait_for_services(self._announced & names)
        except ApiError as refused:
            raise HarnessError(f"Cannot set up the testbed: {refused.message}", hint_for(refused)) from None
        except UnreachableError as silent:
            raise HarnessError(f"The API server stopped answering: {silent}.", "run again when it is back.") from None

    def _remove_service(self, name: str) -> None:
        """Delete a Service, and wait until its load balancer is gone as well."""
        path = f"{self._in('services')}/{name}"
        self.cluster.delete(path)
        self.cluster.wait_gone(path, budget=self.patience.removed)
        self.services.pop(name, None)
        self.vips.pop(name, None)

    def _create_soon(self, name: str) -> None:
        """Create a Service once the quota no longer counts deleted ones."""

        def look() -> Reading:
            self._forget_refusal(name)
            self._create_service(self._later[name]())
            said = self.refused.get(name, "")
            return Reading(not said, said or "made", hopeless=bool(said) and quota_of(said) is None)

        converge(look, COUNTED)

    def _create_service(self, manifest: Json) -> None:
        """Create a Service. A refusal that concerns only this Service is stored in ``refused``.

        Raises:
            ApiError: the refusal concerns all objects.
        """
        name = manifest["metadata"]["name"]
        try:
            self.cluster.create(self._in("services"), manifest)
        except ApiError as refused:
            if not concerns_one_object(refused):
                raise
            hint = hint_of_one(refused)
            self._refuse(name, f"the API server refused the Service {name}: {refused.message}{hint}")

    def _refuse(self, name: str, why: str) -> None:
        self.refused[name] = why
        self.obstacles |= dict.fromkeys(((name, family) for family in Family), why)

    def _forget_refusal(self, name: str) -> None:
        self.refused.pop(name, None)
        for family in Family:
            self.obstacles.pop((name, family), None)

    def _in(self, kind: str) -> str:
        return f"/api/v1/namespaces/{self.namespace}/{kind}"

    def _port_of(self, path: Path) -> Json:
        """The entry of ``spec.ports`` that a path dials."""
        wanted = f"{path.port.label}-{path.protocol.value.lower()}"
        ports: list[Json] = self.services[path.object_name]["spec"]["ports"]
        return next(port for port in ports if port["name"] == wanted)

    def _service(self, name: str, paths: Sequence[Path]) -> Json:
        shape = paths[0].service
        assert shape is not None
        nodes = [self.nodes[self.roles[role]] for role in (Role.ENDPOINT_NODE, Role.BARE_NODE)]
        own = [address for node in nodes for address in node.internal.values()]
        named = [address for client in shape.ranges for address in self.outside.get(client, ())]
        families = sorted({family for node in self.nodes.values() for family in node.internal})
        ranges = SourceRanges(clients=True).of(named, families) if shape.ranges else ()
        number = self._sharing.get(name)
        first = None if number is None else Numbers.of(self.run).shared(number)
        return manifests.service(name, paths, self.run, own, ranges, self.headers.get(shape.reports, ()), first)

    def _admitted(self) -> tuple[str, ...]:
        """The source ranges of the VIPs: outside clients, nodes and pods, or the user's CIDRs."""
        near = [
            self.nodes[name] for name in dict.fromkeys((*self.roles.values(), *self.sampled))
        ]  # clouds limit the length of the list
        nodes = [str(address) for node in near for address in (*node.internal.values(), *node.addresses)]
        pods = [address for pod in self.pods.values() for address in pod.addresses.values()]
        outside = [address for addresses in self.outside.values() for address in addresses]
        families = {family for node in self.nodes.values() for family in node.internal}
        return self.ranges.of([*outside, *nodes, *pods], sorted(families))

    def pods_for(self, paths: Sequence[Path], scenario_objects: Objects) -> list[Json]:
        """The pinned pods; agents are in ``daemon_set``."""
        return pinned_pods(self.run, self.image, self.roles, paths, scenario_objects)

    def daemon_set(self) -> Json:
        """The DaemonSet of the agents, one on each sampled node."""
        return agents.daemon_set(self.run, self.image, self.sampled, raw=self.raw)

    def _wait_for_pods(self, names: set[str]) -> None:
        began = time.monotonic()
        selector = f"{RUN_LABEL}={self.run}"
        limit = longer(PODS_READY, self.timeout_factor)
        with waiting(limit.name, limit.seconds) as tell:
            last = self.cluster.wait_for(
                self._in("pods"), is_ready, names, budget=limit.seconds, tell=tell, key=key_of,
                labelSelector=selector,
            )  # fmt: skip
        late = sorted(name for name in names if name not in last or not is_ready(last[name]))
        for node in set(self.sampled) - set(self.roles.values()):
            if waited_for(node) in late:  # the run works without it
                late.remove(waited_for(node))
                state = say_pod(last[waited_for(node)]) if waited_for(node) in last else "it does not exist"
                self.absent[node] = f"node {node} has no ready agent: {state}"
                last.pop(waited_for(node), None)
        if late:
            gone = [name for name in late if name not in last]
            state = f"{gone[0]}: it does not exist" if gone else f"{late[0]}: {say_pod(last[late[0]])}"
            raise HarnessError(
                f"{len(late)} of {len(names)} pods are not ready after {time.monotonic() - began:.0f} s; {state}.",
                f"see 'kubectl --context {self.cluster.context} get events -A --sort-by=.lastTimestamp'.",
            )
        for item in last.values():
            name = item["metadata"]["name"]
            addresses = by_family(each["ip"] for each in item["status"].get("podIPs") or [])
            self.pods[name] = Pod(name, item["spec"]["nodeName"], addresses)
            self._states[name] = item
            if added := injected(item):
                self.injected[name] = added
            if node_of(item):
                self.agents[node_of(item)] = name

    def _keep_identities(self, pods: Iterable[Json], scenario_objects: Objects) -> None:
        """Store the identities of pods that must not change during the window; scenarios may change their own pods."""
        moved = {pod["metadata"]["name"] for pod in scenario_objects.pods}
        for name in {*(pod["metadata"]["name"] for pod in pods), *self.agents.values()} - moved:
            self._identities[name] = identity(self._states[name])
        ours = {pod.node for pod in self.pods.values()}
        raw = self.cluster.list("/api/v1/nodes")
        self._node_states = {name: state for name, state in node_states(raw).items() if name in ours}

    def _wait_for_services(self, balanced: AbstractSet[str]) -> None:
        """Wait until load balancers have their VIPs, then read all existing Services."""
        balanced = balanced - self.refused.keys()
        selector = f"{RUN_LABEL}={self.run}"
        if balanced:
            seconds = self.patience.assigned
            with waiting(self.patience.named(VIP_ASSIGNED), seconds) as tell:
                self.cluster.wait_for(
                    self._in("services"),
                    self._is_announced,
                    balanced,
                    budget=seconds,
                    tell=tell,
                    labelSelector=selector,
                )
        for item in self.cluster.list(self._in("services"), labelSelector=selector):
            name = item["metadata"]["name"]
            self.services[name] = item
            if name not in balanced:
                continue
            if not item["spec"].get("loadBalancerClass"):  # only the cluster's own load balancer
                self.ingresses[name] = ingress_of(item)
            self.vips[name] = given = in_order(item, by_family(announced(item)))
            for family in families_of(item):
                if family not in given:
                    self.obstacles[name, family] = self._why_no_vip(item, family)
        self.there = time.monotonic()

    def _is_announced(self, service: Json) -> bool:
        """Whether every family that can have an address here has one, or a hostname resolves."""
        return is_announced(service, self.patience.expected(service))

    def _why_no_vip(self, service: Json, family: Family) -> str:
        if family not in self.patience.expected(service):
            return f"according to its profile, the load balancer has no {family} VIPs for {carried(service)}"
        own = not service["spec"].get("loadBalancerClass")
        known = guess(self.balancer.profiles, protocols_of(service), family) if own else ""
        warned = self._last_warning(str((service.get("metadata") or {}).get("name") or ""))
        return (
            f"timed out after {self.patience.assigned:.0f} s waiting for a VIP: check that a load balancer is "
            f"installed and that its pool has free {family} addresses; --without load-balancer leaves out these checks"
            f"{known}{warned}"
        )

    def _last_warning(self, name: str) -> str:
        """The last warning event of a Service; empty if there is none, or the account may not list events."""
        about = f"involvedObject.kind=Service,involvedObject.name={name},type=Warning"
        try:
            found = self.cluster.list(self._in("events"), fieldSelector=about)
        except (ApiError, UnreachableError):
            return ""
        last = max(found, key=lambda each: str(each.get("lastTimestamp") or each.get("eventTime") or ""), default=None)
        return f"; its last warning: {last.get('reason')}: {' '.join(str(last.get('message')).split())}" if last else ""

    def _read_listeners(self, agents: Mapping[str, str]) -> None:
        for node, name in agents.items():

            def look(name: str = name, node: str = node) -> Reading:
                log = self.cluster.text(f"{self._in('pods')}/{name}/log")
                with contextlib.suppress(ValueError, KeyError):
                    line = json.loads(log.splitlines()[0]) if log else {"tcp": 0}
                    ports = {protocol: line.get(protocol.value.lower()) for protocol in Protocol}
                    self.listeners[node] = {protocol: int(port) for protocol, port in ports.items() if port}
                return Reading(bool(self.listeners.get(node)), log[:120] or "its log is empty")

            waited = converge(look, longer(LISTENING, self.timeout_factor))
            if not waited.held:
                raise HarnessError(
                    f"The agent on node {node} does not report its ports: {waited.state}",
                    "check that the echo image has the same version as esipp.",
                )
