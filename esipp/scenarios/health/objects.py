"""Testbed objects of the health check suite: a Service for each situation, and pods that can be moved."""

from collections.abc import Iterable, Mapping
from typing import Any

from esipp.base.json import Json
from esipp.base.labels import RUN_LABEL, UNSERVED_CLASS, labels_of
from esipp.checks.check import Check, is_about
from esipp.checks.health import (
    About,
    HealthAnswer,
    HealthScenario,
    Place,
    Situation,
)
from esipp.checks.model import OUTSIDE, Backends, Role
from esipp.judging.topology import Node
from esipp.judging.topology import marked as marked
from esipp.testbed import manifests
from esipp.testbed.manifests import BACKEND_LABEL
from esipp.testbed.objects import Ground, Objects

HEALTH_LABEL = "esipp.dev/health"
SLOTS = 2
"""The most pods on a node in the placement scenario."""

SERVE_ON, GRACE = 30, 35
"""Seconds that a terminating pod serves on, and that Kubernetes gives it."""


def places_of(nodes: Iterable[Node], roles: Mapping[Role, str]) -> dict[Place, str]:
    """The node at each place that this cluster has."""
    found = {Place(role.value): node for role, node in roles.items()}
    if roles[Role.OTHER_NODE] == roles[Role.BARE_NODE]:
        del found[Place.OTHER_NODE]
    nodes = list(nodes)
    for place in (Place.CONTROL_PLANE, Place.EXCLUDED):
        node = marked(nodes, roles, place.value)
        if node is not None:
            found[place] = node
    return found


def service_name(situation: Situation) -> str:
    """The Service of a situation."""
    return f"health-{situation.value}"


def local_service(name: str, run: str, selector: Json, *, balancer: str | None = UNSERVED_CLASS, **spec: Any) -> Json:
    """A LoadBalancer Service with externalTrafficPolicy Local; its only port leads to the echo server's TCP port."""
    spec = {
        "type": "LoadBalancer",
        "externalTrafficPolicy": "Local",
        "ipFamilyPolicy": "PreferDualStack",
        "selector": {RUN_LABEL: run, **selector},
        "ports": [{"name": "tcp", "protocol": "TCP", "port": 80, "targetPort": manifests.TCP}],
        **spec,
    }
    if balancer:
        spec["loadBalancerClass"] = balancer
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "labels": labels_of(run)}, "spec": spec}


def _situations(ground: Ground) -> dict[Situation, Json]:
    """The Service of each situation: what it selects."""
    run = ground.run
    usual = {BACKEND_LABEL: Backends.POD.value}
    several = [
        {"name": "tcp", "protocol": "TCP", "port": 80, "targetPort": manifests.TCP},
        {"name": "tcp-too", "protocol": "TCP", "port": 81, "targetPort": "tcp"},
        {"name": "http", "protocol": "TCP", "port": 8000, "targetPort": manifests.HTTP},
        {"name": "udp", "protocol": "UDP", "port": 80, "targetPort": manifests.UDP},
    ]
    unready = {HEALTH_LABEL: "unready"}

    def made(situation: Situation, selector: Json, **spec: Any) -> Json:
        return local_service(service_name(situation), run, selector, **spec)

    return {
        Situation.ONE_POD: made(Situation.ONE_POD, usual),
        Situation.SEVERAL_PODS: made(Situation.SEVERAL_PODS, {HEALTH_LABEL: "several"}),
        Situation.NO_PODS: made(Situation.NO_PODS, {HEALTH_LABEL: "nobody"}),
        Situation.UNREADY_POD: made(Situation.UNREADY_POD, unready),
        Situation.PUBLISHED_POD: made(Situation.PUBLISHED_POD, unready, publishNotReadyAddresses=True),
        Situation.SEVERAL_PORTS: made(Situation.SEVERAL_PORTS, usual, ports=several),
        Situation.HOST_NETWORK_POD: made(Situation.HOST_NETWORK_POD, {HEALTH_LABEL: "host-network"}),
    }


