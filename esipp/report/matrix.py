"""The matrix: services and entries down, clients and families across. What shows the same is one line.

A line begins as one service, at one entry, over one protocol. It is told together with another one of its kind (the
same service but for its traits, or another protocol) if every field of it shows what the other's does; so whatever
differs stands in a line of its own, and says in which protocol, if not in all.
"""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from esipp.model import (
    AddressClass,
    Balancer,
    Cell,
    Client,
    EntryKind,
    Family,
    Path,
    Protocol,
    Role,
    ServiceType,
    TrafficPolicy,
    Vantage,
)
from esipp.observation import Verdict
from esipp.report.conclusion import WORST_FIRST
from esipp.rows import Level, Status
from esipp.topology import POD_BACKEND

WIDTH = 100

LETTERS = {
    AddressClass.CLIENT: "C",
    AddressClass.NODE: "N",
    AddressClass.POD: "P",
    AddressClass.LOAD_BALANCER: "L",
    AddressClass.HAIRPIN: "H",
    AddressClass.OTHER: "X",
    AddressClass.DROPPED: "-",
    AddressClass.REFUSED: "-",
}
MARKS = {
    Status.PASS: "",
    Status.FAIL: "!",
    Status.FLAKY: "~",
    Status.KNOWN: "k",
    Status.UNSUPPORTED: "u",
    Status.INCONCLUSIVE: "?",
    Status.ERROR: "E",
}
LEGEND = (
    "The backend saw: C the client's address (a host process: one of its node's), N a node's, H its own node's "
    "(hairpin), P another pod's, L the load balancer's, X any other; - the client got no answer. Two letters: some of "
    "each.",
    "Verdict behind it: none as required, ! fail, ~ flaky, k known difference, ? inconclusive, u unsupported, E error "
    "of ours, r recorded only; the worst of all rows in the field. . no row.",
    "A line holds for every protocol that was tested, unless it names some. (+n): n services that are made otherwise, "
    "or have no policy set, show the same; those that do not stand in lines of their own. (2nd): at a second address "
    "of the node. v4, v6: IPv4, IPv6.",
)

Column = tuple[Client, Family]


@dataclass
class Line:
    """A line in the making: the services and protocols it stands for, at one entry, and its fields."""

    entry: str
    fields: dict[Column, str]
    stands_for: dict[str, set[Protocol]] = field(default_factory=dict)

    def title(self, tested: Mapping[tuple[str, str], set[Protocol]]) -> str:
        """The first service, the entry, the protocols if they are not all, and how many more services."""
        first, *more = self.stands_for
        name = f"{first}  {self.entry}".rstrip()
        protocols = self.stands_for[first]
        if protocols != tested[first, self.entry]:
            name += f"  {' '.join(p.value for p in Protocol if p in protocols)}"
        return name + (f" (+{len(more)})" if more else "")


def matrix(cells: Sequence[Cell], verdicts: Mapping[str, Verdict]) -> list[str]:
    """The matrix of all rows that were asked; those that could not be are told elsewhere, with the reason."""
    asked = [c for c in cells if c.id in verdicts and verdicts[c.id].status is not Status.UNSUPPORTED]
    if not asked:
        return []
    lines, tested = _lines(asked, verdicts)
    seen = {cell.path.client for cell in asked}
    clients = sorted(seen, key=lambda c: (c.name == POD_BACKEND, list(Vantage).index(c.vantage), c.name))
    families = [family for family in Family if any(cell.path.family is family for cell in asked)]
    columns = [(client, family) for client in clients for family in families]
    widest = max(len(text) for line in lines for text in line.fields.values())
    heads = [_head(client) for client in clients]
    narrow = max(widest + 1, 4)
    width = max([narrow * len(families), *(len(word) + 1 for head in heads for word in head)])
    first = min(max(len(line.title(tested)) for line in lines) + 1, WIDTH - width * len(clients))
    depth = max(len(head) for head in heads)
    out = []
    for level in range(depth):
        words = [head[level] if level < len(head) else "" for head in heads]
        out.append(" " * first + "".join(f"{word:<{width}}" for word in words))
    short = _across({c: "v4" if c[1] is Family.IPV4 else "v6" for c in columns}, clients, families, narrow, width)
    out.append(" " * first + short)
    for line in lines:
        title = line.title(tested)
        if len(title) >= first:  # too long to stand beside its fields
            out.append(title)
            title = ""
        out.append(f"{title:<{first}}" + _across(line.fields, clients, families, narrow, width))
    return [text.rstrip() for text in out]


