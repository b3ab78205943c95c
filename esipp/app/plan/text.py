"""A plan as text, and as one JSON object."""

import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from esipp.app.plan.plan import RUN, Made, Plan, Work
from esipp.base.plural import counted
from esipp.checks.check import Check, Level
from esipp.checks.profile import LoadBalancer
from esipp.ledger.run import DEFAULT_NODES
from esipp.loadbalancers.profiles.words import asks, bound, seconds, sources_seen

WIDTH, LABEL = 100, 15
CLEAN = "esipp clean --context NAME"
Json = dict[str, Any]


def as_text(made: Plan) -> Iterator[str]:
    """The plan for a person."""
    profile = made.profile
    yield from line("plan for", f"{profile.name}: {profile.title}; no cluster was asked")
    yield from line("rows", f"{len(made.asked)} of {made.checks} would be asked: {levels_of(made.asked)}")
    for why, checks in sorted(made.unsupported.items(), key=lambda each: -len(each[1])):
        yield from line("unsupported", f"{len(checks)} ({levels_of(checks)}) {why}")
    for limit, checks in made.limited:
        yield from line(limit.outcome.value, f"{len(checks)} ({levels_of(checks)}) {limit.why}")
    if made.assumed:
        yield from line("assumed", f"{', '.join(made.assumed)}: a cluster may lack them")
    yield from line("pods must see", _must_see(profile))
    yield from line("health checks", f"of Local {asks(profile.local)}; of Cluster {asks(profile.cluster)}")
    rise = f"; traffic to a new pod's node within {seconds(profile.rise)}" if profile.rise else ""
    whole = bound(profile.local)
    hole = f"at most {whole} after a node's 503: (N+1) x period" if profile.local.on else f"nothing bounds it ({whole})"
    if made.bound is not None:
        hole = f"at most {seconds(made.bound)} after a node's 503, as --bound says"
    yield from line("black hole", hole + rise)
    yield from line("waiting", "; ".join(waits(made)))
    yield from line("made at once", ", ".join(things(made)))
    for each in made.internal:
        told = ", ".join(f"{source.text} ({source.grade.value})" for source in each.sources)
        yield from line("internal", f"load balancers, by {each.key}={each.value}: {told}")
    yield from line("agents", _agents(made)) if made.sample.nodes else ()
    yield from time_lines(made)
    for text in left(made):
        yield from line("if killed", text)
    for trap in profile.traps:
        yield from line("mind", trap.text)
    yield from line("run it", f"esipp run --context NAME --image REFERENCE --provider {profile.name}{_given(made)}")


def _agents(made: Plan) -> str:
    """On how many nodes, and who chooses them: the nodes of a plan have no names of their own."""
    chosen = made.sample
    counts = f"{len(chosen.nodes)}, each of which takes a kubectl here, and one more while packets are captured"
    if not chosen.partial:
        return f"{counts}; every node that may carry pods has one"
    drawn = len(chosen.nodes) - chosen.playing
    seed = "a new --seed that the report tells" if made.seed is None else f"--seed {made.seed}"
    others = f"{drawn} of the {chosen.fit - chosen.playing} others at random by {seed}"
    return (
        f"{counts}; on the {chosen.playing} nodes that play a part, and {others} (--sample-nodes {made.sample_nodes})"
    )


def _given(made: Plan) -> str:
    """What was asked of load balancers and of the sample, as words of ``esipp run``."""
    words = " --internal" if made.internal else ""
    words += f" --parallel-load-balancers {made.parallel}" if made.parallel is not None else ""
    words += f" --sample-nodes {made.sample_nodes}" if made.sample_nodes != DEFAULT_NODES else ""
    return words if made.seed is None else f"{words} --seed {made.seed}"


def _must_see(profile: LoadBalancer) -> str:
    path = profile.datapath
    out = f", told in {' or '.join(path.out_of_band.value)}" if path.out_of_band else ""
    return f"under Local {sources_seen(path.local.value)}{out}; under Cluster {sources_seen(path.cluster.value)}"


def waits(made: Work) -> Iterator[str]:
    """How long is waited, and for what."""
    patience = made.patience
    if patience.remark:
        yield patience.remark
    yield f"at most {seconds(patience.assigned)} for VIPs, {seconds(patience.answering)} for first answers"
    yield f"{seconds(patience.removed)} for removal"