def at_vip(run: str) -> Json:
    """The Service whose health check is probed at its VIP, which the cluster's own load balancer announces."""
    return local_service("health-at-vip", run, {BACKEND_LABEL: Backends.POD.value}, balancer=None)


def placed(ground: Ground) -> list[Place]:
    """The nodes of the placement scenario: every kind of node once."""
    return [place for place in places_of(ground.nodes.values(), ground.roles) if place is not Place.EXCLUDED]


def slot(ground: Ground, place: Place, number: int) -> Json:
    """A pod of the placement scenario: Ready only while its gate is open."""
    node = places_of(ground.nodes.values(), ground.roles)[place]
    return manifests.gated(
        manifests.echo_pod(
            f"placed-{place.value}-{number}",
            ground.run,
            node,
            ground.image,
            raw=False,
            labels={HEALTH_LABEL: "placed"},
        )
    )


def leaving(ground: Ground, name: str, role: Role) -> Json:
    """A pod that keeps serving while it terminates."""
    pod = manifests.echo_pod(
        name, ground.run, ground.roles[role], ground.image, raw=False, labels={HEALTH_LABEL: "leaving"}
    )
    pod["spec"]["containers"][0]["args"] = ["--on-sigterm", f"serve:{SERVE_ON}"]
    pod["spec"]["terminationGracePeriodSeconds"] = GRACE
    return pod


def objects(checks: list[Check], ground: Ground) -> Objects:
    """Everything these checks need."""
    run, image = ground.run, ground.image
    questions = [check.subject.question for check in checks if is_about(check, HealthAnswer)]
    scenarios = {check.subject.scenario for check in checks if is_about(check, HealthScenario)}
    here, there = ground.roles[Role.ENDPOINT_NODE], ground.roles[Role.OTHER_NODE]
    pods: list[Json] = []
    wanted = {question.situation for question in questions}
    controls = any(is_about(check, HealthAnswer) and check.subject.about is About.TRUTH for check in checks)
    if controls or scenarios & {"stable", "cordoned"}:
        wanted.add(Situation.ONE_POD)
    services = [service for situation, service in _situations(ground).items() if situation in wanted]
    announced = set()
    if any(question.place is Place.VIP for question in questions):
        services.append(at_vip(run))
        announced.add("health-at-vip")

    def pod(name: str, node: str, group: str) -> Json:
        return manifests.echo_pod(name, run, node, image, raw=False, labels={HEALTH_LABEL: group})

    if Situation.SEVERAL_PODS in wanted:
        pods += [pod("several-1", here, "several"), pod("several-2", here, "several")]
        pods += [pod("several-3", there, "several")] if there != ground.roles[Role.BARE_NODE] else []
    if Situation.HOST_NETWORK_POD in wanted:
        name, labels = "health-host-network", {HEALTH_LABEL: "host-network"}
        pods.append(manifests.agent_pod(name, run, here, image, raw=False, labels=labels))
    if wanted & {Situation.UNREADY_POD, Situation.PUBLISHED_POD}:
        pods.append(manifests.gated(pod("unready", here, "unready")))
    if scenarios & {"placement", "stable"}:
        pods += [slot(ground, place, number) for place in placed(ground) for number in range(SLOTS)]
        services.append(local_service("health-placement", run, {HEALTH_LABEL: "placed"}))
    if "terminating" in scenarios:
        pods += [leaving(ground, "leaving", Role.ENDPOINT_NODE), leaving(ground, "staying", Role.OTHER_NODE)]
        services.append(local_service("health-terminating", run, {HEALTH_LABEL: "leaving"}))
    clients = {question.client for question in questions}
    outside = ground.features["vantage.outside"].present
    clients |= {OUTSIDE} if scenarios and outside else set()
    return Objects(tuple(pods), tuple(services), frozenset(announced), frozenset(clients))
