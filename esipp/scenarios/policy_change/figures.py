"""The section on policy changes: what each entry shows while a Service's policy changes to Cluster and back."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from esipp.base.document import Block, Figure, Fold, Section, Table, Text, number
from esipp.base.drawing import ACCENT, BAD, INK, MUTED, PAPER, WIDTH, Drawing, Scale
from esipp.base.plural import counted as many
from esipp.judging.showing import attempt, headed, quantile, real, shorten
from esipp.ledger.reading import RecordedRun

ID = "flips"
TITLE = "Policy changes"
SUITE = "compatibility"
LEFT = 190.0
LANE = 17.0
MOST_LANES = 24
DIRECTIONS = ("Cluster", "Local")
SILENCE = 0.9
"""A gap in the answers of at most so many seconds does not end a stable period; its requests count as lost."""

NO_ANSWER = ("timeout", "refused", "unreachable", "reset", "pending")

Record = Mapping[str, Any]


class Shown(NamedTuple):
    """The source that equal probes in a row showed: ``client``, ``node``, ``none`` or ``other``."""

    since: float
    until: float
    probes: int
    what: str


class Owners:
    """The owners of source addresses, from the run's topology."""

    def __init__(self, topology: Mapping[str, Any]) -> None:
        clients = (topology.get("clients") or {}).values()
        self._client = {a for each in clients if each.get("vantage") == "outside" for a in each.get("addresses") or ()}
        nodes = (topology.get("nodes") or {}).values()
        self._node = {a for each in nodes for a in each.get("addresses") or ()}
        self.known = bool(self._client)

    def __call__(self, outcome: str, source: str) -> str:
        """The source that a probe with this outcome and address showed."""
        if outcome in NO_ANSWER:
            return "none"
        if outcome != "answered":
            return "other"
        return "client" if source in self._client else "node" if source in self._node else "other"


def section(run: RecordedRun) -> Section:
    """The section; empty if no policy changed."""
    flips, streams = run.of(SUITE, "flip"), run.of(SUITE, "stretch")
    obstacles = run.of(SUITE, "obstacle")
    isolation = attempt("Isolation", lambda: _isolation(run))
    if not flips and not streams and not obstacles and not isolation:
        return Section(TITLE)
    services = list(dict.fromkeys(str(each.get("service")) for each in [*flips, *streams, *obstacles]))
    blocks: list[Block] = [Text(_LEGEND)] if streams else []
    for at, service in enumerate(services):
        blocks += attempt(f"The policy changes of {service}", partial(_service, run, service, at))
    return Section(TITLE, (*blocks, *isolation), f"seen-{ID}")


_LEGEND = (
    "Each line shows the source that new connections at one entry had. Full bar, C: the client's own address. Half "
    "bar, N: a node's address. Thin line: no answer at the node without local endpoints, as Local requires. Thick "
    "line: no answer elsewhere. Hollow bar, ?: anything else. At the health-check port: full bar 200, hollow bar 503, "
    "thin line closed. Vertical lines are the calls that change the policy."
)


def _of(found: Iterable[Record], service: str) -> list[Record]:
    return [each for each in found if str(each.get("service")) == service]


def _service(run: RecordedRun, service: str, which: int) -> list[Block]:
    flips = sorted(_of(run.of(SUITE, "flip"), service), key=lambda each: float(each["cause"]))
    streams, owners = _of(run.of(SUITE, "stretch"), service), Owners(run.topology)
    words = [
        Text(f"{each.get('at')} {each.get('family')} could not be tested: {each.get('why')}")
        for each in _of(run.of(SUITE, "obstacle"), service)
    ]
    if not flips or not streams:
        return headed(service, [Text("The run has no observations of its policy changes."), *words])
    lanes = {f"{each['at']} {each['family']}": shown(each["stretches"], owners) for each in streams}
    ends = [at for each in streams if (at := real(each.get("end"))) is not None]
    end = max(ends, default=max(run_.until for of in lanes.values() for run_ in of))
    rows = _stable(flips, lanes, end)
    drawing = _drawing(f"flips-{which}", service, flips, lanes, _of(run.of(SUITE, "health"), service), end)
    drawing.words = _words(rows)
    head = ["entry", *(f"to {to}: {of}" for to in DIRECTIONS for of in ("p50 (s)", "max (s)", "n", "never"))]
    numbers = Table.of([*head, "probes", "no answer"], rows)
    longest = max((at for row in rows for at in (row[2], row[6]) if at is not None), default=None)
    never = sum(row[4] + row[8] for row in rows)
    summary = f"Seconds until stable by entry: at most {number(longest)}; never stable: {never}"
    caption = (
        f"{service}: {many(sum(1 for each in flips if each.get('number')), 'policy change')}. The table has the "
        "seconds from the call until traffic showed the new policy and kept doing so until the next change. At the "
        "node without local endpoints, Local requires no answer."
    )
    kept = _kept(run, service)
    return headed(service, [Figure(drawing, caption), Fold(summary, (numbers,)), *kept, *words])


