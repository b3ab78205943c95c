"""Objects for endpoint changes: a Service per load balancer, and on every node a pod of its own that comes and goes."""

from collections.abc import Iterable, Mapping

from esipp.base.json import Json
from esipp.checks.endpoint_change import EndpointChangeCheck, What, service_name
from esipp.checks.model import OUTSIDE, Balancer, Role, ServiceType, TrafficPolicy
from esipp.scenarios.changing_pods import MORE_GRACE, MOVES_LABEL, serves_on
from esipp.testbed import manifests
from esipp.testbed.objects import Ground, Objects

__all__ = ["service_name"]

PORT = 80


def slots_of(roles: Mapping[Role, str]) -> list[str]:
    """The nodes with endpoint changes, each once; the pod of the first one is ready at the start."""
    return list(dict.fromkeys(roles[role] for role in (Role.ENDPOINT_NODE, Role.BARE_NODE, Role.OTHER_NODE)))


def cluster_service_name(balancer: Balancer) -> str:
    """The Service over the same pods with the policy Cluster, for the balancer's view of its nodes."""
    return f"moves-{balancer.value}-cluster"


def pod_name(balancer: Balancer, slot: int, generation: int) -> str:
    """A pod of a slot; those that are deleted are made again under a new name."""
    return f"moves-{balancer.value}-{slot}-{generation}"


def pod(name: str, run: str, node: str, image: str, balancer: Balancer, serves: int) -> Json:
    """A pod for endpoint changes: ready while its gate is open, serving for ``serves`` seconds after its deletion."""
    made = manifests.echo_pod(name, run, node, image, raw=False, labels={MOVES_LABEL: balancer.value})
    made = manifests.timed(manifests.gated(made))
    made["spec"]["terminationGracePeriodSeconds"] = serves + MORE_GRACE
    arguments = made["spec"]["containers"][0]["args"]
    arguments[arguments.index("--on-sigterm") + 1] = f"serve:{serves}"
    return made


def _service(name: str, run: str, balancer: Balancer, policy: TrafficPolicy) -> Json:
    pods = {MOVES_LABEL: balancer.value}
    return manifests.service_over(name, run, pods, ServiceType.LOAD_BALANCER, policy, balancer.its_class)


def balancers_of(checks: Iterable[EndpointChangeCheck]) -> list[Balancer]:
    """The balancers that these checks are about."""
    asked = {check.subject.balancer for check in checks}
    return [balancer for balancer in Balancer if balancer in asked]


def objects(checks: list[EndpointChangeCheck], ground: Ground) -> Objects:
    """The Services and pods of every probed load balancer."""
    asked = balancers_of(checks)
    of_cluster = (What.VIEW_CLUSTER, What.FREED)
    viewed = {check.subject.balancer for check in checks if check.subject.what in of_cluster}
    services = [_service(service_name(each), ground.run, each, TrafficPolicy.LOCAL) for each in asked]
    services += [
        _service(cluster_service_name(each), ground.run, each, TrafficPolicy.CLUSTER)
        for each in asked
        if each in viewed
    ]
    pods = [
        pod(pod_name(balancer, slot, 1), ground.run, node, ground.image, balancer, serves_on(ground.steering))
        for balancer in asked
        for slot, node in enumerate(slots_of(ground.roles))
    ]
    names = frozenset(each["metadata"]["name"] for each in services)
    return Objects(tuple(pods), tuple(services), names, frozenset({OUTSIDE}))