def _in_batches(counts: Made) -> str:
    """How many there are in all, and which checks need more than may stand at the same time."""
    words = f" (of {counts.all_balancers}, made in {counts.batches} batches; each costs)"
    if counts.refused:
        checks = counted(counts.refused, "check needs", "checks need")
        words += f"; {checks} more at the same time, and cannot be decided"
    return words


def things(made: Work) -> Iterator[str]:
    """What exists at once, at most."""
    counts = made.made
    yield f"{counted(counts.balancers, 'load balancer')} at most" + (
        (_in_batches(counts) if counts.batches > 1 else " (all together; each costs)") if counts.balancers else ""
    )
    yield from [f"{counts.reference} of the reference load balancer"] if counts.reference else []
    yield f"{counts.unserved} of a class that nobody serves"
    agents = f" ({counts.agents} of them agents, for {counts.nodes} nodes)" if counts.agents < counts.nodes else ""
    yield f"{counted(counts.services, 'other Service')}, {counted(counts.pods, 'pod')}{agents}, 1 namespace"
    yield f"{counted(counts.node_ports, 'node port')} besides those of health checks"
    if counts.passing:
        nobody = f", {counts.passing_unserved} of a class that nobody serves" if counts.passing_unserved else ""
        yield f"for a while {counts.passing} more Services{nobody} ({counts.passing_ports} node ports)"
    yield f"{counted(counts.clients, 'client')} outside"


def time_lines(made: Work) -> Iterator[str]:
    """How long it takes, and what that follows from."""
    yield from line("time", f"about {minutes(made.seconds)}")
    for part in made.parts:
        yield from line("", f"{minutes(part.seconds)} {part.name}: {part.why}")
    if made.made.agents > DEFAULT_NODES:
        yield from line("", f"as with {DEFAULT_NODES} agents: how much longer more of them take was not measured")


def left(made: Work, command: str = CLEAN) -> Iterator[str]:
    """What stays behind if a run is killed, and what removes it."""
    namespace = f"namespace esipp-{RUN} with all that is in it"
    if made.made.balancers:
        costly = counted(made.made.balancers, "load balancer goes on, and goes", "load balancers go on, and go")
        namespace += f"; so {costly} on to cost"
    yield f"{namespace}: {command} removes it"
    if made.made.clients:
        yield "the clients outside: the same command, on the same machine"
    if any("disruptive" in check.features for check in made.asked):
        yield "what was disturbed is undone by a watchdog within seconds; the same command looks after it again"


def levels_of(checks: Iterable[Check]) -> str:
    """How many of each level: ``3 core, 1 record``."""
    levels = [check.level for check in checks]
    return ", ".join(f"{levels.count(level)} {level.value}" for level in Level if level in levels) or "none"


def minutes(value: float) -> str:
    """Seconds, or whole minutes of two and more."""
    return f"{value / 60:.0f} min" if value >= 120 else f"{value:.0f} s"


def line(label: str, text: str) -> Iterator[str]:
    """A label and what is said under it, wrapped."""
    yield from textwrap.wrap(
        f"{label:<{LABEL}}{text}", WIDTH, subsequent_indent=" " * LABEL, break_on_hyphens=False, break_long_words=False
    )


def as_json(made: Plan) -> Json:
    """The plan for a program."""
    profile = made.profile
    return {
        "provider": profile.name,
        "assumed": list(made.assumed),
        "sample_nodes": made.sample_nodes,
        "seed": made.seed,
        "internal": {each.key: each.value for each in made.internal},
        "bound": profile.local.bound if profile.local.on else None,
        "up": profile.rise,
        **work_as_json(made),
    }


def work_as_json(made: Work, command: str = CLEAN) -> Json:
    """What a run would do, for a program."""
    patience = made.patience
    return {
        "rows": made.checks,
        "asked": [check.id for check in made.asked],
        "unsupported": [
            {"why": why, "rows": [check.id for check in checks]} for why, checks in made.unsupported.items()
        ],
        "predicted": [
            {"outcome": limit.outcome.value, "why": limit.why, "rows": [check.id for check in checks]}
            for limit, checks in made.limited
        ],
        "waiting": {"vip": patience.assigned, "answers": patience.answering, "removal": patience.removed},
        "made": vars(made.made),
        "seconds": round(made.seconds),
        "parts": [vars(part) for part in made.parts],
        "left": list(left(made, command)),
    }
