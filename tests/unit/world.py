"""A small made-up cluster and what its clients would see: for testing the judge, never a stand-in for Kubernetes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from esipp.model import AddressClass, Cell, EntryKind, Family, Feature, Observation, Outcome, Path, Role, Vantage
from esipp.stage import BACKEND
from esipp.topology import Node, Pod, Stand, Topology, parse_address
from suites.source_ip.cells import CELLS

NODES = ("worker-a", "worker-b", "worker-c")
ROLES = {Role.ENDPOINT_NODE: NODES[0], Role.BARE_NODE: NODES[1], Role.OTHER_NODE: NODES[2]}


def _pair(v4: str, v6: str) -> dict[Family, str]:
    return {Family.IPV4: v4, Family.IPV6: v6}


NODE_ADDRESSES = {name: _pair(f"172.18.0.{i}", f"fc00:f853::{i}") for i, name in enumerate(NODES, 2)}
GATEWAYS = {name: _pair(f"10.244.{i}.1", f"fd00:10:244:{i}::1") for i, name in enumerate(NODES, 2)}
BACKEND_ADDRESSES = _pair("10.244.2.5", "fd00:10:244:2::5")
CLIENT_ADDRESSES = {
    "outside-1": _pair("172.18.0.101", "fc00:f853::101"),
    "outside-2": _pair("172.18.0.102", "fc00:f853::102"),
    "pod-on-endpoint-node": _pair("10.244.2.6", "fd00:10:244:2::6"),
    "pod-on-other-node": _pair("10.244.4.6", "fd00:10:244:4::6"),
    "node": NODE_ADDRESSES[NODES[2]],
}
VIPS = {"loadbalancer-local": _pair("172.18.255.1", "fc00:f853::ff01")}


def topology() -> Topology:
    """Three nodes, one backend, five clients."""
    nodes = {
        name: Node(
            name,
            NODE_ADDRESSES[name],
            frozenset(parse_address(a) for a in (*NODE_ADDRESSES[name].values(), *GATEWAYS[name].values())),
        )
        for name in NODES
    }
    stands = {}
    for path in {path for cell in CELLS for path in cell.paths}:
        client = path.client
        addresses = frozenset(parse_address(a) for a in CLIENT_ADDRESSES[client.name].values())
        node = ROLES[client.role] if client.role else None
        if client.vantage is Vantage.NODE and node:
            addresses = nodes[node].addresses
        stands[client.name] = Stand(client, addresses, node)
    return Topology(nodes, ROLES, stands, {BACKEND: Pod(BACKEND, NODES[0], BACKEND_ADDRESSES)}, VIPS)


FEATURES = {name: Feature(True, "made up") for cell in CELLS for name in cell.features}
ADDRESS_OF = {
    AddressClass.NODE: GATEWAYS[NODES[1]],
    AddressClass.POD: BACKEND_ADDRESSES,
    AddressClass.LOAD_BALANCER: VIPS["loadbalancer-local"],
    AddressClass.OTHER: _pair("203.0.113.9", "2001:db8::9"),
}


def answer(path: Path, seen: str, seq: int = 0, **echo: Any) -> Observation:
    """An answered probe: the backend saw ``seen``; ``echo`` overrides fields of its document."""
    source = CLIENT_ADDRESSES[path.client.name][path.family]
    listener = path.entry.kind is EntryKind.NODE_LISTENER
    node = ROLES[path.entry.role] if listener and path.entry.role else NODES[0]
    nonce = f"n-{path.key}-{seq}"
    document: dict[str, Any] = {
        "schema": 1,
        "nonce": nonce,
        "peer_address": seen,
        "peer_address_raw": f"::ffff:{seen}" if "." in seen else seen,
        "peer_port": 40000 + seq,
        "local_address": BACKEND_ADDRESSES[path.family],
        "pod": f"agent-{node}" if listener else BACKEND,
        "node": node,
    } | echo
    return Observation(
        path.key,
        seq,
        Outcome.ANSWERED,
        (source, 40000 + seq),
        ("192.0.2.1", 80),
        (seen, 40000 + seq),
        document,
        nonce=nonce,
    )


def show(path: Path, what: AddressClass, seq: int = 0) -> Observation:
    """A probe that shows an address class."""
    if what is AddressClass.DROPPED:
        return Observation(path.key, seq, Outcome.TIMEOUT)
    if what is AddressClass.REFUSED:
        return Observation(path.key, seq, Outcome.REFUSED)
    own = what is AddressClass.CLIENT or (what is AddressClass.NODE and path.client.vantage is Vantage.NODE)
    address = CLIENT_ADDRESSES[path.client.name] if own else ADDRESS_OF[what]
    return answer(path, address[path.family], seq)


def healthy(samples: int = 3) -> dict[str, list[Observation]]:
    """What every path of every row shows where all rows hold."""
    shown: dict[Path, AddressClass] = {}
    for cell in CELLS:
        for control in cell.controls:
            shown.setdefault(control.path, AddressClass.CLIENT)
    for cell in sorted(CELLS, key=lambda c: c.level):  # extended rows are the narrower ones and win
        shown[cell.path] = min(cell.accept)
    return {path.key: [show(path, what, seq) for seq in range(samples)] for path, what in shown.items()}


def by_id(identity: str) -> Cell:
    """A row by its id."""
    return next(cell for cell in CELLS if cell.id == identity)


def changed(seen: Mapping[str, list[Observation]], path: Path, *instead: Observation) -> dict[str, list[Observation]]:
    """The same observations with other ones on one path."""
    return {**seen, path.key: [replace(each, seq=seq) for seq, each in enumerate(instead)]}
