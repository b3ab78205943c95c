"""Preflight for outside clients: where they run, whether they start there, and which features are missing."""

from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor

from esipp.base.client_places import Kind, Place, keep_private, most_clients, read_places
from esipp.base.errors import PreflightError
from esipp.checks.check import NAT, OUTSIDE, RAW_SOCKETS, ROUTED, TWO_ADDRESSES, Feature
from esipp.checks.model import Family
from esipp.judging.topology import Node
from esipp.probing.hosts import HostDescription, look
from esipp.probing.outside import check_network, find_network

NO_OUTSIDE_CLIENT = Feature(False, "there is no client outside the cluster", ours=True)
ONLY_KIND = Feature(False, "esipp puts a client behind a router or NAT only with containers next to kind's nodes")


def resolve(text: str, nodes: list[Node]) -> tuple[tuple[Place, ...], str | None]:
    """The places of ``--outside``, and the docker network of the nodes, which the reference load balancer uses.

    Raises:
        PreflightError: a place is invalid, or there is no such docker network.
    """
    places = read_places(text)
    if places is None:
        network = find_network(nodes)
        return (Place(Kind.DOCKER, network),) if network else (), network
    named = next((place.name for place in places if place.kind is Kind.DOCKER), None)
    if named:
        check_network(named)
    return places, named or (find_network(nodes) if places else None)


def describe_hosts(places: Iterable[Place], nodes: Collection[Node]) -> dict[Place, HostDescription]:
    """Examine this machine and the hosts over ssh, in parallel.

    Raises:
        PreflightError: a host is unreachable, cannot run the prober, or is a node of the cluster.
    """
    wanted = [place for place in places if place.kind is not Kind.DOCKER]
    if not wanted:
        return {}
    with ThreadPoolExecutor(max_workers=len(wanted)) as pool:
        found = list(pool.map(look, wanted))
    for each in found:
        keep_private([each.place], each.addresses, each.hostname)
    for each in found:
        for node in nodes:
            held = sorted(str(address) for address in each.addresses & node.addresses)
            if held:
                raise PreflightError(
                    f"An outside client cannot run on {each.place}, which is node {node.name} ({held[0]}).",
                    "a node is inside the cluster; name a machine that is not a node.",
                )
    return {each.place: each for each in found}


def features(
    places: tuple[Place, ...], described: Iterable[HostDescription], families: Iterable[Family], tools: str = ""
) -> dict[str, Feature]:
    """The features of outside clients that are known before anything is created.

    ``tools`` is the image that puts containers behind a router and NAT; empty if the nodes are not kind's.
    """
    # missing outside clients are a lack of esipp's environment, not of the cluster
    if not places:
        return dict.fromkeys((OUTSIDE, TWO_ADDRESSES, ROUTED, NAT), NO_OUTSIDE_CLIENT)
    names, most = ", ".join(map(str, places)), most_clients(places)
    only = f"only one outside client: {names}; add more with --outside, separated by commas"
    several = most is None or most > 1
    found = {
        OUTSIDE: Feature(True, names),
        TWO_ADDRESSES: Feature(several, names if several else only, ours=not several),
    }
    if places[-1].kind is Kind.DOCKER and tools:
        found[ROUTED] = Feature(True, "a container in a subnet of its own, to which the docker engine's machine routes")
        found[NAT] = Feature(True, "a container that rewrites its packets to its address on the nodes' network")
    else:
        found |= {ROUTED: ONLY_KIND, NAT: ONLY_KIND}
    hosts = {each.place: each for each in described}
    for number, place in enumerate(places):
        if place not in hosts:
            continue
        raw = found.get(RAW_SOCKETS, Feature(True, "outside clients are root or have CAP_NET_RAW"))
        why = f"{place} has neither root nor CAP_NET_RAW, which raw sockets need (SCTP, ARP)"
        found[RAW_SOCKETS] = raw if hosts[place].raw else Feature(False, why, ours=True)
        for family in families:
            name = f"{TWO_ADDRESSES if number else OUTSIDE}.{family.value.lower()}"
            if family not in hosts[place].families():
                found[name] = Feature(False, f"{place} has no {family} address", ours=True)
    return found


NO_CLIENT_OUTSIDE = "esipp itself runs in the cluster (--in-cluster), so it has no outside client"
