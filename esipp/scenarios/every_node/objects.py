"""Testbed objects of every node: endpoints on every sampled node, and Services that select all or some of them."""

from collections.abc import Iterable, Sequence

from esipp.base.json import Json
from esipp.base.labels import RUN_LABEL, labels_of
from esipp.checks.model import Protocol, Role, ServiceType, TrafficPolicy
from esipp.scenarios.every_node.evidence import CLUSTER, HEALTH, LOCAL, SOME, vip_service
from esipp.scenarios.every_node.subject import BALANCED, INSIDE, Entrance, EveryNodeCheck, Requires
from esipp.scenarios.health.objects import local_service
from esipp.testbed import manifests
from esipp.testbed.objects import Ground, Objects

EVERY_LABEL, SOME_LABEL = "esipp.dev/every-node", "esipp.dev/some-nodes"

LEAST_ENDPOINTS = 5
"""The fewest endpoints. The first node always has two or more."""

MOST_NODES = 10
"""The most nodes with endpoints; larger samples have nodes without any."""

HIGHEST = 65535
"""The last port that a Service may have; 80 is the other."""

BALANCED_PORTS = {TrafficPolicy.CLUSTER: (80, HIGHEST), TrafficPolicy.LOCAL: (81, HIGHEST - 1)}
"""The first and the last port of Services with a VIP. k3s' ServiceLB gives all of them the same VIPs."""

LAST = frozenset(last for _, last in BALANCED_PORTS.values())
"""Their last ports."""


def homes(ground: Ground) -> list[str]:
    """The nodes with endpoints: those with a role first."""
    roles = [ground.roles[role] for role in (Role.ENDPOINT_NODE, Role.BARE_NODE, Role.OTHER_NODE)]
    return list(dict.fromkeys((*roles, *ground.sampled)))[:MOST_NODES]


def some_of(nodes: Sequence[str]) -> list[str]:
    """The nodes with endpoints of the Services on some nodes: half of them, two or more where one is left over."""
    return list(nodes[: max(min(2, len(nodes) - 1), len(nodes) // 2)])


def endpoints(ground: Ground) -> dict[str, str]:
    """The node of each endpoint, by the pod's name: one on each node, two on the first, and five in all or more."""
    nodes = homes(ground)
    number = max(LEAST_ENDPOINTS, len(nodes) + 1)
    return {f"every-node-{at + 1}": nodes[at % len(nodes)] for at in range(number)}


def objects(checks: list[EveryNodeCheck], ground: Ground) -> Objects:
    """Everything these checks need."""
    subjects = [check.subject for check in checks]
    protocols = sorted({each.protocol for each in subjects if each.protocol})
    outside = frozenset(each.client for each in subjects if each.entrance not in (*INSIDE, Entrance.ADDRESSES))
    asking = frozenset(each.client.name for each in subjects if each.requires is Requires.ONE_NODE)
    of_service = (Entrance.HEALTH, Entrance.LINK_LOCAL_HEALTH)
    if not protocols and not any(each.entrance in of_service for each in subjects):
        return Objects(clients=outside)
    some = some_of(homes(ground))
    pods = []
    for name, node in endpoints(ground).items():
        labels = {EVERY_LABEL: "yes", **({SOME_LABEL: "yes"} if node in some else {})}
        raw = Protocol.SCTP in protocols
        pods.append(manifests.echo_pod(name, ground.run, node, ground.image, raw=raw, labels=labels))
    services = [local_service(HEALTH, ground.run, {SOME_LABEL: "yes"})]
    for name, label, policy in (
        (CLUSTER, EVERY_LABEL, TrafficPolicy.CLUSTER),
        (LOCAL, EVERY_LABEL, TrafficPolicy.LOCAL),
        (SOME, SOME_LABEL, TrafficPolicy.LOCAL),
    ):
        if protocols:
            services.append(_service(name, ground.run, ServiceType.NODE_PORT, label, policy, protocols, (80, HIGHEST)))
    balanced = sorted({(e.policy, e.protocol) for e in subjects if e.entrance in BALANCED and e.policy and e.protocol})
    for policy, protocol in balanced:
        name = vip_service(policy, protocol)
        ports = BALANCED_PORTS[policy]
        services.append(_service(name, ground.run, ServiceType.LOAD_BALANCER, EVERY_LABEL, policy, [protocol], ports))
    announced = frozenset(vip_service(*each) for each in balanced)
    return Objects(tuple(pods), tuple(services), announced, outside, raw=asking)


def _service(
    name: str,
    run: str,
    kind: ServiceType,
    label: str,
    policy: TrafficPolicy,
    protocols: Iterable[Protocol],
    numbers: tuple[int, int],
) -> Json:
    """A Service with a first and a last port of each protocol; a NodePort has the policy inside, too."""
    ports = [
        {
            "name": f"{protocol.value.lower()}-{port}",
            "protocol": protocol.value,
            "port": port,
            "targetPort": manifests.TARGETS[protocol],
        }
        for protocol in protocols
        for port in numbers
    ]
    spec: Json = {
        "type": kind.value,
        "externalTrafficPolicy": policy.value,
        "ipFamilyPolicy": "PreferDualStack",
        "selector": {RUN_LABEL: run, label: "yes"},
        "ports": ports,
    }
    if kind is ServiceType.NODE_PORT:
        spec["internalTrafficPolicy"] = policy.value
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "labels": labels_of(run)}, "spec": spec}
