"""Nodes that do not follow the externalIP of a LoadBalancer Service, while its VIP is served."""

from collections.abc import Iterator

from esipp.base.json import Json
from esipp.judging.topology import family_of
from esipp.scenarios.service_change.subject import At, Claim, Pods
from tests.broken.breakage import Break, Group
from tests.broken.breaks.changes.freed import of_stream, run_of
from tests.broken.breaks.changes.not_followed import once, selects, served
from tests.broken.matching import DROP, MASQUERADE, came_by, hands_to, to_port
from tests.broken.nodes import Live, Nodes, Rule

EVENT = "external-ip"


def has_none(service: Json) -> bool:
    """Whether a Service has lost its externalIPs."""
    return not service["spec"].get("externalIPs")


def has_one(service: Json) -> bool:
    """Whether a Service has an externalIP."""
    return not has_none(service)


def dropped(_: Nodes, live: Live, service: Json) -> Iterator[Rule]:
    """Nodes drop what comes to the externalIPs that a Service had at first."""
    name = service["metadata"]["name"]
    for port in service["spec"]["ports"]:
        for own in live.service(name)["spec"]["externalIPs"]:
            yield Rule(family_of(own), "PREROUTING", ("--destination", own, *to_port(port), *DROP), (), "mangle")


def kept(_: Nodes, live: Live, service: Json) -> Iterator[Rule]:
    """Nodes send what comes to the externalIPs that a Service had to its pod."""
    name = service["metadata"]["name"]
    for port, address, _node, target in live.targets(service):
        for own in live.service(name)["spec"]["externalIPs"]:
            if family_of(own) is family_of(address):
                words = (*to_port(port), "--destination", own, *hands_to(address, target))
                yield Rule(family_of(own), "PREROUTING", words)
                yield Rule(family_of(own), "POSTROUTING", (*came_by(port, port["port"], own), *MASQUERADE))


BREAKS = (
    Break(
        "external-ip-of-a-load-balancer-dropped",
        Group.CHANGES,
        "nodes drop what comes to the externalIP of a LoadBalancer Service once its endpoint is another one",
        run_of(EVENT),
        once(EVENT, selects(Pods.SECOND), dropped),
        served(EVENT, At.EXTERNAL_IP),
        names="does not follow a change",
        at_once=False,
        scoped=True,
    ),
    Break(
        "external-ip-of-a-load-balancer-lives-on",
        Group.CHANGES,
        "nodes go on serving the externalIP that a LoadBalancer Service had",
        run_of(EVENT),
        once(EVENT, has_none, kept),
        of_stream(EVENT, "tcp-new", claims=(Claim.GONE,), at=(At.EXTERNAL_IP,)),
        names="keeps the rules of a deleted Service",
        at_once=False,
        scoped=True,
    ),
)
