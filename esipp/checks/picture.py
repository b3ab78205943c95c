"""Text drawings of a check's topology: boxes for client, entry and backend, with their nodes."""

from esipp.checks.model import POD_BACKEND, Backends, Balancer, Client, EntryKind, Path, Role, Service, Vantage
from esipp.checks.path import PathCheck

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
