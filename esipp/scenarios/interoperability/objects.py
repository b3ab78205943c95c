"""Testbed objects of the interoperability suite."""

from collections.abc import Iterator
from typing import Any

from esipp.base.json import Json
from esipp.checks.interoperability import InteroperabilityCheck
from esipp.checks.model import OUTSIDE, Backends, Family, Role, ServiceType
from esipp.scenarios.health.objects import local_service
from esipp.scenarios.interoperability.scale import manifests_of
from esipp.testbed import manifests
from esipp.testbed.manifests import BACKEND_LABEL
from esipp.testbed.objects import Ground, Objects

NEIGHBOUR_LABEL = "esipp.dev/neighbour"
A, B = "neighbour-a", "neighbour-b"
"""Service A is probed, B is changed; B's pods run on A's endpoint node and on the node without local endpoints."""

NEIGHBOUR_ROLES = (Role.ENDPOINT_NODE, Role.BARE_NODE)

NAMED_LABEL = "esipp.dev/named"
NAMED, HEADLESS, PUBLISHED, BALANCED = "named", "named-headless", "named-published", "named-balanced"
"""Services for DNS: a ClusterIP, two headless ones (one publishes unready pods), a Local LoadBalancer with a VIP."""

NAMED_PODS = ("named-ready", "named-unready")


def neighbour_pod(role: Role) -> str:
    """The pod of service B on a node."""
    return f"{B}-on-{role.value}"


def service_b(run: str, **spec: Any) -> Json:
    """Service B."""
    return local_service(B, run, {NEIGHBOUR_LABEL: "b"}, **spec)


def objects(checks: list[InteroperabilityCheck], ground: Ground) -> Objects:
    """Everything these checks need."""
    scenarios = {check.subject.scenario for check in checks}
    pods: list[Json] = []
    services: list[Json] = []
    if "neighbours" in scenarios:
        services += [local_service(A, ground.run, {BACKEND_LABEL: Backends.POD.value}), service_b(ground.run)]
        for role in NEIGHBOUR_ROLES:
            labels, node = {NEIGHBOUR_LABEL: "b"}, ground.roles[role]
            pod = manifests.echo_pod(neighbour_pod(role), ground.run, node, ground.image, raw=False, labels=labels)
            pods.append(manifests.gated(pod))
    announced = set()
    asking = {check.subject.client for check in checks if check.subject.client}
    if "names" in scenarios:
        services += [*_named(ground.run)]
        here = ground.roles[Role.ENDPOINT_NODE]
        ready, unready = (
            manifests.echo_pod(name, ground.run, here, ground.image, raw=False, labels={NAMED_LABEL: "yes"})
            for name in NAMED_PODS
        )
        pods += [ready, manifests.gated(unready)]
        if any(check.subject.claim == "balancer" for check in checks):
            backend = {BACKEND_LABEL: Backends.POD.value}
            services.append(local_service(BALANCED, ground.run, backend, balancer=None))
            announced.add(BALANCED)
    clients = asking | ({OUTSIDE} if scenarios & {"neighbours", "many"} else set())
    families = [family for family in Family if ground.features[f"family.{family.value.lower()}"].present]
    passing = [item for _, item in manifests_of(ground.run, families)] if "many" in scenarios and families else []
    return Objects(tuple(pods), tuple(services), frozenset(announced), frozenset(clients), tuple(passing))


def _named(run: str) -> Iterator[Json]:
    """The Services for DNS, without the one with a VIP."""
    labelled, kind = {NAMED_LABEL: "yes"}, ServiceType.CLUSTER_IP
    yield manifests.service_over(NAMED, run, {BACKEND_LABEL: Backends.POD.value}, kind)
    yield manifests.service_over(HEADLESS, run, labelled, kind, clusterIP="None")
    yield manifests.service_over(PUBLISHED, run, labelled, kind, clusterIP="None", publishNotReadyAddresses=True)
