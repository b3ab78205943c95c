"""Testbed objects of this scenario: a Service for each event, and the pods that all of them share."""

from collections.abc import Collection, Iterable, Sequence

from esipp.base.json import Json
from esipp.base.labels import RUN_LABEL, UNSERVED_CLASS, labels_of
from esipp.checks.model import OUTSIDE, Family, Protocol, Role
from esipp.checks.rights import DISCOVERY
from esipp.judging.topology import Pod
from esipp.scenarios.changing_pods import MORE_GRACE, SERVICE_LABEL
from esipp.scenarios.service_change.subject import INSIDE, Event, Pods, ServiceChangeCheck, second_of
from esipp.testbed import manifests, network_policies
from esipp.testbed.objects import Ground, Objects

PORT, LATER_PORT = 80, 90
"""The port of a Service, and the one that some get later."""
SERVES = 45
"""Seconds for which a pod that terminates serves on: longer than a stage that some stream never shows."""

MANAGED_BY_LABEL = "endpointslice.kubernetes.io/managed-by"
"""The label that tells controllers to leave an EndpointSlice to whom it names."""

SECOND_TARGETS = {"TCP": manifests.SECOND_TARGETS["tcp"], "UDP": manifests.SECOND_TARGETS["udp"]}
"""The same of a pod's second server, as the API names protocols."""


def selector(run: str, pods: Pods) -> Json:
    """The selector of a Service; as a merge patch, it replaces any other of this scenario."""
    return {RUN_LABEL: run, **{_label(each): "yes" if each is pods else None for each in Pods}}


def service(
    event: Event, run: str, protocols: Collection[Protocol], name: str = "", external: Sequence[str] = ()
) -> Json:
    """The Service of an event, as it is in the first stage; with a name, the other one of that name.

    ``external`` are the addresses for an externalIP.
    """
    first = manifests.Numbers.of(run).balanced_external if event.external_ip else PORT
    ports = [
        {
            "name": each.value.lower(),
            "protocol": each.value,
            "port": first + (number if event.apart else 0),
            "targetPort": target,
        }
        for number, (each, target) in enumerate(manifests.TARGETS.items())
        if each in protocols
    ]
    pods = {key: value for key, value in selector(run, event.changes[0].pods).items() if value}
    internal = {"internalTrafficPolicy": event.internal.value} if event.internal else {}
    more: Json = {} if event.node_ports else {"allocateLoadBalancerNodePorts": False}
    more |= {"externalIPs": list(external)} if event.external_ip else {}
    more |= manifests.first_family(event.first) if event.first else {}
    balancer = UNSERVED_CLASS if event.unserved else event.balancer.its_class
    made = manifests.service_over(
        name or event.service, run, pods, event.kind, event.external, balancer, ports=ports, **internal, **more
    )
    if event.own_slices:
        del made["spec"]["selector"]
    return made


def slices(name: str, spec: Json, run: str, pods: Collection[Pod], *, named: bool = True) -> list[Json]:
    """The EndpointSlices of a Service without a selector: one for each family, with the addresses of these pods.

    Args:
        name: the Service.
        spec: its ``spec``.
        run: the run.
        pods: its endpoints.
        named: whether they have ``nodeName``.
    """
    ports = [{"name": each["name"], "protocol": each["protocol"], "port": each["targetPort"]} for each in spec["ports"]]
    labels = {**labels_of(run), SERVICE_LABEL: name, MANAGED_BY_LABEL: "esipp"}
    return [
        {
            "apiVersion": f"{DISCOVERY}/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": f"{name}-{family.lower()}", "labels": labels},
            "addressType": family,
            "ports": ports,
            "endpoints": [
                {
                    "addresses": [pod.addresses[Family(family)]],
                    "conditions": {"ready": True},
                    **({"nodeName": pod.node} if named else {}),
                }
                for pod in pods
                if Family(family) in pod.addresses
            ],
        }
        for family in spec["ipFamilies"]
    ]


def policy(event: Event, run: str, name: str, peers: list[Json]) -> Json:
    """A NetworkPolicy for the pod of an event, which admits these peers. It adds to those that are there."""
    (pod,) = event.changes[0].names
    selected = {"matchLabels": {manifests.POD_LABEL: pod}}
    spec = {"podSelector": selected, "policyTypes": ["Ingress"], "ingress": [{"from": peers}]}
    return network_policies.manifest(f"{event.service}-{name}", run, spec)


def events_of(checks: Iterable[ServiceChangeCheck]) -> list[Event]:
    """The events that these checks are about."""
    return list(dict.fromkeys(check.subject.event for check in checks))


def objects(checks: list[ServiceChangeCheck], ground: Ground) -> Objects:
    """Everything these checks need."""
    events = events_of(checks)
    protocols = {event: {Protocol.TCP} if event.keeps_tcp else set[Protocol]() for event in events}
    for each in checks:
        protocols[each.subject.event] |= {stream.protocol for stream in each.subject.streams}
    raw = any(Protocol.SCTP in each for each in protocols.values())
    wanted = {name for event in events for change in event.changes for name in change.pods.names}
    pods = [_pod(name, ground, raw=raw) for name in sorted(wanted)]
    services = [
        service(event, ground.run, protocols[event], name, _addresses(ground) if event.external_ip else ())
        for event in events
        for name in (event.service, event.another)
        if name
    ]
    announced = frozenset(event.service for event in events if event.announced)
    clients = {each.subject.at.client for each in checks}
    return Objects(
        tuple(pods),
        tuple(services),
        announced,
        frozenset({OUTSIDE, INSIDE, *clients}),
        raw=frozenset({OUTSIDE.name} if raw else ()),
    )


def _addresses(ground: Ground) -> list[str]:
    """The addresses of the bare node: every cluster routes them, as the nodes' own."""
    return list(ground.nodes[ground.roles[Role.BARE_NODE]].internal.values())


CHANGES_LABEL = "esipp.dev/changes-"
"""The beginning of the labels by which changing Services select their pods."""


MANY = {*Pods.FIFTY.names} - {*Pods.ALL.names}
"""Pods of the event with fifty endpoints alone. Fifty timed ones request more than a node of two cores has."""


PLACES = {Pods.ELSEWHERE: Role.BARE_NODE, Pods.ON_OTHER_NODE: Role.OTHER_NODE}
"""The nodes of pods that are not on the endpoint node."""


def _label(pods: Pods) -> str:
    return f"{CHANGES_LABEL}{pods.value}"


def _pod(name: str, ground: Ground, *, raw: bool) -> Json:
    labels = {_label(pods): "yes" for pods in Pods if name in pods.names}
    role = next((role for pods, role in PLACES.items() if name in pods.names), Role.ENDPOINT_NODE)
    node = ground.roles[role]
    two = name in Pods.TWO_SERVERS.names  # none of them is asked by SCTP
    pod = manifests.echo_pod(name, ground.run, node, ground.image, raw=raw and not two, labels=labels)
    if name not in MANY:
        manifests.timed(pod)
    if two:
        manifests.with_second_server(pod, second_of(name))
    if name in (*Pods.LEAVING.names, *Pods.LEAVING_LOCAL.names):
        arguments = pod["spec"]["containers"][0]["args"]
        arguments[arguments.index("--on-sigterm") + 1] = f"serve:{SERVES}"
        pod["spec"]["terminationGracePeriodSeconds"] = SERVES + MORE_GRACE
    return pod
