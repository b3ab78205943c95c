"""Manifests of the testbed's objects, as plain dicts; the labels and annotations that checks set on their own."""

import copy
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from esipp.base.customisation import Pairs
from esipp.base.echo_token import TOKEN, VARIABLE
from esipp.base.json import Json
from esipp.base.labels import MANAGED_BY, OWNER, RUN_LABEL, labels_of
from esipp.checks.api import ANNOTATION
from esipp.checks.catalog import all_checks
from esipp.checks.model import Backends, Family, Path, Port, Protocol, Service, ServiceType, TrafficPolicy

CPU, MEMORY, MOST_MEMORY = "10m", "32Mi", "256Mi"
"""Requests and memory limit of every pod; there is no CPU limit."""

TIMED_CPU = "50m"
"""CPU request of pods whose response time matters: on a busy node, the request determines a pod's share."""

HTTP, TCP, UDP, SCTP, CONTROL = 8080, 8081, 8082, 8083, 8079
"""The echo server's ports in a pod (images/echoserver/README.md)."""

TARGETS = {Protocol.TCP: TCP, Protocol.UDP: UDP, Protocol.SCTP: SCTP}
"""The port for each protocol."""

SECOND_TARGETS = {"http": 9080, "tcp": 9081, "udp": 9082}
"""The ports of a second server in a pod."""

CONTAINER, SECOND_CONTAINER = "echo", "echo-2"
"""The name of the container of every pod, and of the second one that some have."""

NO_SIDECAR = {
    "sidecar.istio.io/inject": "false",
    "istio.io/dataplane-mode": "none",
    "linkerd.io/inject": "disabled",
    "kuma.io/sidecar-injection": "disabled",
    "consul.hashicorp.com/connect-inject": "false",
}
"""Labels and annotations that disable sidecar injection: a proxy in a pod would answer and dial in its place. Istio and
Kuma read labels, Linkerd and Consul annotations; older releases of Istio and Kuma also read annotations."""

OLD_ANNOTATIONS = tuple(f"service.{stability}.kubernetes.io/external-traffic" for stability in ("alpha", "beta"))
"""The annotations of the policy before it became a field, in Kubernetes 1.7."""

BACKEND_LABEL, PAIR_LABEL = "esipp.dev/backend", "esipp.dev/pair"
PORTS_OF_ONE = 8
"""The most ports that a Service of paths has."""

POD_LABEL = "esipp.dev/pod"
"""The label with a pod's name; for agents it is ``agent``, because they belong to one DaemonSet."""


@dataclass(frozen=True)
class Numbers:
    """The ports that a run uses on nodes themselves, derived from its id so that runs do not collide.

    They are below the usual ranges of nodePorts and ephemeral ports.
    """

    base: int

    @classmethod
    def of(cls, run: str) -> "Numbers":
        """The port numbers of a run."""
        return cls(20000 + zlib.crc32(run.encode()) % 900 * 10)

    def external(self, policy: TrafficPolicy | None) -> int:
        """The Service port for externalIPs. Services share these addresses, so each policy has its own port."""
        return self.base + {None: 6, TrafficPolicy.CLUSTER: 7, TrafficPolicy.LOCAL: 8}[policy]

    @property
    def balanced_external(self) -> int:
        """The Service port of a LoadBalancer Service with an externalIP."""
        return self.base + 5

    @property
    def agent_sctp(self) -> int:
        """The SCTP port of agents; a raw socket does not occupy it."""
        return self.base + 9

    def backend(self, backends: Backends) -> dict[str, int]:
        """The ports of a backend, by name; on the host network they are specific to the run."""
        if backends is Backends.HOST_NETWORK:
            return {"http": self.base, "tcp": self.base + 1, "udp": self.base + 2, "sctp": self.base + 3}
        return {"http": HTTP, "tcp": TCP, "udp": UDP, "sctp": SCTP}

    def shared(self, number: int) -> int:
        """The first of up to ``PORTS_OF_ONE`` ports of the Service with this number, if Services share their VIPs."""
        return 12000 + self.base // 10 % 10 * 800 + number * PORTS_OF_ONE

    def service_port(self, service: Service, port: Port, protocol: Protocol) -> int:
        """``spec.ports[].port``."""
        if port is Port.SAME:
            return self.backend(service.backends)[protocol.value.lower()]
        if service.external_ips:
            return self.external(service.policy)
        return int(port.value[1])