def _at(name: str) -> str:
    return name.rpartition(" ")[0]


def shown(stretches: Iterable[Sequence[Any]], owners: Owners) -> list[Shown]:
    """The observations of a stream, equal ones in a row merged."""
    found: list[Shown] = []
    for since, until, probes, outcome, _, source in stretches:
        what = owners(str(outcome), str(source))
        last = found[-1] if found else None
        if last and last.what == what:
            found[-1] = last._replace(until=float(until), probes=last.probes + int(probes))
        else:
            found.append(Shown(float(since), float(until), int(probes), what))
    return found


def _right(at: str, policy: str) -> tuple[str, ...]:
    """What new connections from outside must show under a policy; losses are allowed except at the bare node."""
    if policy == "Local":
        return ("none",) if at == "bare-node" else ("client",)
    return ("node",)


def _stable(flips: Sequence[Record], lanes: Mapping[str, Sequence[Shown]], end: float) -> list[list[Any]]:
    """Rows of the table: seconds until stable by entry and direction as the judge measures them, and probe counts."""
    rows: list[list[Any]] = []
    for name, of in lanes.items():
        figures: list[Any] = []
        for policy in DIRECTIONS:
            times: list[float] = []
            never = 0
            for at, flip in enumerate(flips):
                if flip.get("to") != policy or not flip.get("number"):
                    continue
                since = float(flip["cause"])
                until = float(flips[at + 1]["cause"]) if at + 1 < len(flips) else end
                here = [each for each in of if each.until >= since and each.since < until]
                began = steady(here, _right(_at(name), policy), since, until)
                times += [began - since] if began is not None else []
                never += began is None
            figures += [quantile(times, 0.5), max(times)] if times else [None, None]
            figures += [len(times), never]
        rows.append([name, *figures, sum(e.probes for e in of), sum(e.probes for e in of if e.what == "none")])
    return rows


def _words(rows: Iterable[Sequence[Any]]) -> str:
    """The table in words."""
    return "Seconds from the call until stable. " + "; ".join(
        f"{row[0]}: to Cluster p50 {number(row[1])}, max {number(row[2])}, n {row[3]}, never {row[4]}; "
        f"to Local p50 {number(row[5])}, max {number(row[6])}, n {row[7]}, never {row[8]}"
        for row in rows
    )


def steady(found: Sequence[Shown], right: Sequence[str], since: float, until: float) -> float | None:
    """The start of the last uninterrupted run of right answers; None if the end has none."""
    began, last = None, until
    for each in reversed(found):
        if each.what in right:
            if last - min(each.until, until) > SILENCE:
                break
            began = last = max(each.since, since)
        elif each.what != "none" or last - each.since > SILENCE:
            break
    return began


# ------------------------------------------------------------------------------------------------------------- drawing
def _drawing(
    ident: str,
    service: str,
    flips: Sequence[Record],
    lanes: Mapping[str, Sequence[Shown]],
    ports: Sequence[Record],
    end: float,
) -> Drawing:
    begin = float(flips[0]["cause"])
    drawing = Drawing(ident, f"Sources at {service} while its policy changes", "")
    scale = Scale(0, max(1.0, end - begin), LEFT, WIDTH - 8)
    top = y = 8.0
    drawing.text(LEFT - 8, y + 12, "policy as set", anchor="end", bold=True)
    for at, flip in enumerate(flips):
        since = float(flip["cause"]) - begin
        until = float(flips[at + 1]["cause"]) - begin if at + 1 < len(flips) else scale.high
        local = flip.get("to") == "Local"
        drawing.box(scale(since), y + 1, scale(until) - scale(since), 14, fill=ACCENT if local else MUTED, faint=True)
        drawing.box(scale(since), y + 1, scale(until) - scale(since), 14, stroke=MUTED)
        drawing.text((scale(since) + scale(until)) / 2, y + 12, str(flip.get("to")), anchor="middle", size=11)
    y += LANE + 5
    for name, of in list(lanes.items())[:MOST_LANES]:
        drawing.text(LEFT - 8, y + 12, shorten(name, 28), anchor="end")
        for each in of:
            _bar(drawing, each, scale, begin, y, MUTED if _at(name) == "bare-node" else BAD)
        y += LANE
    y += 5
    by_node: dict[str, list[Sequence[Any]]] = {}
    for port in ports:
        by_node.setdefault(f"port at {port['node']} {port['family']}", []).extend(port["stretches"])
    for name, runs in list(by_node.items())[:MOST_LANES]:
        drawing.text(LEFT - 8, y + 11, shorten(name, 30), anchor="end", fill=MUTED, size=11)
        for run_ in sorted(runs, key=lambda run_: float(run_[0])):
            _port(
                drawing, scale(float(run_[0]) - begin), min(scale(float(run_[1]) - begin), scale.right), str(run_[3]), y
            )
        y += LANE - 3
    for flip in flips:
        x = scale(float(flip["cause"]) - begin)
        drawing.line((x, top), (x, y), stroke=INK, wide=0.8, dash="2 3")
    drawing.axis(scale, top, y, "s", most=12)
    drawing.height = y + 20
    return drawing


