"""Explanations of path checks for ``esipp explain``, with a drawing of the path, generated from the check, so that
both always agree.
"""

import textwrap
from collections.abc import Iterable

from esipp.base.document import WIDTH
from esipp.checks.check import OF_VERSIONS, Check, Level, is_about
from esipp.checks.known_differences import KnownDifference, Proof
from esipp.checks.model import (
    POD_BACKEND,
    AddressClass,
    Backends,
    Balancer,
    Claim,
    Client,
    EntryKind,
    Path,
    Port,
    Protocol,
    Role,
    Service,
    Vantage,
)
from esipp.checks.path import Control, OnPath, PathCheck, Spread
from esipp.checks.reference import Reference, titles

MEANING = {
    AddressClass.CLIENT: "the backend sees the client's own address",
    AddressClass.NODE: "the backend sees a node's address: it was masqueraded",
    AddressClass.POD: "the backend sees another pod's address",
    AddressClass.LOAD_BALANCER: "the backend sees the load balancer's address",
    AddressClass.HAIRPIN: "the backend sees an address of its own node: it reached itself (hairpin)",
    AddressClass.OTHER: "the backend sees an unknown address, or something else answers",
    AddressClass.DROPPED: "there is no answer before the timeout",
    AddressClass.REFUSED: "the connection is refused",
}
OF_A_HOST = {
    AddressClass.CLIENT: "the backend sees an address of the client's own node",
    AddressClass.NODE: "the backend sees an address of another node: it was masqueraded on the way",
}
"""Meanings that differ for a client on the host network."""

OF_THE_BACKEND = {AddressClass.NODE: "the backend sees an address of a node other than its own"}

HEADERS = {
    Claim.FORWARDED_FOR: "X-Forwarded-For (its last entry, because the client may have written the others)",
    Claim.PROXY_V1: "the PROXY protocol header, version 1",
    Claim.PROXY_V2: "the PROXY protocol header, version 2",
}
NODES = {
    Role.ENDPOINT_NODE: "the endpoint node",
    Role.BARE_NODE: "the node without local endpoints (bare-node)",
    Role.OTHER_NODE: "the other node without local endpoints (other-node)",
    Role.CONTROL_PLANE: "the control plane node",
}
PORTS = {
    Port.MAIN: "its main port",
    Port.NAMED: "the port with a named targetPort",
    Port.SAME: "the port with an equal targetPort",
    Port.HTTP: "its HTTP port",
}
EXTERNAL_IPS = "the InternalIPs of the endpoint node and of the node without local endpoints (bare-node)"


def explain_check(check: Check) -> str:
    """The explanation of a check: its requirement, its references and its expectation."""
    if is_about(check, OnPath):
        return explain(check)
    details = {
        "method": check.asked,
        "holds if": check.expected
        if check.level is not Level.RECORD
        else "nothing is required: the observation is recorded",
        "fails if": check.fails_if,
        "since": say_since(check),
        "needs": _needs(check),
    }
    lines = [*_head(check), *_fold("level", check.level.words), *cite("because", check.references)]
    for label, text in details.items():
        lines += _fold(label, text) if text else []
    return "\n".join(lines)


def explain(path_check: PathCheck) -> str:
    """Return the requirement, references, topology, probes, meaning of answers, controls and known differences."""
    lines = [*_head(path_check), *(f"  {line}" for line in picture(path_check)), ""]
    lines += _fold("level", path_check.level.words) + cite("because", path_check.references)
    lines += _fold("sent", _sent(path_check.subject.path))
    lines += _fold("service", _service(path_check.subject.path)) if path_check.subject.path.service else []
    lines += _verdicts(path_check)
    lines += _fold("recorded", "whether source ports are kept, and where packets see the source change")
    lines += _fold("since", say_since(path_check)) if path_check.since else []
    lines += _fold("needs", _needs(path_check))
    for control in path_check.subject.controls:
        lines += _fold("control", _control(control))
    for known in path_check.differences:
        lines += _fold("known", _known(known))
        lines += _addresses(known.references)
    return "\n".join(lines)


def _head(check: Check) -> list[str]:
    """Return the id and the requirement."""
    return [check.id, "=" * len(check.id), *textwrap.wrap(check.requirement, WIDTH, break_on_hyphens=False), ""]


def _needs(check: Check) -> str:
    """Return the features that it needs, without versions."""
    return ", ".join(sorted(each for each in check.features if not each.startswith(OF_VERSIONS)))


def cite(label: str, references: Iterable[Reference]) -> list[str]:
    """Return the title of each reference, and its URL in an unbroken line of its own."""
    lines = []
    for each in references:
        lines += [*_fold(label, each.title), *_addresses([each])]
        label = ""
    return lines


def _addresses(references: Iterable[Reference]) -> list[str]:
    return [" " * 12 + each.url for each in references if each.url]


