"""Testbed objects of policy changes: Services that change their policy, over the pod that all others use."""

from esipp.base.json import Json
from esipp.base.labels import UNSERVED_CLASS
from esipp.checks.check import Check, is_about
from esipp.checks.model import OUTSIDE, Backends, Balancer, Client, Role, ServiceType, TrafficPolicy, Vantage
from esipp.checks.policy_change import Isolated, IsolatedHealth, PolicyChange
from esipp.testbed import manifests
from esipp.testbed.manifests import BACKEND_LABEL
from esipp.testbed.objects import Ground, Objects

INSIDE = Client("host-on-other-node", Vantage.NODE, Role.OTHER_NODE)
"""The clients that probe the changing Services if there is no client outside."""

NEIGHBOURS = {"neighbour-loadbalancer": ServiceType.LOAD_BALANCER, "neighbour-nodeport": ServiceType.NODE_PORT}
"""Services that change their policy next to the unchanged ones. Without the feature ``load-balancer``, no load balancer
serves the first one; nodes still have its rules and its health check."""

PORT = 80


def changing_service(name: str, run: str, kind: ServiceType, balancer: Balancer | None = None) -> Json:
    """A Service with externalTrafficPolicy Local over the pod that is behind all others, too."""
    pods, of_balancer = {BACKEND_LABEL: Backends.POD.value}, balancer.its_class if balancer else ""
    return manifests.service_over(name, run, pods, kind, TrafficPolicy.LOCAL, of_balancer)


def objects(checks: list[Check], ground: Ground) -> Objects:
    """Everything these checks need; the steady services and the pod come with the checks' own paths."""
    services: list[Json] = []
    announced: set[str] = set()
    outside = ground.features["vantage.outside"].present
    if any(isinstance(check.subject, Isolated | IsolatedHealth) for check in checks):
        services += [_neighbour(name, kind, ground) for name, kind in NEIGHBOURS.items()]
    for service in sorted({check.subject.service for check in checks if is_about(check, PolicyChange)}):
        kind = ServiceType.LOAD_BALANCER if service.balancer else ServiceType.NODE_PORT
        services.append(changing_service(service.object_name, ground.run, kind, service.balancer))
        announced |= {service.object_name} if service.balancer else set()
    return Objects(services=tuple(services), announced=frozenset(announced), clients=frozenset({_watcher(outside)}))


def _neighbour(name: str, kind: ServiceType, ground: Ground) -> Json:
    made = changing_service(name, ground.run, kind)
    if kind is ServiceType.LOAD_BALANCER and not ground.features["load-balancer"].present:
        made["spec"]["loadBalancerClass"] = UNSERVED_CLASS
    return made


def _watcher(outside: bool) -> Client:
    return OUTSIDE if outside else INSIDE