def _bar(drawing: Drawing, each: Shown, scale: Scale, begin: float, y: float, silent: str) -> None:
    left, right = scale(each.since - begin), min(scale(each.until - begin), scale.right)
    width = max(right - left, 1.2)
    if each.what == "client":
        drawing.box(left, y + 2, width, 12, fill=ACCENT)
    elif each.what == "node":
        drawing.box(left, y + 8, width, 6, fill=INK)
    elif each.what == "none":
        wrong = silent == BAD  # the weight of the line shows it too
        drawing.line((left, y + 13), (left + width, y + 13), stroke=silent, wide=4 if wrong else 1.6)
    else:
        drawing.box(left, y + 2, width, 12, stroke=BAD)
    if width > 16 and each.what != "none":
        letter = {"client": "C", "node": "N"}.get(each.what, "?")
        fill = PAPER if each.what == "client" else INK
        drawing.text(
            left + 3, y + (7 if each.what == "node" else 12), letter, size=7 if each.what == "node" else 10, fill=fill
        )


def _port(drawing: Drawing, left: float, right: float, outcome: str, y: float) -> None:
    width = max(right - left, 1.2)
    if outcome == "200":
        drawing.box(left, y + 3, width, 8, fill=INK)
    elif outcome == "503":
        drawing.box(left, y + 3, width, 8, stroke=INK)
    elif outcome in NO_ANSWER:
        drawing.line((left, y + 10), (left + width, y + 10), stroke=MUTED, wide=1.2)
    else:
        drawing.box(left, y + 3, width, 8, stroke=BAD)
        drawing.text(left, y + 10, outcome if width > 30 else "?", size=8, fill=BAD)


# -------------------------------------------------------------------------------------------------- kept and neighbours
def _kept(run: RecordedRun, service: str) -> list[Block]:
    by_entry: dict[str, list[Record]] = {}
    for each in _of(run.of(SUITE, "kept"), service):
        by_entry.setdefault(f"{each.get('at')} {each.get('family')}", []).append(each)
    if not by_entry:
        return []
    rows = []
    for name, of in by_entry.items():
        whole = sum(1 for each in of if all(run_[3] == "answered" for run_ in each["stretches"]))
        exchanges = sum(int(run_[2]) for each in of for run_ in each["stretches"])
        rows.append([name, len(of), whole, exchanges])
    head = ["connections opened before the changes, at", "connections", "answered in every exchange", "exchanges"]
    return [Table.of(head, rows)]


def _isolation(run: RecordedRun) -> list[Block]:
    paths, flips = run.of(SUITE, "beside"), run.of(SUITE, "neighbour-flip")
    if not paths and not flips:
        return []
    made: dict[str, int] = {}
    for each in flips:
        made[str(each.get("service"))] = made.get(str(each.get("service")), 0) + 1
    total = sum(int(of[3]) for each in paths for of in each["shown"])
    several = [each for each in paths if len({(of[0], of[1]) for of in each["shown"]}) > 1]
    words = (
        f"{many(total, 'connection')} on {many(len(paths), 'path')} of unchanged Services, while "
        + (
            ", ".join(f"{name} changed its policy {many(count, 'time')}" for name, count in sorted(made.items()))
            or "no other Service changed its policy"
        )
        + "."
    )
    rows = [
        [
            str(each["path"]),
            "; ".join(f"{of[0]} {of[1]} x{of[3]}" for of in each["shown"]),
            sum(int(of[3]) for of in each["shown"]),
        ]
        for each in several
    ]
    more = (
        Fold(f"{many(len(several), 'path')} with different observations", (Table.of(["path", "observed", "n"], rows),))
        if several
        else Text("The observations of each path did not change.")
    )
    return headed("Isolation: unchanged Services while others change their policy", [Text(words), more])