PRIVILEGED, RESTRICTED = "privileged", "restricted"
"""Pod Security levels: host-network agents need the first one, all other pods only the second."""

SECURITY_LEVEL = "pod-security.kubernetes.io/enforce"


def namespace(name: str, run: str, owner: str, level: str = PRIVILEGED) -> Json:
    """The run's namespace, with a Pod Security level."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": name,
            "labels": {**labels_of(run), SECURITY_LEVEL: level},
            "annotations": {OWNER: owner},
        },
    }


def echo_pod(name: str, run: str, node: str, image: str, *, raw: bool, labels: Mapping[str, str] | None = None) -> Json:
    """A pod of the echo image, pinned to a node, and ready only when every listener is up."""
    arguments = ["--on-sigterm", "stop", *(["--sctp", str(SCTP)] if raw else [])]
    pod = _pod(name, run, node, image, arguments, raw)
    pod["metadata"]["labels"] |= labels or {}
    _listens(pod, {"http": HTTP, "tcp": TCP, "udp": UDP, "sctp": SCTP})
    return pod


GATE = "esipp.dev/ready"


def with_second_server(pod: Json, name: str) -> Json:
    """The pod with another server, on ports of its own: by its name in answers, clients know which of them answered."""
    second = copy.deepcopy(pod["spec"]["containers"][0])
    second["name"] = SECOND_CONTAINER
    second["args"] = ["--control", "off"]
    for listener, port in SECOND_TARGETS.items():
        second["args"] += [f"--{listener}", str(port)]
    second["env"] = [
        {"name": "POD_NAME", "value": name},
        *(each for each in second["env"] if each["name"] != "POD_NAME"),
    ]
    _opens(second, {f"{listener}-2": port for listener, port in SECOND_TARGETS.items()}, SECOND_TARGETS["http"])
    pod["spec"]["containers"].append(second)
    return pod


def timed(pod: Json) -> Json:
    """The pod with a larger share of its node's CPU, so that it answers in time."""
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = TIMED_CPU
    return pod


def gated(pod: Json) -> Json:
    """The pod with a readiness gate: it serves, but is Ready only while the gate is open (``gate``)."""
    pod["spec"]["readinessGates"] = [{"conditionType": GATE}]
    return pod


def gate(is_open: bool) -> Json:
    """The patch of a pod's status that opens or closes its gate, so that readiness changes without a probe."""
    return {"status": {"conditions": [{"type": GATE, "status": str(is_open)}]}}


def host_backend(name: str, run: str, node: str, image: str, *, raw: bool, labels: Mapping[str, str]) -> Json:
    """A backend on the host network, on the run's own ports."""
    ports = Numbers.of(run).backend(Backends.HOST_NETWORK)
    arguments = ["--control", "off"]
    for listener in ("http", "tcp", "udp", *(["sctp"] if raw else [])):
        arguments += [f"--{listener}", str(ports[listener])]
    pod = _pod(name, run, node, image, arguments, raw)
    pod["metadata"]["labels"] |= labels
    pod["spec"]["hostNetwork"] = True
    _listens(pod, ports)
    return pod


def agent_pod(
    name: str, run: str, node: str, image: str, *, raw: bool, labels: Mapping[str, str] | None = None
) -> Json:
    """An agent: a host-network pod that dials from its node, lists its addresses, captures packets and is a listener.

    The kernel chooses its ports, so that they collide with nothing on the node; its first log line contains them.
    """
    arguments = ["--http", "off", "--tcp", "0", "--udp", "0", "--control", "off"]
    arguments += ["--sctp", str(Numbers.of(run).agent_sctp)] if raw else []
    pod = _pod(name, run, node, image, arguments, raw)
    pod["metadata"]["labels"] |= labels or {}
    pod["spec"]["hostNetwork"] = True
    if raw:  # tcpdump changes its user, even from root to root
        pod["spec"]["containers"][0]["securityContext"]["capabilities"]["add"] += ["SETUID", "SETGID"]
    return pod


