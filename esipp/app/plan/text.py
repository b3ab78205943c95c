"""The plan as text and as one JSON object."""

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
    """The plan as text."""
    profile = made.profile
    yield from line("plan for", f"{profile.name}: {profile.title}; made without a cluster")
    yield from line("checks", f"{len(made.asked)} of {made.checks} would run: {levels_of(made.asked)}")
    for why, checks in sorted(made.unsupported.items(), key=lambda each: -len(each[1])):
        yield from line("unsupported", f"{len(checks)} ({levels_of(checks)}) {why}")
    for limit, checks in made.limited:
        yield from line(limit.outcome.value, f"{len(checks)} ({levels_of(checks)}) {limit.why}")
    if made.assumed:
        yield from line("assumed", f"{', '.join(made.assumed)}: a cluster may lack them")
    yield from line("source IP", _must_see(profile))
    yield from line("health checks", f"with Local {asks(profile.local)}; with Cluster {asks(profile.cluster)}")
    rise = f"; traffic to a new pod's node within {seconds(profile.rise)}" if profile.rise else ""
    whole = bound(profile.local)
    hole = f"at most {whole} after a node's 503: (N+1) x period" if profile.local.on else f"unbounded ({whole})"
    if made.bound is not None:
        hole = f"at most {seconds(made.bound)} after a node's 503 (--bound)"
    yield from line("black hole", hole + rise)
    yield from line("timeouts", "; ".join(waits(made)))
    yield from line("creates", ", ".join(things(made)))
    for each in made.internal:
        sources = ", ".join(f"{source.text} ({source.grade.value})" for source in each.sources)
        yield from line("internal", f"load balancers, by {each.key}={each.value}: {sources}")
    yield from line("agents", _agents(made)) if made.sample.nodes else ()
    yield from time_lines(made)
    for text in left(made):
        yield from line("if killed", text)
    for trap in profile.traps:
        yield from line("note", trap.text)
    yield from line("command", f"esipp run --context NAME --image REFERENCE --provider {profile.name}{_given(made)}")


def _agents(made: Plan) -> str:
    """The number of agents, and how the run chooses their nodes."""
    chosen = made.sample
    counts = f"{len(chosen.nodes)}; each needs one kubectl process here, and a second one during packet capture"
    if not chosen.partial:
        return f"{counts}; on every node that can run pods"
    drawn = len(chosen.nodes) - chosen.playing
    seed = "a random --seed, which the report states" if made.seed is None else f"--seed {made.seed}"
    others = f"{drawn} of the {chosen.fit - chosen.playing} others, selected by {seed}"
    return f"{counts}; on the {chosen.playing} nodes with a role, and on {others} (--sample-nodes {made.sample_nodes})"


def _given(made: Plan) -> str:
    """The given options on load balancers and the sample, as arguments of ``esipp run``."""
    words = " --internal" if made.internal else ""
    words += f" --parallel-load-balancers {made.parallel}" if made.parallel is not None else ""
    words += f" --sample-nodes {made.sample_nodes}" if made.sample_nodes != DEFAULT_NODES else ""
    return words if made.seed is None else f"{words} --seed {made.seed}"


def _must_see(profile: LoadBalancer) -> str:
    path = profile.datapath
    out = f", passed in {' or '.join(path.out_of_band.value)}" if path.out_of_band else ""
    local, cluster = sources_seen(path.local.value), sources_seen(path.cluster.value)
    return f"pods must see: with Local {local}{out}; with Cluster {cluster}"


def waits(made: Work) -> Iterator[str]:
    """The timeouts of a run."""
    patience = made.patience
    if patience.remark:
        yield patience.remark
    yield f"at most {seconds(patience.assigned)} for VIPs, {seconds(patience.answering)} for first answers"
    yield f"{seconds(patience.removed)} for removal"


def _in_batches(counts: Made) -> str:
    """The total number of load balancers, and the number of checks that need more at the same time than allowed."""
    words = f" (of {counts.all_balancers}, in {counts.batches} batches; each may cost money)"
    if counts.refused:
        checks = counted(counts.refused, "check needs", "checks need")
        words += f"; {checks} more at the same time and cannot be decided"
    return words


def things(made: Work) -> Iterator[str]:
    """The maximum number of objects at the same time."""
    counts = made.made
    yield f"at most {counted(counts.balancers, 'load balancer')}" + (
        (_in_batches(counts) if counts.batches > 1 else " (all at the same time; each may cost money)")
        if counts.balancers
        else ""
    )
    yield from [f"{counts.reference} of the reference load balancer"] if counts.reference else []
    yield f"{counts.unserved} of a class without a controller"
    agents = f" ({counts.agents} of them agents, for {counts.nodes} nodes)" if counts.agents < counts.nodes else ""
    yield f"{counted(counts.services, 'other Service')}, {counted(counts.pods, 'pod')}{agents}, 1 namespace"
    yield f"{counted(counts.node_ports, 'node port')} (without health check node ports)"
    if counts.passing:
        unserved = f", {counts.passing_unserved} of a class without a controller" if counts.passing_unserved else ""
        yield f"temporarily {counts.passing} more Services{unserved} ({counts.passing_ports} node ports)"
    yield counted(counts.clients, "outside client")


def time_lines(made: Work) -> Iterator[str]:
    """The duration, and what it is based on."""
    yield from line("time", f"about {minutes(made.seconds)}")
    for part in made.parts:
        yield from line("", f"{minutes(part.seconds)} {part.name}: {part.why}")
    if made.made.agents > DEFAULT_NODES:
        yield from line("", f"estimated for {DEFAULT_NODES} agents; the effect of more agents was not measured")


def left(made: Work, command: str = CLEAN) -> Iterator[str]:
    """What remains if a run is killed, and what removes it."""
    namespace = f"namespace esipp-{RUN} and everything in it remain"
    if made.made.balancers:
        costly = counted(made.made.balancers, "load balancer", "load balancers")
        namespace += f", so that {costly} may continue to cost money"
    yield f"{namespace}: '{command}' removes them"
    if made.made.clients:
        yield "the outside clients remain: the same command removes them, on the same machine"
    if any("disruptive" in check.features for check in made.asked):
        yield "a watchdog undoes disruptions within seconds; the same command checks again"


def levels_of(checks: Iterable[Check]) -> str:
    """The number of checks of each level: ``3 core, 1 record``."""
    levels = [check.level for check in checks]
    return ", ".join(f"{levels.count(level)} {level.value}" for level in Level if level in levels) or "none"


def minutes(value: float) -> str:
    """A duration in seconds, or in whole minutes from two minutes on."""
    return f"{value / 60:.0f} min" if value >= 120 else f"{value:.0f} s"


def line(label: str, text: str) -> Iterator[str]:
    """A label and a wrapped text."""
    yield from textwrap.wrap(
        f"{label:<{LABEL}}{text}", WIDTH, subsequent_indent=" " * LABEL, break_on_hyphens=False, break_long_words=False
    )


def as_json(made: Plan) -> Json:
    """The plan as JSON."""
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
    """What a run would do, as JSON."""
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
