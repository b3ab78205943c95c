"""Rules for Services of other test runs that follow their creation: upstream's specs create Services during the run."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ci.peer_tests.running import E2E_NAMESPACES
from esipp.base.json import Json
from esipp.cluster.client import Cluster
from esipp.judging.topology import family_of
from tests.broken.matching import AT_THE_NODE, DROP, MASQUERADE, came_by, hands_to, to_port, vips
from tests.broken.nodes import Nodes, Rule, new_mark, script

PAUSE_SECONDS = 0.5


@dataclass(frozen=True)
class Backend:
    """One address of one port of a service: where it is, and what it listens on."""

    address: str
    port: int
    node: str
    port_name: str
    ready: bool
    terminating: bool


@dataclass(frozen=True)
class UpstreamServices:
    """The services of upstream's namespaces, each with its backends."""

    pairs: list[tuple[Json, list[Backend]]] = field(default_factory=list)


def look(cluster: Cluster) -> UpstreamServices:
    """Read them from the API."""
    selector = E2E_NAMESPACES
    named = {each["metadata"]["name"] for each in cluster.list("/api/v1/namespaces", labelSelector=selector)}
    backends: dict[tuple[str, str], list[Backend]] = {}
    for piece in cluster.list("/apis/discovery.k8s.io/v1/endpointslices") if named else []:
        where = piece["metadata"]["namespace"]
        service = (piece["metadata"].get("labels") or {}).get("kubernetes.io/service-name", "")
        if where in named:
            backends.setdefault((where, service), []).extend(_backends(piece))
    services = cluster.list("/api/v1/services") if named else []
    ours = [each for each in services if each["metadata"]["namespace"] in named]
    return UpstreamServices(
        [(each, backends.get((each["metadata"]["namespace"], each["metadata"]["name"]), [])) for each in ours]
    )


def _backends(piece: Json) -> Iterator[Backend]:
    for end in piece.get("endpoints") or []:
        for port in piece.get("ports") or []:
            for address in end["addresses"]:
                said = end.get("conditions") or {}
                ready, leaving = said.get("ready", True) is not False, bool(said.get("terminating"))
                yield Backend(address, port["port"], end.get("nodeName", ""), port.get("name") or "", ready, leaving)


@contextmanager
def rules_for(nodes: Nodes, make: Callable[[UpstreamServices], list[Rule]]) -> Iterator[None]:
    """Keep the rules that ``make`` wants in place while the context lasts; whatever happens, none stays."""
    mark, ended = new_mark(), threading.Event()
    broken: list[BaseException] = []

    def watch() -> None:
        placed: set[Rule] = set()
        while not ended.is_set():
            try:
                wanted = set(make(look(nodes.cluster)))
                _change(nodes, mark, wanted - placed, placed - wanted)
                placed = wanted
            except BaseException as error:  # raised below, in the caller's thread
                broken.append(error)
                return
            ended.wait(PAUSE_SECONDS)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        nodes.take_away(mark)
    if broken:
        raise broken[0]


def _change(nodes: Nodes, mark: str, new: set[Rule], gone: set[Rule]) -> None:
    def commands(node: str) -> str:
        removing = script([rule for rule in gone if rule.concerns(node)], "--delete", mark)
        adding = script([rule for rule in new if rule.concerns(node)], "--insert", mark)
        return " && ".join(each for each in (removing, adding) if each)

    if new or gone:
        nodes.on_nodes(commands)


# ------------------------------------------------------------------------------------------- what rules are made from
def health_ports(upstream: UpstreamServices) -> list[str]:
    """The health check node ports."""
    return [str(port) for service, _ in upstream.pairs if (port := service["spec"].get("healthCheckNodePort"))]


def handed_on(nodes: Nodes, upstream: UpstreamServices) -> list[Rule]:
    """Nodes without a local endpoint forward Local nodePort traffic to an endpoint node, masqueraded."""
    rules = []
    for service, backends in upstream.pairs:
        if service["spec"].get("externalTrafficPolicy") != "Local":
            continue
        for port, backend in _chosen(service, backends):
            number, family = port.get("nodePort"), family_of(backend.address)
            if not number:
                continue
            bare = _without(nodes, backends)
            to = hands_to(backend.address, backend.port)
            rules.append(Rule(family, "PREROUTING", (*to_port(port, number), *AT_THE_NODE, *to), bare))
            rules.append(Rule(family, "POSTROUTING", (*came_by(port, number), *MASQUERADE), bare))
    return [rule for rule in rules if rule.nodes]


