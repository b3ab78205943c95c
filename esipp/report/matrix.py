"""The matrix of path checks: Services and entries down, clients and families across. Equal lines are merged.

A line starts as one Service at one entry over one protocol. Lines of one kind (the same Service but for its traits,
or another protocol) merge if all their fields agree. A line that differs stays, and names its protocols if it does
not cover all tested ones.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from esipp.base.document import Cell, Table
from esipp.checks.check import Status, Verdict
from esipp.checks.model import AddressClass, Family, Protocol, Vantage
from esipp.ledger.conclusion import WORST_FIRST
from esipp.ledger.recorded_checks import Place, RecordedCheck

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
    Status.RECORDED: "r",
    Status.FAIL: "!",
    Status.FLAKY: "~",
    Status.KNOWN: "k",
    Status.UNSUPPORTED: "u",
    Status.INCONCLUSIVE: "?",
    Status.ERROR: "E",
}
LEGEND = (
    "Source address that the backend saw: C the client's (for a host process: an address of its node), N a node's, "
    "H the backend's own node's (hairpin), P another pod's, L the load balancer's, X any other; - the client got no "
    "answer. Two letters: both occurred.",
    "Verdict, the worst of all checks in the field: no sign as required, ! fail, ~ flaky, k known difference, "
    "? inconclusive, u unsupported, E suite error, r recorded only. A dot: no check.",
    "Each kind of client has a table. A line covers every protocol tested there unless it names some. (+n): n more "
    "Services, with other traits or with no policy set, show the same; Services that differ have lines of their own. "
    "(2nd): a second address of the node. v4, v6: IPv4, IPv6.",
)

CLIENTS = {Vantage.OUTSIDE: "clients outside", Vantage.POD: "pods", Vantage.NODE: "host processes"}
"""The kinds of clients. In a text each has a table of its own, as a table of all clients would be too wide."""

Column = tuple[str, str]
"""Client and family."""


Asked = tuple[Place, RecordedCheck, Verdict]
Fields = dict[Column, list[tuple[RecordedCheck, Verdict]]]


@dataclass
class Line:
    """A line in the making: the Services and protocols it covers at one entry, its fields and their checks."""

    entry: str
    fields: dict[Column, str]
    stands_for: dict[str, set[str]] = field(default_factory=dict)
    made: Fields = field(default_factory=dict)

    def title(self, tested: Mapping[tuple[str, str], set[str]]) -> str:
        """The first Service, the entry, the protocols unless all are covered, and the number of further Services."""
        first, *more = self.stands_for
        name = f"{first}  {self.entry}".rstrip()
        protocols = self.stands_for[first]
        if protocols != tested[first, self.entry]:
            name += f"  {' '.join(p for p in Protocol if p in protocols)}"
        return name + (f" (+{len(more)})" if more else "")


@dataclass(frozen=True)
class Grid:
    """The lines with their ``titles``, in order; the columns are each client in each family."""

    lines: Sequence[Line]
    titles: Sequence[str]
    clients: Sequence[str]
    families: Sequence[Family]


def grid(checks: Sequence[RecordedCheck], verdicts: Mapping[str, Verdict]) -> Grid | None:
    """The matrix of all tested checks; None if there are none. Unsupported checks are reported elsewhere."""
    asked = [
        (check.place, check, verdicts[check.id])
        for check in checks
        if check.place and check.id in verdicts and verdicts[check.id].status is not Status.UNSUPPORTED
    ]
    if not asked:
        return None
    lines, tested = _lines(asked)
    clients = [client for _, client in sorted({(place.client_order, place.client) for place, _, _ in asked})]
    families = [family for family in Family if any(place.family == family for place, _, _ in asked)]
    return Grid(lines, [line.title(tested) for line in lines], clients, families)


def tables(checks: Sequence[RecordedCheck], verdicts: Mapping[str, Verdict]) -> tuple[Table, ...]:
    """The matrix as a table for each kind of client with tested checks; lines merge within it."""
    kinds = {
        title: grid([check for check in checks if check.place and check.place.vantage is kind], verdicts)
        for kind, title in CLIENTS.items()
    }
    return tuple(_table(title, found) for title, found in kinds.items() if found)


def _table(caption: str, whole: Grid) -> Table:
    """A cell has a field for each family."""
    names = " ".join("v4" if family is Family.IPV4 else "v6" for family in whole.families)
    rows: list[tuple[Cell, ...]] = [("", *[names] * len(whole.clients))]
    for line, title in zip(whole.lines, whole.titles, strict=True):
        fields = [
            [line.fields.get((client, family.value), ".") for family in whole.families] for client in whole.clients
        ]
        rows.append((title, *map(" ".join, fields)))
    return Table(("", *(client.replace("-", " ") for client in whole.clients)), tuple(rows), caption)


def _lines(asked: Iterable[Asked]) -> tuple[list[Line], Mapping[tuple[str, str], set[str]]]:
    """The lines, and the tested protocols of each Service at each entry."""
    found: dict[tuple[str, str, str], Fields] = {}
    kinds: dict[tuple[str, str, str], str] = {}
    order: dict[tuple[str, str, str], tuple[object, ...]] = {}
    tested: dict[tuple[str, str], set[str]] = {}
    for place, check, verdict in asked:
        key = (place.service, place.entry, place.protocol)
        found.setdefault(key, {}).setdefault((place.client, place.family), []).append((check, verdict))
        kinds[key], order[key] = place.kind, place.order
        tested.setdefault(key[:2], set()).add(place.protocol)
    lines: dict[str, list[Line]] = {}
    for key in sorted(found, key=lambda key: (order[key], [*Protocol].index(Protocol(key[2])))):
        fields = {column: in_short(made) for column, made in found[key].items()}
        kin = lines.setdefault(kinds[key], [])
        line = next((each for each in kin if fields.items() <= each.fields.items()), None)
        if line is None:
            line = Line(key[1], fields)
            kin.append(line)
        line.stands_for.setdefault(key[0], set()).add(key[2])
        for column, made in found[key].items():
            line.made.setdefault(column, []).extend(made)
    return [line for kin in lines.values() for line in kin], tested


def in_short(made: Sequence[tuple[RecordedCheck, Verdict]]) -> str:
    """The letters seen, and the sign of the worst verdict."""
    worst = min((verdict for _, verdict in made), key=lambda verdict: WORST_FIRST.index(verdict.status))
    seen = "".join(sorted({LETTERS[each] for _, verdict in made for each in verdict.shown}))
    return (seen[:2] or " ") + MARKS[worst.status]
