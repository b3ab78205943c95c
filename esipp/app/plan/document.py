"""The plan as a document and as one JSON object."""

from collections.abc import Iterable, Iterator

from esipp.app.plan.plan import RUN, Cost, Made, Plan, ProfileCost, Work
from esipp.base.document import Code, Document, Pairs, Words
from esipp.base.json import Json
from esipp.base.plural import counted
from esipp.checks.check import Check
from esipp.checks.covering import PAIRS, THREES
from esipp.checks.profile import LoadBalancer
from esipp.judging.durations import schedule
from esipp.judging.schedule import say_step
from esipp.ledger.run import DEFAULT_NODES
from esipp.loadbalancers.profiles.words import asks, bound, seconds, sources_seen
from esipp.report.causes import by_level

CLEAN = "esipp clean --context NAME"
Pair = tuple[str, Words]
"""A label and its text; an empty label continues the one above it."""


def document(made: Plan) -> Document:
    """The plan."""
    return Document(f"esipp plan: {made.profile.name}", blocks=(Pairs.of(_plan(made)),))


def _plan(made: Plan) -> Iterator[Pair]:
    profile = made.profile
    yield "plan for", f"{profile.name}: {profile.title}; made without a cluster"
    yield "checks", f"{len(made.asked)} of {made.checks} would run: {levels_of(made.asked)}"
    for why, checks in sorted(made.unsupported.items(), key=lambda each: -len(each[1])):
        yield "unsupported", f"{len(checks)} ({levels_of(checks)}) {why}"
    for limit, checks in made.limited:
        yield limit.outcome.value, f"{len(checks)} ({levels_of(checks)}) {limit.why}"
    if made.assumed:
        yield "assumed", f"{', '.join(made.assumed)}: a cluster may lack them"
    yield "source IP", _must_see(profile)
    yield "health checks", f"with Local {asks(profile.local)}; with Cluster {asks(profile.cluster)}"
    rise = f"; traffic to a new pod's node within {seconds(profile.rise)}" if profile.rise else ""
    whole = bound(profile.local)
    hole = f"at most {whole} after a node's 503: (N+1) x period" if profile.local.on else f"unbounded ({whole})"
    if made.given.bound is not None:
        hole = f"at most {seconds(made.given.bound)} after a node's 503 (--bound)"
    yield "black hole", hole + rise
    yield "timeouts", "; ".join(waits(made))
    yield "creates", ", ".join(things(made))
    for each in made.internal:
        sources = ", ".join(f"{source.text} ({source.grade.value})" for source in each.sources)
        yield "internal", f"load balancers, by {each.key}={each.value}: {sources}"
    for suite, design in made.designs.items():
        words = (design.design.words, *design.not_asked, *design.design.say_excluded())
        yield from (("" if number else "design", f"{suite}: {each}") for number, each in enumerate(words))
        yield "", f"{suite}: it adds {_cost_of(design.asked)}; the full product would add {_cost_of(design.product)}"
    if made.sample.nodes:
        yield "agents", _agents(made)
    yield from events(made)
    yield from times(made)
    for number, cost in enumerate(made.profiles):
        yield "" if number else "profiles", _cost(cost)
    for text in left(made):
        yield "if killed", text
    for trap in profile.traps:
        yield "note", trap.text
    yield "command", Code(f"esipp run --context NAME --image REFERENCE --provider {profile.name}{_given(made)}")


def _cost_of(cost: Cost) -> str:
    return f"{cost.connections:,} connections on {cost.paths:,} paths, in about {minutes(cost.seconds)}"


def _cost(cost: ProfileCost) -> str:
    balancers = counted(cost.balancers, "load balancer")
    depth = f"{cost.samples} connections per path, {cost.moves} endpoint changes of each kind"
    return f"{cost.name}: about {minutes(cost.seconds)}, at most {balancers}; {cost.checks} checks, {depth}"


def _agents(made: Plan) -> str:
    """The number of agents, and how the run chooses their nodes."""
    chosen = made.sample
    counts = f"{len(chosen.nodes)}; each needs one kubectl process here, and a second one during packet capture"
    if not chosen.partial:
        return f"{counts}; on every node that can run pods"
    drawn = len(chosen.nodes) - chosen.playing
    seed = "a random --seed, which the report states" if made.given.seed is None else f"--seed {made.given.seed}"
    others = f"{drawn} of the {chosen.fit - chosen.playing} others, selected by {seed}"
    most = f"--sample-nodes {made.given.sample_nodes}"
    return f"{counts}; on the {chosen.playing} nodes with a role, and on {others} ({most})"


def _given(made: Plan) -> str:
    """The given options on load balancers and the sample, as arguments of ``esipp run``."""
    given, words = made.given, " --internal" if made.internal else ""
    words += f" --parallel-load-balancers {given.parallel}" if given.parallel is not None else ""
    words += f" --sample-nodes {given.sample_nodes}" if given.sample_nodes != DEFAULT_NODES else ""
    return words if given.seed is None else f"{words} --seed {given.seed}"


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


def events(made: Work) -> Iterator[Pair]:
    """The events of each phase, in their order."""
    for number, (typical, planned) in enumerate(schedule(made.asked)):
        yield "" if number else "events", f"{typical.phase}: {', then '.join(map(say_step, planned))}"


def times(made: Work) -> Iterator[Pair]:
    """The duration, and what it is based on."""
    yield "time", f"about {minutes(made.seconds)}"
    for part in made.parts:
        yield "", f"{minutes(part.seconds)} {part.name}: {part.why}"
    if made.made.agents > DEFAULT_NODES:
        yield "", f"estimated for {DEFAULT_NODES} agents; the effect of more agents was not measured"


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
    """The number of checks of each level in words."""
    return by_level(check.level for check in checks) or "none"


def minutes(value: float) -> str:
    """A duration in seconds, or in whole minutes from two minutes on."""
    return f"{value / 60:.0f} min" if value >= 120 else f"{value:.0f} s"


def as_json(made: Plan) -> Json:
    """The plan as JSON."""
    profile = made.profile
    return {
        "provider": profile.name,
        "assumed": list(made.assumed),
        "sample_nodes": made.given.sample_nodes,
        "seed": made.given.seed,
        "internal": {each.key: each.value for each in made.internal},
        "bound": profile.local.bound if profile.local.on else None,
        "up": profile.rise,
        "profiles": [vars(each) for each in made.profiles],
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
        "designs": {
            suite: {
                "paths": [len(each.design.rows), len(each.design.product)],
                "pairs": list(each.design.share(PAIRS)),
                "threes": list(each.design.share(THREES)),
                "own_paths": len(each.design.own),
                "pairs_of_others": each.design.without.share(PAIRS)[0],
                "threes_of_others": each.design.without.share(THREES)[0],
                "without": each.design.missing,
                "not_asked": list(each.not_asked),
                "left_out_of_the_product": [{"pair": pair, "why": why} for pair, why in each.design.excluded_pairs],
                "connections": [each.asked.connections, each.product.connections],
                "seconds": [round(each.asked.seconds), round(each.product.seconds)],
            }
            for suite, each in made.designs.items()
        },
        "seconds": round(made.seconds),
        "parts": [vars(part) for part in made.parts],
        "events": [
            {
                "phase": typical.phase,
                "steps": [
                    [{"name": event.name, "touches": event.touches.value, "seconds": event.seconds} for event in step]
                    for step in planned
                ],
            }
            for typical, planned in schedule(made.asked)
        ],
        "left": list(left(made, command)),
    }