def say_since(check: Check) -> str:
    """Return the first Kubernetes version of the check, and why; empty if all versions support it."""
    return f"Kubernetes {check.since}" + (f" ({check.since_why})" if check.since_why else "") if check.since else ""


def _verdicts(path_check: PathCheck) -> list[str]:
    """Return what each address class means for this check."""
    if path_check.level is Level.RECORD:
        return _fold(
            "holds", "always: the outcome is recorded, " + _any_of(AddressClass, path_check.subject.path.client)
        )
    lines = _fold(
        "holds if", "for every connection, " + _any_of(path_check.subject.accept, path_check.subject.path.client)
    )
    if path_check.subject.reported is not Claim.NOTHING:
        lines += _fold(
            "", f"and the backend reads the client's own address from {HEADERS[path_check.subject.reported]}"
        )
    if path_check.subject.spread is Spread.ONE:
        lines += _fold("", "and the same backend answers every connection")
    if path_check.subject.is_negative:
        lines += _fold("", "and captured packets reach no backend")
    lines += _fold("flaky if", "some connections hold and others fail")
    return lines + _fold(
        "fails if", _any_of(set(AddressClass) - path_check.subject.accept, path_check.subject.path.client)
    )


def _any_of(classes: Iterable[AddressClass], client: Client) -> str:
    wanted, meaning = set(classes), meaning_for(client)
    return "; or ".join(meaning[each] for each in AddressClass if each in wanted and each in meaning)


def meaning_for(client: Client) -> dict[AddressClass, str]:
    """Return the meaning of each address class that is possible for this client; only a backend can be a hairpin."""
    if client.name == POD_BACKEND:
        return MEANING | OF_THE_BACKEND
    own = OF_A_HOST if client.vantage is Vantage.NODE else {}
    return {each: text for each, text in (MEANING | own).items() if each is not AddressClass.HAIRPIN}


def _sent(path: Path) -> str:
    what = {
        Protocol.TCP: "TCP connections, each from its own source port,",
        Protocol.UDP: "UDP datagrams, each from its own source port,",
        Protocol.SCTP: "SCTP INITs from a raw socket, each with its own source port,",
    }[path.protocol]
    if path.one_socket:
        what = "UDP datagrams, all from one source port,"
    if path.port is Port.HTTP:
        what = "HTTP requests, each on its own TCP connection and from its own source port,"
    sent = f"{what} over {path.family.value} from {path.client.name} to {_where(path)}"
    if path.claim is not Claim.NOTHING:
        sent += f"; the client claims another address in {HEADERS[path.claim].partition(' (')[0]}"
    return sent


def _where(path: Path) -> str:
    node = f" of {NODES[path.entry.role]}" if path.entry.role else ""
    return {
        EntryKind.POD_IP: "the backend pod's own address",
        EntryKind.CLUSTER_IP: "the Service's ClusterIP",
        EntryKind.VIP: "the Service's load balancer VIP",
        EntryKind.NODE_PORT: f"the Service's nodePort at the InternalIP{node}",
        EntryKind.SECOND_ADDRESS: f"the Service's nodePort at a second address{node}",
        EntryKind.EXTERNAL_IP: f"the Service's externalIP that is the InternalIP{node}",
        EntryKind.NODE_LISTENER: f"the control listener{node}",
    }[path.entry.kind]


def _service(path: Path) -> str:
    """Return the fields of the Service that matter."""
    service = path.service
    assert service is not None
    fields = {
        "type": service.type.value,
        "externalTrafficPolicy": (service.policy.value if service.policy else "unset") if service.is_external else "",
        "internalTrafficPolicy": service.internal.value if service.internal else "",
        "loadBalancerClass": service.balancer.value if service.balancer.value != "default" else "",
        "ipFamilies": _families(service),
        "sessionAffinity": "ClientIP" if service.affinity else "",
        "annotations external-traffic": f"{service.old_form.value} (alpha and beta)" if service.old_form else "",
        "publishNotReadyAddresses": "true" if service.publish_not_ready else "",
        "trafficDistribution": "PreferClose" if service.prefers_close else "",
        "externalIPs": EXTERNAL_IPS if service.external_ips else "",
        "loadBalancerSourceRanges": f"the addresses of {', '.join(service.ranges)}" if service.ranges else "",
    }
    said = ", ".join(f"{name} {value}" for name, value in fields.items() if value)
    return f"{said}; the client dials {PORTS[path.port]}"


def _families(service: Service) -> str:
    """Return what the Service says of its families; empty if it takes those of the cluster."""
    if service.families:
        return f"{service.families.value} only"
    return f"{service.first.value} and {service.first.other.value}, in this order" if service.first else ""


def _control(control: Control) -> str:
    shows = " or ".join(sorted(control.accept)) or "any answer of the echo server"
    if control.spread is Spread.SEVERAL:
        shows += " from several backends"
    return f"{control.path.key} must show {shows}: {control.why}"