def leaked(nodes: Nodes, upstream: UpstreamServices) -> list[Rule]:
    """Nodes without a local endpoint forward ClusterIP traffic under internalTrafficPolicy Local to another node."""
    rules = []
    for service, backends in upstream.pairs:
        if service["spec"].get("internalTrafficPolicy") != "Local" or service["spec"].get("clusterIP") == "None":
            continue
        for port, backend in _chosen(service, backends):
            family = family_of(backend.address)
            for address in service["spec"].get("clusterIPs") or []:
                if family_of(address) is family:
                    to = hands_to(backend.address, backend.port)
                    arguments = ("--destination", address, *to_port(port), *to)
                    bare = _without(nodes, backends)
                    rules += [Rule(family, chain, arguments, bare) for chain in ("PREROUTING", "OUTPUT")]
    return [rule for rule in rules if rule.nodes]


def black_holed(nodes: Nodes, upstream: UpstreamServices) -> list[Rule]:
    """Nodes without a local endpoint drop their own clients' traffic to VIPs of Local Services."""
    rules = []
    for service, backends in upstream.pairs:
        if service["spec"].get("externalTrafficPolicy") != "Local":
            continue
        for vip in vips(service):
            family, bare = family_of(vip), _without(nodes, backends)
            for port in service["spec"]["ports"]:
                arguments = ("--destination", vip, *to_port(port), *DROP)
                pods = ("--source", nodes.pod_cidrs[family])
                rules.append(Rule(family, "PREROUTING", (*pods, *arguments), bare, "mangle"))
                rules.append(Rule(family, "OUTPUT", arguments, bare, "mangle"))
    return [rule for rule in rules if rule.nodes]


def rewritten_at_home(_: Nodes, upstream: UpstreamServices) -> list[Rule]:
    """Nodes masquerade traffic to their own endpoints."""
    arguments = ("--match", "conntrack", "--ctstate", "DNAT", *MASQUERADE)
    found = {(each.address, each.node) for _, backends in upstream.pairs for each in backends if each.node}
    return [
        Rule(family_of(ip), "POSTROUTING", ("--destination", ip, *arguments), (node,)) for ip, node in sorted(found)
    ]


def hairpins_left(_: Nodes, upstream: UpstreamServices) -> list[Rule]:
    """No node masquerades hairpin traffic."""
    found = {each.address for _, backends in upstream.pairs for each in backends}
    arguments = ("--jump", "ACCEPT")
    return [
        Rule(family_of(ip), "POSTROUTING", ("--source", ip, "--destination", ip, *arguments)) for ip in sorted(found)
    ]


def forgotten(_: Nodes, upstream: UpstreamServices) -> list[Rule]:
    """Nodes send connections to Services with session affinity to different backends."""
    rules = []
    for service, backends in upstream.pairs:
        spec = service["spec"]
        ready = sorted({(each.address, each.port) for each in backends if each.ready})
        if spec.get("sessionAffinity") != "ClientIP" or len(ready) < 2:
            continue
        for port in spec["ports"]:
            addresses, number = (*spec["clusterIPs"], *vips(service)), str(port["port"])
            entries: list[tuple[str, ...]] = [("--destination", ip, "--dport", number) for ip in addresses]
            if port.get("nodePort"):
                entries.append((*AT_THE_NODE, "--dport", str(port["nodePort"])))
            for entry in entries:
                for address, target in ready[:2]:
                    family = family_of(address)
                    if entry[0] == "--destination" and family_of(entry[1]) is not family:
                        continue
                    chance = ("--match", "statistic", "--mode", "random", "--probability", "0.4")
                    arguments = ("--protocol", port["protocol"].lower(), *entry, *chance, *hands_to(address, target))
                    rules += [Rule(family, chain, arguments) for chain in ("PREROUTING", "OUTPUT")]
    return rules


def dropped_once_terminating(_: Nodes, upstream: UpstreamServices) -> list[Rule]:
    """Nodes drop new connections to their own terminating pods."""
    found = {(each.address, each.node) for _, backends in upstream.pairs for each in backends if each.terminating}
    arguments = ("--match", "conntrack", "--ctstate", "NEW", *DROP)
    return [
        Rule(family_of(ip), "POSTROUTING", ("--destination", ip, *arguments), (node,), "mangle")
        for ip, node in sorted(found)
        if node
    ]


def _chosen(service: Json, backends: list[Backend]) -> Iterator[tuple[Json, Backend]]:
    """For each port and family of a service, the first ready backend."""
    for port in service["spec"].get("ports") or []:
        done = set()
        for backend in sorted((each for each in backends if each.ready), key=lambda each: each.address):
            family = family_of(backend.address)
            if backend.port_name == (port.get("name") or "") and backend.node and family not in done:
                done.add(family)
                yield port, backend


def _without(nodes: Nodes, backends: list[Backend]) -> tuple[str, ...]:
    """The nodes without a ready backend."""
    having = {each.node for each in backends if each.ready}
    return tuple(node for node in nodes.containers if node not in having) if having else ()
