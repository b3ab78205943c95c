"""A small made-up cluster and what its clients would see: for testing the judge, never a stand-in for Kubernetes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from esipp.checks.catalog import all_path_checks
from esipp.checks.check import Feature, Level, Status, Verdict
from esipp.checks.model import (
    CONTROL_BACKEND,
    HOST_BACKEND,
    PAIR_BACKEND,
    POD_BACKEND,
    UNREADY_BACKEND,
    AddressClass,
    Backends,
    Balancer,
    Claim,
    EntryKind,
    Family,
    Outcome,
    Path,
    Role,
    Vantage,
)
from esipp.checks.path import PathCheck
from esipp.judging.observation import Observation
from esipp.judging.topology import Node, Pod, Stand, Topology, parse_address
from esipp.scenarios.paths.evidence import Evidence
from tests.unit.verdicts import judge

CHECKS = tuple(all_path_checks())
SOURCE_IP = tuple(path_check for path_check in CHECKS if path_check.suite == "source_ip")
NODES = ("worker-a", "worker-b", "worker-c", "control-plane")
ROLES = dict(zip(Role, NODES, strict=True))
FINE = (Status.PASS, Status.RECORDED)
"""What checks say where nothing is wrong: informational ones are recorded."""


def _pair(v4: str, v6: str) -> dict[Family, str]:
    return {Family.IPV4: v4, Family.IPV6: v6}


NODE_ADDRESSES = {name: _pair(f"172.18.0.{i}", f"fc00:f853::{i}") for i, name in enumerate(NODES, 2)}
GATEWAYS = {name: _pair(f"10.244.{i}.1", f"fd00:10:244:{i}::1") for i, name in enumerate(NODES, 2)}
BACKEND_ADDRESSES = {
    POD_BACKEND: _pair("10.244.2.5", "fd00:10:244:2::5"),
    PAIR_BACKEND: _pair("10.244.2.7", "fd00:10:244:2::7"),
    HOST_BACKEND: NODE_ADDRESSES[NODES[0]],
    UNREADY_BACKEND: _pair("10.244.2.8", "fd00:10:244:2::8"),
    CONTROL_BACKEND: _pair("10.244.5.5", "fd00:10:244:5::5"),
}
CLIENT_ADDRESSES = {
    "outside-1": _pair("172.18.0.101", "fc00:f853::101"),
    "outside-2": _pair("172.18.0.102", "fc00:f853::102"),
    "outside-routed": _pair("198.18.0.1", "2001:2::1"),
    "outside-nat": _pair("172.18.0.103", "fc00:f853::103"),
    "pod-on-endpoint-node": _pair("10.244.2.6", "fd00:10:244:2::6"),
    "pod-on-bare-node": _pair("10.244.3.6", "fd00:10:244:3::6"),
    "pod-on-other-node": _pair("10.244.4.6", "fd00:10:244:4::6"),
    "second-pod-on-other-node": _pair("10.244.4.7", "fd00:10:244:4::7"),
    "pod-on-control-plane": _pair("10.244.5.6", "fd00:10:244:5::6"),
    "host-on-endpoint-node": NODE_ADDRESSES[NODES[0]],
    "host-on-bare-node": NODE_ADDRESSES[NODES[1]],
    "host-on-other-node": NODE_ADDRESSES[NODES[2]],
    "host-on-control-plane": NODE_ADDRESSES[NODES[3]],
    "backend": BACKEND_ADDRESSES[POD_BACKEND],
}
VIP = _pair("172.18.255.1", "fc00:f853::ff01")
NOBODY = _pair("203.0.113.9", "2001:db8::9")
ADDRESS_OF = {
    AddressClass.NODE: GATEWAYS[NODES[1]],
    AddressClass.POD: BACKEND_ADDRESSES[PAIR_BACKEND],
    AddressClass.LOAD_BALANCER: VIP,
    AddressClass.HAIRPIN: GATEWAYS[NODES[0]],
    AddressClass.OTHER: NOBODY,
}
TELLS = {
    Balancer.PROXY_FORWARDED_FOR: Claim.FORWARDED_FOR,
    Balancer.PROXY_V1: Claim.PROXY_V1,
    Balancer.PROXY_V2: Claim.PROXY_V2,
}
FEATURES = {name: Feature(True, "made up") for path_check in CHECKS for name in path_check.features}
SAMPLES = 3


@cache
def topology() -> Topology:
    """Three nodes, the backends, all clients."""
    nodes = {
        name: Node(
            name,
            NODE_ADDRESSES[name],
            frozenset(parse_address(a) for a in (*NODE_ADDRESSES[name].values(), *GATEWAYS[name].values())),
        )
        for name in NODES
    }
    stands = {}
    for client in {path.client for path_check in CHECKS for path in path_check.subject.paths}:
        addresses = frozenset(parse_address(a) for a in CLIENT_ADDRESSES[client.name].values())
        node = ROLES[client.role] if client.role else None
        if client.vantage is Vantage.NODE and node:
            addresses = nodes[node].addresses
        stands[client.name] = Stand(client, addresses, node)
    pods = {name: Pod(name, node_of(name), addresses) for name, addresses in BACKEND_ADDRESSES.items()}
    balancers = {"loadbalancer-local-tcp": frozenset(parse_address(a) for a in VIP.values())}
    return Topology(nodes, ROLES, stands, pods, balancers)


def node_of(backend: str) -> str:
    """The node a backend stands on."""
    return ROLES[Role.CONTROL_PLANE if backend == CONTROL_BACKEND else Role.ENDPOINT_NODE]


def header(claim: Claim, address: str) -> dict[str, Any]:
    """The fields of an echo document that got an address out of band."""
    if claim is Claim.FORWARDED_FOR:
        return {"x_forwarded_for": [address]}
    version = {Claim.PROXY_V1: 1, Claim.PROXY_V2: 2}.get(claim)
    return {"proxy_protocol": {"version": version, "source_address": address}} if version else {}


def _who_answers(path: Path, seq: int) -> tuple[str, str]:
    """The pod that answers, and its address."""
    if path.entry.kind is EntryKind.NODE_LISTENER and path.entry.role:
        node = ROLES[path.entry.role]
        return f"agent-{node}", NODE_ADDRESSES[node][path.family]
    backends = path.service.backends if path.service else Backends.POD
    turn = seq % 2 and not (path.service and path.service.affinity)
    name = {
        Backends.POD: POD_BACKEND,
        Backends.PAIR: PAIR_BACKEND if turn else POD_BACKEND,
        Backends.HOST_NETWORK: HOST_BACKEND,
        Backends.NOT_READY: UNREADY_BACKEND,
        Backends.CONTROL_PLANE: CONTROL_BACKEND,
    }[backends]
    return name, BACKEND_ADDRESSES[name][path.family]


def answer(path: Path, seen: str, seq: int = 0, **echo: Any) -> Observation:
    """An answered probe: the backend saw ``seen``; ``echo`` overrides fields of its document."""
    source = CLIENT_ADDRESSES[path.client.name][path.family]
    pod, local = _who_answers(path, seq)
    listener = path.entry.kind is EntryKind.NODE_LISTENER
    nonce = f"n-{path.key}-{seq}"
    reports = path.service.reports if path.service else Claim.NOTHING
    reports = (
        reports if reports is not Claim.NOTHING or not path.service else TELLS.get(path.service.balancer, Claim.NOTHING)
    )
    document: dict[str, Any] = {
        "schema": 1,
        "nonce": nonce,
        "peer_address": seen,
        "peer_address_raw": f"::ffff:{seen}" if "." in seen else seen,
        "peer_port": 40000 + seq,
        "local_address": local,
        "pod": pod,
        "node": ROLES[path.entry.role] if listener and path.entry.role else node_of(pod),
        **header(reports, source),
        **echo,
    }
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


def group(one: Observation, count: int, first_port: int = 40000) -> Observation:
    """What a brief job tells of ``count`` probes that all showed the same as this one."""
    echo = {key: value for key, value in (one.echo or {}).items() if key not in ("nonce", "time", "peer_port")}
    seen = one.seen is not None
    ports = tuple((port, port if seen else None) for port in range(first_port, first_port + count))
    return replace(one, count=count, nonce="", echo=echo or None, ports=ports)


def show(path: Path, what: AddressClass, seq: int = 0) -> Observation:
    """A probe that shows an address class."""
    if what is AddressClass.DROPPED:
        return Observation(path.key, seq, Outcome.TIMEOUT)
    if what is AddressClass.REFUSED:
        return Observation(path.key, seq, Outcome.REFUSED)
    own = what is AddressClass.CLIENT
    address = CLIENT_ADDRESSES[path.client.name] if own else ADDRESS_OF[what]
    if what is AddressClass.NODE and path.client.role is Role.BARE_NODE:  # another node's than its own
        address = GATEWAYS[NODES[2]]
    return answer(path, address[path.family], seq)


def fits(path: Path, shown: AddressClass) -> frozenset[AddressClass]:
    """The classes that an address which ``show`` gives for one of them fits, for this client."""
    if shown is AddressClass.HAIRPIN and path.client.name != POD_BACKEND:  # an address of the endpoint node
        own = path.client.vantage is Vantage.NODE and path.client.role is Role.ENDPOINT_NODE
        return frozenset({AddressClass.CLIENT if own else AddressClass.NODE})
    return frozenset({shown})


@cache
def _healthy(samples: int) -> Mapping[str, list[Observation]]:
    shown: dict[Path, AddressClass] = {}
    for path_check in CHECKS:
        for control in path_check.subject.controls:
            shown.setdefault(control.path, AddressClass.CLIENT)
    for path_check in sorted(CHECKS, key=lambda c: c.level):  # extended checks are the narrower ones and win
        if path_check.level is not Level.RECORD:
            shown[path_check.subject.path] = min(path_check.subject.accept)
        shown.setdefault(path_check.subject.path, AddressClass.CLIENT)
    return {path.key: [show(path, what, seq) for seq in range(samples)] for path, what in shown.items()}


def healthy(samples: int = SAMPLES) -> dict[str, list[Observation]]:
    """What every path of every check shows where all checks hold."""
    return dict(_healthy(samples))


@cache
def evidence() -> Evidence:
    """The healthy world, as the judge gets it; what it has read once is kept for all tests."""
    made = Evidence(observations=healthy(), topology=topology(), features=FEATURES, samples=SAMPLES)
    for path in {path for path_check in CHECKS for path in path_check.subject.paths}:
        made.readings(path)
    return made


def changed_evidence(changes: Mapping[str, list[Observation]], **fields: Any) -> Evidence:
    """The healthy world with other observations on some paths, and other fields; nothing else is read again."""
    base = evidence()
    known = {} if "topology" in fields else dict(base._read)
    for key in changes:
        known.pop(key, None)
    own = {"_read": known, "_ports": [], "_clients": []}
    return replace(base, observations={**base.observations, **changes}, **own, **fields)


def numbered(made: Iterable[Observation]) -> list[Observation]:
    """The same observations, each with a number and source ports of its own; a port that was kept is kept."""
    found, port = [], 40000
    for seq, each in enumerate(made):
        pairs = tuple(
            (port + n, None if seen is None else seen + port + n - own) for n, (own, seen) in enumerate(each.port_pairs)
        )
        one = replace(each, seq=seq)
        if each.ports:
            one = replace(one, ports=pairs)
        elif each.source:
            seen = (each.seen[0], pairs[0][1] or 0) if each.seen else None
            one = replace(one, source=(each.source[0], pairs[0][0]), seen=seen)
        found.append(one)
        port += max(each.count, 1)
    return found


def as_many(made: Sequence[Observation], samples: int) -> list[Observation]:
    """As many probes as every path has: what is there already, and more of the last one, as a group."""
    missing = samples - sum(each.count for each in made)
    if not made or missing <= 0:
        return list(made)[:samples]
    return numbered([*made, group(made[-1], missing)])


def _joined(made: Sequence[Observation], samples: int) -> list[Observation]:
    """What a test tells of a path: one probe stands for all, several are as they are."""
    return numbered(made * samples if len(made) == 1 and made[0].count == 1 else made)


def verdict(path_check: PathCheck, *instead: Observation, also: Iterable[Observation] = (), **fields: Any) -> Verdict:
    """The judge's word on a check where its path shows something else, and other paths do as well.

    Every path keeps as many probes as the others have, each with a source port of its own: of a path of which one
    probe is given, all show the same; where more are given, the check's other paths show more of what they show anyway.

    Args:
        cell: the check.
        instead: what its own path shows; nothing given leaves it healthy.
        also: what other paths show.
        fields: other fields of the evidence (``facts``, ``features``, ``witnesses``, ``samples`` ...).
    """
    observations: dict[str, list[Observation]] = {}
    for each in (*instead, *also):
        observations.setdefault(each.path, []).append(each)
    totals = [sum(each.count for each in made) for made in observations.values()]
    samples = fields.setdefault("samples", max((total for total in totals if total > 1), default=SAMPLES))
    changes = {key: _joined(made, samples) for key, made in observations.items()}
    if samples != SAMPLES:
        rest = {path.key for path in path_check.subject.paths} - changes.keys()
        changes |= {key: as_many(evidence().observations[key], samples) for key in rest}
    return judge(path_check, changed_evidence(changes, **fields))


_BY_ID = {path_check.id: path_check for path_check in CHECKS}


def by_id(identity: str) -> PathCheck:
    """A check by its id."""
    return _BY_ID[identity]
