"""Testbed objects of continuity: a Service for each way, and a Deployment with the pods behind all of them."""

from collections.abc import Iterable, Mapping

from esipp.base.json import Json
from esipp.base.labels import RUN_LABEL, UNSERVED_CLASS, labels_of
from esipp.checks.continuity import ContinuityCheck, Event, Phase, Way, What
from esipp.checks.model import OUTSIDE, Balancer, Family, Protocol, ServiceType, TrafficPolicy
from esipp.checks.stream import StreamKind
from esipp.scenarios.changing_pods import MORE_GRACE, MOVES_LABEL
from esipp.testbed import manifests
from esipp.testbed.objects import Ground, Objects

DEPLOYMENT = "continuity"
SELECTOR = f"{MOVES_LABEL}={DEPLOYMENT}"
PORT = 80

HEALTH = "continuity-health"
"""The Service whose health check is probed if no way has a Local Service at a load balancer."""

ROLLED = "esipp.dev/rolled"
"""The annotation of the pod template whose change begins a rolling update."""


def service_name(way: Way, protocol: Protocol = Protocol.TCP) -> str:
    """The Service of a way for a protocol: a load balancer has one, and many carry no mix."""
    name = f"continuity-{way.by}-{way.policy.value.lower()}"
    return name if protocol is Protocol.TCP else f"{name}-{protocol.value.lower()}"


def service(way: Way, run: str, protocol: Protocol = Protocol.TCP) -> Json:
    """One Service over the Deployment's pods."""
    target = manifests.TARGETS[protocol]
    port = {"name": protocol.value.lower(), "protocol": protocol.value, "port": PORT, "targetPort": target}
    kind = ServiceType.LOAD_BALANCER if way.balancer else ServiceType.NODE_PORT
    of_balancer = way.balancer.its_class if way.balancer else ""
    name, pods = service_name(way, protocol), {MOVES_LABEL: DEPLOYMENT}
    return manifests.service_over(name, run, pods, kind, way.policy, of_balancer, ports=[port])


def health_service(run: str) -> Json:
    """A Local Service that no load balancer serves: nodes answer its health check all the same."""
    made = service(Way(Balancer.DEFAULT.value, TrafficPolicy.LOCAL), run)
    made["metadata"]["name"] = HEALTH
    made["spec"]["loadBalancerClass"] = UNSERVED_CLASS
    return made


FOUND = 3
"""Seconds for which a new pod must be ready before the next old one goes. Health checks of a second find its node in
that time; without it, a load balancer left the one node before it found the other (kind-iptables under load,
2026-11-27)."""


def deployment(run: str, image: str, nodes: Iterable[str], serves: int, *, raw: bool = False) -> Json:
    """A Deployment with one pod on each of these nodes; ``raw`` for SCTP.

    A rolling update replaces one pod at a time and deletes the old one first, so its node has none until the new one
    exists. The next pod follows once load balancers have had time to find that node. A pod is ready while its gate is
    open. Its readiness probe succeeds while it terminates: otherwise it would not be *serving* in the EndpointSlices,
    and no proxy would have to use it (KEP-1672).
    """
    names = list(nodes)
    pod = manifests.echo_pod(DEPLOYMENT, run, "", image, raw=raw, labels={MOVES_LABEL: DEPLOYMENT})
    pod = manifests.timed(manifests.gated(pod))
    spec, container = pod["spec"], pod["spec"]["containers"][0]
    del spec["nodeName"]
    del spec["tolerations"]  # a node that is cordoned takes none of them
    wanted = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in names]
    labels = {RUN_LABEL: run, MOVES_LABEL: DEPLOYMENT}
    spec["affinity"] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": wanted}},
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
            ]
        },
    }
    spec["terminationGracePeriodSeconds"] = serves + MORE_GRACE
    arguments = container["args"]
    arguments[arguments.index("--on-sigterm") + 1] = f"serve:{serves}"
    template = {
        "metadata": {
            "labels": pod["metadata"]["labels"],
            "annotations": {**pod["metadata"]["annotations"], ROLLED: "0"},
        },
        "spec": spec,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": DEPLOYMENT, "labels": labels_of(run)},
        "spec": {
            "replicas": len(names),
            "minReadySeconds": FOUND,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "selector": {"matchLabels": labels},
            "template": template,
        },
    }


def ways_of(checks: Iterable[ContinuityCheck]) -> list[Way]:
    """The ways that these checks are about."""
    return sorted({check.subject.way for check in checks})


def asked_streams(checks: Iterable[ContinuityCheck]) -> dict[Way, list[StreamKind]]:
    """The streams of each way that checks are about, beside new TCP connections and those that last."""
    found: dict[Way, dict[StreamKind, None]] = {}
    for check in checks:
        if check.subject.stream:
            found.setdefault(check.subject.way, {})[check.subject.stream] = None
    return {way: list(streams) for way, streams in sorted(found.items())}


def asking_link(checks: Iterable[ContinuityCheck]) -> frozenset[Family]:
    """The families of VIPs for which checks ask who has them."""
    return frozenset(check.subject.family for check in checks if check.subject.what is What.ONE_NODE)


def protocols_of(streams: Mapping[Way, Iterable[StreamKind]]) -> list[tuple[Way, Protocol]]:
    """The ways and protocols of these streams that need a Service beside that of TCP."""
    found = ((way, stream.protocol) for way, asked in streams.items() for stream in asked)
    return [each for each in dict.fromkeys(found) if each[1] is not Protocol.TCP]


def events_of(checks: Iterable[ContinuityCheck]) -> list[Event]:
    """The events that these checks are about, disruptions last."""
    found = dict.fromkeys(check.subject.event for check in checks)
    return sorted(found, key=lambda event: list(Phase).index(event.phase))


def families_of(checks: Iterable[ContinuityCheck]) -> list[Family]:
    """The families that these checks are about."""
    asked = {check.subject.family for check in checks}
    return [family for family in Family if family in asked]


def objects(checks: list[ContinuityCheck], ground: Ground) -> Objects:
    """The Services of every probed way; the scenario itself creates the pods, as they come and go."""
    ways = ways_of(checks)
    announced = frozenset(service_name(way) for way in ways if way.balancer is not None)
    made = [(way, Protocol.TCP) for way in ways] + protocols_of(asked_streams(checks))
    services = tuple(service(way, ground.run, protocol) for way, protocol in made)
    if ways and not any(way.local and way.balancer for way in ways):
        services += (health_service(ground.run),)
    raw = any(protocol is Protocol.SCTP for _, protocol in made) or bool(asking_link(checks))
    return Objects((), services, announced, frozenset({OUTSIDE}), raw=frozenset({OUTSIDE.name} if raw else ()))