def _known(known: KnownDifference) -> str:
    when = " and ".join(f"{name} is {value}" for name, value in known.when)
    when += f", {known.limit}" if known.limit else ""
    covered = known.connections
    named = f"the address in the fact {covered.names}"
    proven = {Proof.OWN_NODE: "an address of the client's own node", Proof.FACT: named}
    shows = proven.get(covered.proof) or " or ".join(sorted(covered.accept))
    if covered.proof is Proof.BALANCER:
        shows = " or ".join(filter(None, ("the load balancer's own address", shows)))
    shows += ", and packets may reach a backend" if covered.forwarded else ""
    shows += ", or no answer where packets came back to the client's own node" if covered.turned_back else ""
    where = f"where {when}" if when else "anywhere"
    said = f"{where}: {shows}. Reason: {known.reason} [{titles(known.references)}]."
    return f"{said} {known.evidence}".strip()


def _fold(label: str, text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=f"{label:<12}", subsequent_indent=" " * 12, break_on_hyphens=False)


# ---------------------------------------------------------------------------------------------------------------- drawn
ARROW, BLOCKED = " --> ", " -x  "

ON = {
    Role.ENDPOINT_NODE: "endpoint node",
    Role.BARE_NODE: "node without endpoints",
    Role.OTHER_NODE: "another node",
    Role.CONTROL_PLANE: "control plane node",
}
ENTRIES = {
    EntryKind.CLUSTER_IP: "ClusterIP",
    EntryKind.NODE_PORT: "nodePort",
    EntryKind.SECOND_ADDRESS: "nodePort",
    EntryKind.VIP: "VIP",
    EntryKind.EXTERNAL_IP: "externalIP",
    EntryKind.NODE_LISTENER: "control listener",
}
BACKENDS = {
    Backends.POD: "backend pod",
    Backends.HOST_NETWORK: "host-network backend",
    Backends.NOT_READY: "backend that is not ready",
    Backends.PAIR: "two backend pods",
    Backends.CONTROL_PLANE: "backend pod",
}


def picture(path_check: PathCheck) -> list[str]:
    """Return the boxes of a check's path, from left to right. A crossed arrow must carry no traffic."""
    path = path_check.subject.path
    hairpin = path.client.name == POD_BACKEND
    boxes = [_client(path.client), *_between(path), *([] if hairpin else [_backend(path.service)])]
    drawn = [_box(box) for box in boxes]
    arrows = [ARROW] * (len(boxes) - 2) + [BLOCKED if path_check.subject.is_negative else ARROW]
    lines = []
    for row in range(max(len(box) for box in drawn)):
        line = ""
        for box, arrow in zip(drawn, [*arrows, ""], strict=True):
            line += box[row] if row < len(box) else " " * len(box[0])
            line += arrow if row == 1 else " " * len(arrow)
        lines.append(line.rstrip())
    return [*lines, "and back to itself: client and backend are the same pod"] if hairpin else lines


def _client(client: Client) -> list[str]:
    if client.vantage is Vantage.OUTSIDE:
        return [client.name, "outside the cluster"]
    assert client.role is not None
    what = "host process" if client.vantage is Vantage.NODE else "backend pod" if client.name == POD_BACKEND else "pod"
    return [what, ON[client.role]]


def _between(path: Path) -> list[list[str]]:
    """Return the dialled address and where it is translated; nothing for the backend's own address."""
    kind, service = path.entry.kind, path.service
    if kind is EntryKind.POD_IP or service is None:
        return []
    name = ENTRIES[kind] + (", a second address" if kind is EntryKind.SECOND_ADDRESS else "")
    if kind is EntryKind.CLUSTER_IP:
        return [[name, "routed on the client's node"]]
    if kind is EntryKind.VIP and service.balancer not in (Balancer.DEFAULT, Balancer.FORWARD, Balancer.ECMP):
        return [[name, "a proxy"], ["nodePort", "endpoint node"]]
    if kind is EntryKind.VIP:
        way = "several nodes" if service.balancer is Balancer.ECMP else "a node"
        return [[name, f"load balancer, then {way};", "inside: the client's own node"]]
    assert path.entry.role is not None
    own = "on the client's own node" if path.entry.role is path.client.role else ON[path.entry.role]
    inside = path.client.vantage is not Vantage.OUTSIDE and kind is EntryKind.EXTERNAL_IP
    return [[name, own, *(["routed on the client's node"] if inside else [])]]


def _backend(service: Service | None) -> list[str]:
    backends = service.backends if service else Backends.POD
    role = Role.CONTROL_PLANE if backends is Backends.CONTROL_PLANE else Role.ENDPOINT_NODE
    return [BACKENDS[backends], ON[role]]


def _box(words: list[str]) -> list[str]:
    width = max(len(word) for word in words)
    edge = f"+{'-' * (width + 2)}+"
    return [edge, *(f"| {word:<{width}} |" for word in words), edge]
