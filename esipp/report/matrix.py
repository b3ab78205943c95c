"""The matrix: services and entries down, clients and families across. What shows the same is one line.

A line begins as one service, at one entry, over one protocol. It is told together with another one of its kind (the
same service but for its traits, or another protocol) if every field of it shows what the other's does; so whatever
differs stands in a line of its own, and says in which protocol, if not in all.
"""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from esipp.checks.check import Status
from esipp.checks.model import AddressClass, Family, Protocol
from esipp.checks.observation import Verdict
from esipp.ledger.conclusion import WORST_FIRST
from esipp.ledger.recorded_checks import Place, RecordedCheck

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
    Status.RECORDED: "r",
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

Column = tuple[str, str]
"""Client and family."""


Asked = tuple[Place, RecordedCheck, Verdict]
Fields = dict[Column, list[tuple[RecordedCheck, Verdict]]]


@dataclass
class Line:
    """A line in the making: the services and protocols it stands for, at one entry, its fields and their rows."""

    entry: str
    fields: dict[Column, str]
    stands_for: dict[str, set[str]] = field(default_factory=dict)
    made: Fields = field(default_factory=dict)

    def title(self, tested: Mapping[tuple[str, str], set[str]]) -> str:
        """The first service, the entry, the protocols if they are not all, and how many more services."""
        first, *more = self.stands_for
        name = f"{first}  {self.entry}".rstrip()
        protocols = self.stands_for[first]
        if protocols != tested[first, self.entry]:
            name += f"  {' '.join(p for p in Protocol if p in protocols)}"
        return name + (f" (+{len(more)})" if more else "")


@dataclass(frozen=True)
class Grid:
    """The lines, and what stands across: each client in each family. ``titles`` are the lines' own, in their order."""

    lines: Sequence[Line]
    titles: Sequence[str]
    clients: Sequence[str]
    families: Sequence[Family]


def grid(rows: Sequence[RecordedCheck], verdicts: Mapping[str, Verdict]) -> Grid | None:
    """The matrix of all rows that were asked; None without any. Those that could not be are told elsewhere."""
    asked = [
        (row.place, row, verdicts[row.id])
        for row in rows
        if row.place and row.id in verdicts and verdicts[row.id].status is not Status.UNSUPPORTED
    ]
    if not asked:
        return None
    lines, tested = _lines(asked)
    clients = [client for _, client in sorted({(place.client_order, place.client) for place, _, _ in asked})]
    families = [family for family in Family if any(place.family == family for place, _, _ in asked)]
    return Grid(lines, [line.title(tested) for line in lines], clients, families)


def matrix(rows: Sequence[RecordedCheck], verdicts: Mapping[str, Verdict]) -> list[str]:
    """The matrix of all rows that were asked, as text."""
    whole = grid(rows, verdicts)
    if whole is None:
        return []
    lines, clients, families = whole.lines, whole.clients, whole.families
    columns = [(client, family.value) for client in clients for family in families]
    widest = max(len(text) for line in lines for text in line.fields.values())
    heads = [_head(client) for client in clients]
    narrow = max(widest + 1, 4)
    width = max([narrow * len(families), *(len(word) + 1 for head in heads for word in head)])
    first = min(max(map(len, whole.titles)) + 1, WIDTH - width * len(clients))
    depth = max(len(head) for head in heads)
    out = []
    for level in range(depth):
        words = [head[level] if level < len(head) else "" for head in heads]
        out.append(" " * first + "".join(f"{word:<{width}}" for word in words))
    short = _across({c: "v4" if c[1] == Family.IPV4 else "v6" for c in columns}, clients, families, narrow, width)
    out.append(" " * first + short)
    for line, title in zip(lines, whole.titles, strict=True):
        beside = len(title) < first  # or too long to stand beside its fields
        out += [] if beside else [title]
        out.append(f"{title if beside else '':<{first}}" + _across(line.fields, clients, families, narrow, width))
    return [text.rstrip() for text in out]


def _head(client: str) -> list[str]:
    """A client's name in lines that break between words, short ones together."""
    return textwrap.wrap(client.replace("-", " "), width=8)


def _across(
    fields: Mapping[Column, str], clients: Sequence[str], families: Sequence[Family], narrow: int, width: int
) -> str:
    """One line of fields: each client's families side by side."""
    groups = ("".join(f"{fields.get((client, f.value), '.'):<{narrow}}" for f in families) for client in clients)
    return "".join(f"{group:<{width}}" for group in groups)


def _lines(asked: Iterable[Asked]) -> tuple[list[Line], Mapping[tuple[str, str], set[str]]]:
    """The lines, and which protocols were tested of each service at each entry."""
    rows: dict[tuple[str, str, str], Fields] = {}
    kinds: dict[tuple[str, str, str], str] = {}
    order: dict[tuple[str, str, str], tuple[object, ...]] = {}
    tested: dict[tuple[str, str], set[str]] = {}
    for place, row, verdict in asked:
        key = (place.service, place.entry, place.protocol)
        rows.setdefault(key, {}).setdefault((place.client, place.family), []).append((row, verdict))
        kinds[key], order[key] = place.kind, place.order
        tested.setdefault(key[:2], set()).add(place.protocol)
    lines: dict[str, list[Line]] = {}
    for key in sorted(rows, key=lambda key: (order[key], [*Protocol].index(Protocol(key[2])))):
        fields = {column: in_short(made) for column, made in rows[key].items()}
        kin = lines.setdefault(kinds[key], [])
        line = next((each for each in kin if fields.items() <= each.fields.items()), None)
        if line is None:
            line = Line(key[1], fields)
            kin.append(line)
        line.stands_for.setdefault(key[0], set()).add(key[2])
        for column, made in rows[key].items():
            line.made.setdefault(column, []).extend(made)
    return [line for kin in lines.values() for line in kin], tested


def in_short(made: Sequence[tuple[RecordedCheck, Verdict]]) -> str:
    """What was seen, and the worst verdict; what was only recorded says so."""
    worst = min((verdict for _, verdict in made), key=lambda verdict: WORST_FIRST.index(verdict.status))
    seen = "".join(sorted({LETTERS[each] for _, verdict in made for each in verdict.shown}))
    return (seen[:2] or " ") + MARKS[worst.status]
