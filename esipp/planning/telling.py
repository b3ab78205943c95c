"""A plan as text, and as one JSON object."""

import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from esipp.loadbalancers.profiles.model import LoadBalancer
from esipp.loadbalancers.profiles.words import asks, bound, seconds, sources_seen
from esipp.planning.plan import RUN, Plan
from esipp.rows import Level, Row

WIDTH, LABEL = 100, 15
Json = dict[str, Any]


def as_text(made: Plan) -> Iterator[str]:
    """The plan for a person."""
    profile = made.profile
    yield from _line("plan for", f"{profile.name}: {profile.title}; no cluster was asked")
    yield from _line("rows", f"{len(made.asked)} of {made.rows} would be asked: {levels(made.asked)}")
    for why, rows in sorted(made.unsupported.items(), key=lambda each: -len(each[1])):
        yield from _line("unsupported", f"{len(rows)} ({levels(rows)}) {why}")
    for limit, rows in made.limited:
        yield from _line(limit.outcome.value, f"{len(rows)} ({levels(rows)}) {limit.why}")
    if made.assumed:
        yield from _line("assumed", f"{', '.join(made.assumed)}: a cluster may lack them")
    yield from _line("pods must see", _must_see(profile))
    yield from _line("health checks", f"of Local {asks(profile.local)}; of Cluster {asks(profile.cluster)}")
    rise = f"; traffic to a new pod's node within {seconds(profile.rise)}" if profile.rise else ""
    whole = bound(profile.local)
    hole = f"at most {whole} after a node's 503: (N+1) x period" if profile.local.on else f"nothing bounds it ({whole})"
    yield from _line("black hole", hole + rise)
    yield from _line("waiting", "; ".join(_waits(made)))
    yield from _line("made at once", ", ".join(_things(made)))
    yield from _line("time", f"about {minutes(made.seconds)}")
    for part in made.parts:
        yield from _line("", f"{minutes(part.seconds)} {part.name}: {part.why}")
    for text in _left(made):
        yield from _line("if killed", text)
    for trap in profile.traps:
        yield from _line("mind", trap.text)
    yield from _line("run it", f"esipp run --context NAME --image REFERENCE --provider {profile.name}")


def _must_see(profile: LoadBalancer) -> str:
    path = profile.datapath
    out = f", told in {' or '.join(path.out_of_band.value)}" if path.out_of_band else ""
    return f"under Local {sources_seen(path.local.value)}{out}; under Cluster {sources_seen(path.cluster.value)}"


def _waits(made: Plan) -> Iterator[str]:
    patience = made.patience
    if patience.remark:
        yield patience.remark
    yield f"at most {seconds(patience.assigned)} for VIPs, {seconds(patience.answering)} for first answers"
    yield f"{seconds(patience.removed)} for removal"


def _things(made: Plan) -> Iterator[str]:
    counts = made.made
    yield f"{counts.balancers} load balancers at most" + (" (all together; each costs)" if counts.balancers else "")
    yield from [f"{counts.reference} of the reference load balancer"] if counts.reference else []
    yield f"{counts.unserved} of a class that nobody serves"
    yield f"{counts.services} other Services, {counts.pods} pods, 1 namespace"
    yield f"{counts.clients} clients outside"


def _left(made: Plan) -> Iterator[str]:
    """What stays behind, and what removes it."""
    namespace = f"namespace esipp-{RUN} with all that is in it"
    if made.made.balancers:
        namespace += f"; so {made.made.balancers} load balancers go on, and go on to cost"
    yield f"{namespace}: esipp clean --context NAME removes it"
    if made.made.clients:
        yield "the clients outside: the same command, on the same machine"
    if any("disruptive" in row.features for row in made.asked):
        yield "what was disturbed is undone by a watchdog within seconds; the same command looks after it again"


def levels(rows: Iterable[Row]) -> str:
    """How many rows of each level: ``2 core, 1 record``."""
    levels = [row.level for row in rows]
    return ", ".join(f"{levels.count(level)} {level.value}" for level in Level if level in levels) or "none"


def minutes(value: float) -> str:
    """Seconds as a plan tells them: whole minutes, from two on."""
    return f"{value / 60:.0f} min" if value >= 120 else f"{value:.0f} s"


def _line(label: str, text: str) -> Iterator[str]:
    yield from textwrap.wrap(
        f"{label:<{LABEL}}{text}", WIDTH, subsequent_indent=" " * LABEL, break_on_hyphens=False, break_long_words=False
    )


def as_json(made: Plan) -> Json:
    """The plan for a program."""
    profile, patience = made.profile, made.patience
    return {
        "provider": profile.name,
        "rows": made.rows,
        "asked": [row.id for row in made.asked],
        "unsupported": [{"why": why, "rows": [row.id for row in rows]} for why, rows in made.unsupported.items()],
        "predicted": [
            {"outcome": limit.outcome.value, "why": limit.why, "rows": [row.id for row in rows]}
            for limit, rows in made.limited
        ],
        "assumed": list(made.assumed),
        "bound": profile.local.bound if profile.local.on else None,
        "up": profile.rise,
        "waiting": {"vip": patience.assigned, "answers": patience.answering, "removal": patience.removed},
        "made": vars(made.made),
        "seconds": round(made.seconds),
        "parts": [vars(part) for part in made.parts],
        "left": list(_left(made)),
    }