def _listens(pod: Json, ports: Mapping[str, int]) -> None:
    _opens(pod["spec"]["containers"][0], ports, ports["http"])


def _opens(container: Json, ports: Mapping[str, int], ready: int) -> None:
    """The ports of a container, and ``ready``, where it says whether it serves."""
    protocols = {"udp": "UDP", "sctp": "SCTP"}
    container["ports"] = [
        {"name": name, "containerPort": port, "protocol": protocols.get(name.partition("-")[0], "TCP")}
        for name, port in ports.items()
    ]
    # A short period, so that pods become ready quickly; but a backend that is busy with thousands of connections must
    # not become unready in the judged window.
    container["readinessProbe"] = {
        "httpGet": {"path": "/readyz", "port": ready},
        "periodSeconds": 1,
        "timeoutSeconds": 10,
        "failureThreshold": 60,
    }


def _pod(name: str, run: str, node: str, image: str, arguments: list[str], raw: bool) -> Json:
    """A pod of the echo image; with ``raw`` it has root and only CAP_NET_RAW, for SCTP and packet capture."""

    def field(path: str) -> Json:
        return {"valueFrom": {"fieldRef": {"fieldPath": path}}}

    user = 0 if raw else 65532
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {**labels_of(run), **NO_SIDECAR, POD_LABEL: name},
            "annotations": dict(NO_SIDECAR),
        },
        "spec": {
            "nodeName": node,  # bypasses the scheduler, so it also works for control planes and cordoned nodes
            "tolerations": [{"operator": "Exists"}],
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 1,
            "securityContext": {
                "runAsNonRoot": not raw,
                "runAsUser": user,
                "runAsGroup": user,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": CONTAINER,
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "args": arguments,
                    "env": [
                        {"name": "POD_NAME", **field("metadata.name")},
                        {"name": "POD_NAMESPACE", **field("metadata.namespace")},
                        {"name": "NODE_NAME", **field("spec.nodeName")},
                        {"name": "POD_IP", **field("status.podIP")},
                        {"name": "POD_IPS", **field("status.podIPs")},
                        {"name": VARIABLE, "value": TOKEN},  # the server answers only this process's probers
                    ],
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"], **({"add": ["NET_RAW"]} if raw else {})},
                    },
                    "resources": {"requests": {"cpu": CPU, "memory": MEMORY}, "limits": {"memory": MOST_MEMORY}},
                }
            ],
        },
    }


def first_family(family: Family) -> Json:
    """The fields of a dual-stack Service whose first family is this one, whatever the cluster's is."""
    return {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": [family.value, family.other.value]}


def service_over(
    name: str,
    run: str,
    selector: Mapping[str, str],
    kind: ServiceType,
    policy: TrafficPolicy | None = None,
    balancer: str = "",
    **more: Any,
) -> Json:
    """A Service of the run over its pods with these labels, in all families.

    Args:
        name: name of the Service.
        run: id of the run.
        selector: labels of the pods.
        kind: ``spec.type``.
        policy: ``spec.externalTrafficPolicy``; None if unset.
        balancer: ``spec.loadBalancerClass``; empty if unset.
        more: other fields of ``spec``. Without ``ports``, port 80 leads to the echo server's TCP port.
    """
    spec = {
        "type": kind.value,
        "ipFamilyPolicy": "PreferDualStack",
        "selector": {RUN_LABEL: run, **selector},
        "ports": [{"name": "tcp", "protocol": "TCP", "port": 80, "targetPort": TCP}],
        **({"externalTrafficPolicy": policy.value} if policy else {}),
        **({"loadBalancerClass": balancer} if balancer else {}),
    }
    metadata = {"name": name, "labels": labels_of(run)}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec | more}


