"""Nodes that forward traffic although they must drop it: the rules, and the checks that must notice."""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace

from esipp.base.json import Json
from esipp.checks.model import Family, Role
from esipp.checks.path import PathCheck
from esipp.checks.profile import PROXY_PORT
from esipp.judging.topology import family_of, parse_address
from tests.broken.matching import AT_THE_NODE, MASQUERADE, came_by, hands_to, to_port
from tests.broken.nodes import Live, Nodes, Placed, Rule
from tests.broken.ways import NODE_PORTS

HANDS_ON = "forwards the traffic"


def forwarding_bare_node(
    *, masquerade: bool, not_pods: bool = False
) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """The node without local endpoint forwards Local nodePort traffic to the endpoint node.

    Args:
        masquerade: whether it rewrites the source, so that the answer comes back.
        not_pods: only traffic from outside the pod network.
    """

    def apply(nodes: Nodes) -> AbstractContextManager[Placed]:
        def rules(live: Live) -> Iterator[Rule]:
            for rule in (rule for service in live.services for rule in forwarded(nodes, live, service, masquerade)):
                others = ("!", "--source", nodes.pod_cidrs[rule.family])
                yield replace(rule, words=(*others, *rule.words)) if not_pods else rule

        return nodes.live(rules)

    return apply


def forwarded(nodes: Nodes, live: Live, service: Json, masquerade: bool) -> Iterator[Rule]:
    """The rules by which the node without local endpoint forwards a Local Service's nodePorts."""
    spec = service["spec"]
    if spec.get("externalTrafficPolicy") != "Local" or spec["type"] == "ClusterIP":
        return
    for port, address, _, target in live.targets(service):
        family = family_of(address)
        if family.value in spec["ipFamilies"]:
            yield from handed_on(port, address, target, masquerade, (nodes.bare,))


def handed_on(port: Json, address: str, target: int, masquerade: bool, there: tuple[str, ...]) -> Iterator[Rule]:
    """The rules by which nodes forward a nodePort to a backend."""
    family, number = family_of(address), port["nodePort"]
    yield Rule(family, "PREROUTING", (*to_port(port, number), *AT_THE_NODE, *hands_to(address, target)), there)
    if masquerade:
        yield Rule(family, "POSTROUTING", (*came_by(port, number), *MASQUERADE), there)


def as_other_proxy(nodes: Nodes) -> list[Rule]:
    """The rules by which the health check of the endpoint node's kube-proxy answers as another node's."""
    endpoint, to, rules = (nodes.roles[Role.ENDPOINT_NODE],), ("--protocol", "tcp", "--dport", str(PROXY_PORT)), []
    for family, address in internal_addresses(nodes, nodes.bare).items():
        rules.append(Rule(family, "PREROUTING", (*to, *AT_THE_NODE, *hands_to(address, PROXY_PORT)), endpoint))
        rules.append(Rule(family, "POSTROUTING", (*to, "--destination", address, *MASQUERADE), endpoint))
    return rules


def refused_at_bare_node(path_check: PathCheck) -> bool:
    """Checks that expect no answer from the nodePort of a node without local endpoint."""
    return (
        path_check.subject.is_negative
        and path_check.subject.path.entry.kind in NODE_PORTS
        and path_check.subject.path.entry.role is Role.BARE_NODE
    )


def internal_addresses(nodes: Nodes, name: str) -> dict[Family, str]:
    """The InternalIPs of a node."""
    return _addresses(nodes, name, "InternalIP")


def external_addresses(nodes: Nodes, name: str) -> dict[Family, str]:
    """The ExternalIPs of a node."""
    return _addresses(nodes, name, "ExternalIP")


def second_addresses(nodes: Nodes, name: str) -> dict[Family, str]:
    """The addresses of a node that its Node object does not name."""
    command = ["docker", "exec", name, "ip", "-json", "address", "show", "dev", "eth0", "scope", "global"]
    links = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout)
    own = [parse_address(each["local"]) for part in links for each in part.get("addr_info", ()) if "local" in each]
    named = {*internal_addresses(nodes, name).values(), *external_addresses(nodes, name).values()}
    others = [each for each in own if each not in set(map(parse_address, named))]
    return {family_of(str(each)): str(each) for each in others}


def _addresses(nodes: Nodes, name: str, kind: str) -> dict[Family, str]:
    item = nodes.cluster.request("GET", f"/api/v1/nodes/{name}")
    own = [each["address"] for each in item["status"]["addresses"] if each["type"] == kind]
    return {family_of(address): address for address in own}
