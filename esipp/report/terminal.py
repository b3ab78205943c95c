"""What a run says on a terminal, or in a log: a matrix, the counts, each failure, the last word. No colour needed."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence

from esipp.model import AddressClass, Cell, Client, Family, Level, Path, Status, Vantage
from esipp.observation import Verdict
from esipp.report.conclusion import WORST_FIRST, Conclusion
from esipp.report.diagnosis import diagnose

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
    "The backend saw: C the client's address, N a node's, P another pod's, L the load balancer's, X any other; "
    "- the client got no answer.",
    "Verdict behind it: none as required, ! fail, ~ flaky, k known difference, ? inconclusive, u unsupported, "
    "E error of ours; . no row. v4, v6: IPv4, IPv6.",
)


def matrix(cells: Sequence[Cell], verdicts: Mapping[str, Verdict]) -> list[str]:
    """Services and entries down, clients and families across; a field shows what was seen and the worst verdict."""
    fields: dict[tuple[str, str, Family], list[Verdict]] = {}
    rows: list[str] = []
    seen_clients: set[Client] = set()
    for cell in cells:
        if cell.id not in verdicts:
            continue
        row, client = _row_title(cell.path), cell.path.client.name
        fields.setdefault((row, client, cell.path.family), []).append(verdicts[cell.id])
        rows += [row] if row not in rows else []
        seen_clients.add(cell.path.client)
    clients = [c.name for c in sorted(seen_clients, key=lambda c: (list(Vantage).index(c.vantage), c.name))]
    families = [family for family in Family if any(key[2] is family for key in fields)]
    if not fields:
        return []
    first = max(len(row) for row in rows) + 1
    widest = 6 if len(families) > 1 else 12
    field = max(4, min(widest, (WIDTH - first) // (len(clients) * len(families))))
    width = field * len(families)
    heads = [textwrap.wrap(client, width=max(width - 1, 8)) for client in clients]
    depth = max(len(head) for head in heads)
    lines = []
    for level in range(depth):
        words = [head[level - depth + len(head)] if level >= depth - len(head) else "" for head in heads]
        lines.append(" " * first + "".join(f"{word:<{width}}" for word in words))
    short = "".join(f"{'v4' if family is Family.IPV4 else 'v6':<{field}}" for family in families)
    lines.append(" " * first + short * len(clients))
    for row in rows:
        marks = "".join(
            f"{_field(fields.get((row, client, family))):<{field}}" for client in clients for family in families
        )
        lines.append(f"{row:<{first}}{marks}")
    return [line.rstrip() for line in lines]


def _row_title(path: Path) -> str:
    if path.service is None:
        return "pod IP"
    policy = f" {path.service.policy.value}" if path.service.policy else ""
    entry = f", {path.entry.slug.replace('-', ' ')}" if path.entry.role else ""
    return f"{path.service.type.value}{policy}{entry}"


def _field(verdicts: Sequence[Verdict] | None) -> str:
    if not verdicts:
        return "."
    worst = min(verdicts, key=lambda verdict: WORST_FIRST.index(verdict.status))
    seen = "".join(sorted({LETTERS[each] for verdict in verdicts for each in verdict.shown}))
    return (seen[:2] or " ") + MARKS[worst.status] if worst.status is not Status.UNSUPPORTED else "u"


def failures(cells: Iterable[Cell], verdicts: Mapping[str, Verdict], repeat: str) -> list[str]:
    """For each row that is not fine: what is required, what was expected, what was seen by whom, how to repeat it.

    Rows of one way in that show the same are one cause: where to look is told once, what each saw is told of each.
    """
    wanted = (Status.FAIL, Status.FLAKY, Status.ERROR, Status.INCONCLUSIVE)
    groups: dict[tuple[object, ...], list[Cell]] = {}
    for cell in cells:
        verdict = verdicts.get(cell.id)
        if verdict is None or verdict.status not in wanted:
            continue
        open_question = verdict.status is Status.INCONCLUSIVE
        cause = verdict.reason.partition(", but ")[0] if open_question else (_row_title(cell.path), verdict.shown)
        groups.setdefault((verdict.status, cause, diagnose(cell, verdict)), []).append(cell)
    lines: list[str] = []
    for first, *others in groups.values():
        verdict = verdicts[first.id]
        lines += ["", f"{verdict.status.value.upper()} ({first.level.value}) {first.id}", *_what(first, verdict)]
        for label, text in (("reason", verdict.reason), ("likely", diagnose(first, verdict))):
            lines += _fold(label, text) if text else []
        lines += _fold("see", "; ".join(first.references))
        lines += [f"  {'repeat':<9} {repeat} {first.id}"]
        if others:
            lines.append(f"  {len(others)} more rows, for the same reason; each is repeated by its id:")
        for cell in others:
            lines.append(f"  {'also':<9} ({cell.level.value}) {cell.id}")
            if verdict.status is not Status.INCONCLUSIVE:  # of what could not be decided, nothing was seen
                lines += _what(cell, verdicts[cell.id])
    return lines


def _what(cell: Cell, verdict: Verdict) -> list[str]:
    """What is required, what was expected here, what was seen and by whom."""
    witnesses = f" (by the echo server and the prober of {cell.path.client.name})" if verdict.tally else ""
    return [
        *_fold("required", cell.requirement),
        *_fold("expected", verdict.expected),
        *_fold("observed", verdict.observed + witnesses),
    ]


def _fold(label: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=f"  {label:<9} ", subsequent_indent=" " * 12, break_long_words=False
    )


def counts(cells: Iterable[Cell], verdicts: Mapping[str, Verdict]) -> list[str]:
    """How many rows of each level got which verdict."""
    table: dict[Level, dict[Status, int]] = {}
    for cell in cells:
        if cell.id in verdicts:
            row = table.setdefault(cell.level, {})
            status = verdicts[cell.id].status
            row[status] = row.get(status, 0) + 1
    return [
        f"{level.value:<9} {sum(row.values()):>4} rows: "
        + ", ".join(f"{row[status]} {status.value}" for status in reversed(WORST_FIRST) if status in row)
        for level, row in sorted(table.items())
    ]


def known_and_missing(cells: Iterable[Cell], verdicts: Mapping[str, Verdict]) -> list[str]:
    """What differs for a known reason, and what was not tested and why, each reason once."""
    lines = []
    for status, title in ((Status.KNOWN, "known difference"), (Status.UNSUPPORTED, "not tested")):
        reasons: dict[str, int] = {}
        for cell in cells:
            verdict = verdicts.get(cell.id)
            if verdict and verdict.status is status:
                reason = verdict.reason + (f" [{verdict.reference}]" if verdict.reference else "")
                reasons[reason] = reasons.get(reason, 0) + 1
        for reason, count in reasons.items():
            lines += textwrap.wrap(f"{title}, {count} rows: {reason}", WIDTH, subsequent_indent="  ")
    return lines


def summary(cells: Sequence[Cell], verdicts: Mapping[str, Verdict], end: Conclusion, repeat: str) -> list[str]:
    """Everything that is said at the end of a run."""
    lines = matrix(cells, verdicts)
    if lines:
        lines += [""] + [part for text in LEGEND for part in textwrap.wrap(text, WIDTH)]
    lines += ["", *counts(cells, verdicts)]
    lines += known_and_missing(cells, verdicts)
    lines += failures(cells, verdicts, repeat)
    return [*lines, "", end.sentence]
