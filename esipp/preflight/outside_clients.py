"""Preflight's part about clients outside: where they can stand, whether they start there, and what checks then lack."""

from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor

from esipp.base.client_places import Kind, Place, keep_private, most_clients, read_places
from esipp.base.errors import PreflightError
from esipp.checks.check import OUTSIDE, RAW_SOCKETS, TWO_ADDRESSES, Feature
from esipp.checks.model import Family
from esipp.judging.topology import Node
from esipp.probing.hosts import Landed, look
from esipp.probing.outside import check_network, find_network

NOBODY = Feature(False, "no client outside the cluster is known", ours=True)


def resolve(told: str, nodes: list[Node]) -> tuple[tuple[Place, ...], str | None]:
    """The places of ``--outside``, and the docker network beside the nodes, where the reference load balancer stands.

    Raises:
        PreflightError: there is no such place, or no such docker network.
    """
    places = read_places(told)
    if places is None:
        network = find_network(nodes)
        return (Place(Kind.DOCKER, network),) if network else (), network
    named = next((place.name for place in places if place.kind is Kind.DOCKER), None)
    if named:
        check_network(named)
    return places, named or (find_network(nodes) if places else None)


def land(places: Iterable[Place], nodes: Collection[Node]) -> dict[Place, Landed]:
    """What this machine and the hosts over ssh tell of themselves, asked side by side.

    Raises:
        PreflightError: one cannot be reached, or cannot run the prober, or is a node of the cluster.
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
                    f"The client outside is to stand on {each.place}, which is node {node.name} ({held[0]}).",
                    "a node is inside; name a machine that is none.",
                )
    return {each.place: each for each in found}


def features(places: tuple[Place, ...], landed: Iterable[Landed], families: Iterable[Family]) -> dict[str, Feature]:
    """What checks may need of clients outside, as far as it is known before anything stands in the cluster."""
    # that no client outside is at hand is our surroundings' lack, not the cluster's
    if not places:
        return {OUTSIDE: NOBODY, TWO_ADDRESSES: NOBODY}
    words, most = ", ".join(map(str, places)), most_clients(places)
    only = f"one client outside only, {words}; --outside names more, with commas between them"
    several = most is None or most > 1
    found = {
        OUTSIDE: Feature(True, words),
        TWO_ADDRESSES: Feature(several, words if several else only, ours=not several),
    }
    hosts = {each.place: each for each in landed}
    for number, place in enumerate(places):
        if place not in hosts:
            continue
        raw = found.get(RAW_SOCKETS, Feature(True, "clients outside are root or have CAP_NET_RAW"))
        why = f"{place} has neither root nor CAP_NET_RAW, and SCTP is asked by raw sockets"
        found[RAW_SOCKETS] = raw if hosts[place].raw else Feature(False, why, ours=True)
        for family in families:
            name = f"{TWO_ADDRESSES if number else OUTSIDE}.{family.value.lower()}"
            if family not in hosts[place].families():
                found[name] = Feature(False, f"{place} has no {family} address", ours=True)
    return found


NO_CLIENT_OUTSIDE = "the run stands in the cluster itself (--in-cluster), where no client is outside of it"