def _head(client: Client) -> list[str]:
    """A client's name in lines that break between words, short ones together."""
    return textwrap.wrap(client.name.replace("-", " "), width=8)


def _across(
    fields: Mapping[Column, str], clients: Sequence[Client], families: Sequence[Family], narrow: int, width: int
) -> str:
    """One line of fields: each client's families side by side."""
    groups = ("".join(f"{fields.get((client, f), '.'):<{narrow}}" for f in families) for client in clients)
    return "".join(f"{group:<{width}}" for group in groups)


def _lines(
    asked: Iterable[Cell], verdicts: Mapping[str, Verdict]
) -> tuple[list[Line], Mapping[tuple[str, str], set[Protocol]]]:
    """The lines, and which protocols were tested of each service at each entry."""
    rows: dict[tuple[str, str, Protocol], dict[Column, list[tuple[Cell, Verdict]]]] = {}
    kinds: dict[tuple[str, str, Protocol], tuple[object, ...]] = {}
    order: dict[tuple[str, str, Protocol], tuple[object, ...]] = {}
    tested: dict[tuple[str, str], set[Protocol]] = {}
    for cell in asked:
        path = cell.path
        key = (_service(path), entry_name(path), path.protocol)
        rows.setdefault(key, {}).setdefault((path.client, path.family), []).append((cell, verdicts[cell.id]))
        kinds[key], order[key] = _kind(path), _place(path)
        tested.setdefault(key[:2], set()).add(path.protocol)
    lines: dict[tuple[object, ...], list[Line]] = {}
    for key in sorted(rows, key=lambda key: (order[key], list(Protocol).index(key[2]))):
        fields = {column: _field(made) for column, made in rows[key].items()}
        kin = lines.setdefault(kinds[key], [])
        line = next((each for each in kin if fields.items() <= each.fields.items()), None)
        if line is None:
            line = Line(key[1], fields)
            kin.append(line)
        line.stands_for.setdefault(key[0], set()).add(key[2])
    return [line for kin in lines.values() for line in kin], tested


def _service(path: Path) -> str:
    return path.service.slug if path.service else "pod IP"


def entry_name(path: Path) -> str:
    """The entry as a line names it: nothing where the service says it, a node's part where one is dialled."""
    entry, service = path.entry, path.service
    if entry.kind is EntryKind.SECOND_ADDRESS and entry.role:
        return f"{entry.role.value} (2nd)"
    if entry.role:
        return entry.role.value
    own = {EntryKind.POD_IP: None, EntryKind.CLUSTER_IP: "clusterip", EntryKind.VIP: "loadbalancer"}[entry.kind]
    return "" if own is None or (service and service.slug.startswith(own)) else entry.slug


def way_in(path: Path) -> str:
    """Service and entry, as a line of the matrix names them."""
    return f"{_service(path)}  {entry_name(path)}".rstrip()


def _kind(path: Path) -> tuple[object, ...]:
    """What may stand in one line: the entry, and the service without its traits; at a ClusterIP they are all alike."""
    service = path.service
    if service is None:
        return (path.entry,)
    if path.entry.kind is EntryKind.CLUSTER_IP:
        return (path.entry, service.internal)
    policy = service.policy.value if service.policy else "Cluster"  # the default, where it is left unset
    return (path.entry, service.type, policy, service.balancer, service.external_ips)


def _place(path: Path) -> tuple[object, ...]:
    """Where a line stands: by kind of service, then its entries, then the plain service before the others."""
    service, entry = path.service, path.entry
    kind = -1 if entry.kind is EntryKind.VIP else list(EntryKind).index(entry.kind)
    role = list(Role).index(entry.role) if entry.role else -1
    if service is None or entry.kind is EntryKind.CLUSTER_IP:
        return (0, kind, "", 0, 0, service.internal is not None if service else False, len(_service(path)))
    types = [*ServiceType].index(service.type), list(Balancer).index(service.balancer)
    policy = (service.policy or TrafficPolicy.CLUSTER).value
    return (1, *types, policy, kind, role, service.policy is None, len(service.slug))


def _field(made: Sequence[tuple[Cell, Verdict]]) -> str:
    """What was seen, and the worst verdict; what was only recorded says so."""
    worst = min((verdict for _, verdict in made), key=lambda verdict: WORST_FIRST.index(verdict.status))
    seen = "".join(sorted({LETTERS[each] for _, verdict in made for each in verdict.shown}))
    recorded = all(cell.level is Level.RECORD for cell, _ in made) and worst.status is Status.PASS
    return (seen[:2] or " ") + ("r" if recorded else MARKS[worst.status])