def service(
    name: str,
    paths: Iterable[Path],
    run: str,
    external_ips: Sequence[str] = (),
    ranges: Sequence[str] = (),
    headers: Pairs = (),
    first_port: int | None = None,
) -> Json:
    """The Service that these paths dial, with the ports they need.

    Args:
        name: name of the Service.
        paths: all paths of the Service.
        run: id of the run.
        external_ips: addresses for a Service with externalIPs.
        ranges: CIDRs for a Service with loadBalancerSourceRanges.
        headers: annotations by which its load balancer reports clients in a header.
        first_port: the first of its ports, if no other Service may have them; None for the usual ones.
    """
    paths = list(paths)
    shape = paths[0].service
    assert shape is not None
    numbers = Numbers.of(run)
    ports = []
    ways = sorted({(path.port, path.protocol) for path in paths}, key=lambda p: (p[0].label, p[1]))
    for number, (port, protocol) in enumerate(ways):
        listener = "http" if port is Port.HTTP else protocol.value.lower()
        own = None if first_port is None or port is Port.SAME or shape.external_ips else first_port + number
        target: int | str = listener if port is Port.NAMED else numbers.backend(shape.backends)[listener]
        ports.append(
            {
                "name": f"{port.label}-{protocol.value.lower()}",
                "protocol": protocol.value,
                "port": own or numbers.service_port(shape, port, protocol),
                "targetPort": target,
                **({"appProtocol": "http"} if port is Port.HTTP else {}),  # a proxy may only add headers to HTTP
            }
        )
    selector = {PAIR_LABEL: "yes"} if shape.backends is Backends.PAIR else {BACKEND_LABEL: shape.backends.value}
    spec: Json = {"type": shape.type.value, "selector": {RUN_LABEL: run, **selector}, "ports": ports}
    if shape.families:
        spec |= {"ipFamilyPolicy": "SingleStack", "ipFamilies": [shape.families.value]}
    elif shape.first:
        spec |= first_family(shape.first)
    else:
        spec["ipFamilyPolicy"] = "PreferDualStack"
    if shape.policy and shape.is_external:
        spec["externalTrafficPolicy"] = shape.policy.value
    if shape.internal:
        spec["internalTrafficPolicy"] = shape.internal.value
    if shape.publish_not_ready:
        spec["publishNotReadyAddresses"] = True
    if shape.prefers_close:
        spec["trafficDistribution"] = "PreferClose"
    if shape.affinity:
        spec["sessionAffinity"] = "ClientIP"
    if shape.balancer.its_class:
        spec["loadBalancerClass"] = shape.balancer.its_class
    if shape.external_ips:
        spec["externalIPs"] = list(external_ips)
    if shape.ranges:
        spec["loadBalancerSourceRanges"] = list(ranges)
    metadata: Json = {"name": name, "labels": labels_of(run)}
    if shape.old_form:
        metadata["annotations"] = dict.fromkeys(OLD_ANNOTATIONS, shape.old_form.value)
    if headers:
        metadata["annotations"] = dict(headers)
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


@cache
def given_by_checks(part: str) -> Mapping[str, str]:
    """The keys of ``labels`` or ``annotations`` that checks set, each with the first check that does."""
    found: dict[str, str] = {}
    for check in all_checks():
        for body in check.subject.bodies:
            for key in _keys(body, part):
                found.setdefault(key, check.id)
        if part == "annotations" and any(path.service and path.service.old_form for path in check.subject.paths):
            for key in OLD_ANNOTATIONS:
                found.setdefault(key, check.id)
    return {key: check for key, check in found.items() if key not in MANAGED_BY}


def _keys(body: Any, part: str) -> Iterator[str]:
    """The keys of every such part of a request's body, and in paths that name one."""
    if isinstance(body, dict):
        for name, each in body.items():
            if name == part and isinstance(each, dict):
                yield from each
            elif part == "annotations" and str(name).startswith(ANNOTATION):
                yield str(name).removeprefix(ANNOTATION)
            else:
                yield from _keys(each, part)
    elif isinstance(body, list):
        for each in body:
            yield from _keys(each, part)
