"""The plan of a run: the checks that would run, the objects they create, and how long it takes. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, cast

from esipp.app.plan.assumed_cluster import Asked, imagine
from esipp.base.json import Json
from esipp.base.labels import UNSERVED_CLASS
from esipp.base.plural import counted
from esipp.checks.catalog import designs
from esipp.checks.check import HOST_NETWORK, Check, Level, missing_features, say_missing
from esipp.checks.covering import Design
from esipp.checks.model import Balancer, ServiceType, Vantage
from esipp.checks.profile import Annotation, Class, Limit, LoadBalancer, Outcome, Policy
from esipp.cluster.client import Cluster
from esipp.judging.durations import expected, phases
from esipp.loadbalancers.capabilities import names_of, uncarried
from esipp.loadbalancers.provider_annotations import internal_of
from esipp.loadbalancers.timeouts import Timeouts, timeouts_of
from esipp.testbed.batches import balanced, batches
from esipp.testbed.objects import Ground, objects_by_scenario, objects_of
from esipp.testbed.pods import speakers_of_sctp
from esipp.testbed.sampling import NO_SAMPLE, Sample, sample
from esipp.testbed.testbed import Testbed

Limited = tuple[Limit, tuple[Check, ...]]
"""A limit of a load balancer, and the checks that it affects."""

RUN = "RUN"
"""Placeholder for a run's id."""


@dataclass(frozen=True)
class Made:
    """The maximum number of objects at the same time.

    Args:
        balancers: Services that the cluster's own load balancer serves.
        batches: number of batches in which a run creates these, one after the other; ``all_balancers`` is their total.
        refused: checks that need more load balancers at the same time than allowed.
        reference: Services of the reference load balancer.
        unserved: Services of a class without a controller; they cost nothing.
        services: all other Services.
        pods: pods of esipp.
        clients: outside clients.
        agents: the agents among the pods; ``nodes`` is the number of nodes that could run one.
        node_ports: node ports of all these Services, except health check node ports.
        passing: additional temporary Services of a scenario. ``passing_unserved`` of them have a class without a
            controller, and all of them together have ``passing_ports`` node ports.
    """

    balancers: int
    reference: int
    unserved: int
    services: int
    pods: int
    clients: int
    agents: int = 0
    nodes: int = 0
    node_ports: int = 0
    passing: int = 0
    passing_unserved: int = 0
    passing_ports: int = 0
    batches: int = 1
    all_balancers: int = 0
    refused: int = 0


@dataclass(frozen=True)
class Part:
    """A part of the duration: seconds, and what they are based on."""

    name: str
    seconds: float
    why: str


@dataclass(frozen=True)
class Cost:
    """What checks add to a run of the others: paths with their controls, connections on these, and seconds."""

    paths: int
    connections: int
    seconds: float


@dataclass(frozen=True)
class DesignCost:
    """A covering design as far as it would be asked, what it adds to a run, and what its full product would add.

    ``not_asked`` says which values and pairs no path has, with the reason if all their paths share one.
    """

    design: Design
    asked: Cost
    product: Cost
    not_asked: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProfileCost:
    """What a profile of a run costs: checks that would run, their depth, the most load balancers at the same time, and
    the duration in seconds.
    """

    name: str
    checks: int
    samples: int
    moves: int
    balancers: int
    seconds: int


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a run would do on a real or assumed cluster.

    Args:
        checks: the number of selected checks.
        asked: the checks that would run.
        unsupported: the checks that would not run, by reason.
        limited: the checks with a predicted outcome, by limit; each check is listed under its worst limit.
        made: the objects that would exist at the same time.
        designs: the parts of covering designs that would be asked, with their cost, by suite.
        sample: the nodes that run an agent; empty if the cluster admits none.
        patience: the timeouts.
        parts: the parts of the duration.
    """

    checks: int
    asked: tuple[Check, ...]
    unsupported: Mapping[str, tuple[Check, ...]]
    limited: tuple[Limited, ...]
    made: Made
    designs: Mapping[str, DesignCost]
    sample: Sample
    patience: Timeouts
    parts: tuple[Part, ...]

    @property
    def seconds(self) -> float:
        """The whole duration."""
        return sum(part.seconds for part in self.parts)


@dataclass(frozen=True, kw_only=True)
class Plan(Work):
    """What a run would do with a given load balancer.

    Args:
        given: what was asked.
        assumed: features that are assumed to be present.
        internal: the annotations that make load balancers internal, with ``--internal``.
        profiles: what the same selection costs with each profile.
    """

    given: Asked
    assumed: tuple[str, ...]
    internal: tuple[Annotation, ...] = ()
    profiles: tuple[ProfileCost, ...] = ()

    @property
    def profile(self) -> LoadBalancer:
        """The load balancer."""
        return self.given.profile


def plan(asked: Asked) -> Plan:
    """Make a plan.

    Raises:
        PreflightError: an option is invalid.
    """
    cluster = imagine(asked)
    chosen = sample(cluster.nodes.values(), cluster.roles, asked.sample_nodes, asked.seed or 0)
    ground = Ground(RUN, "image", cluster.nodes, cluster.roles, cluster.features, sampled=chosen.nodes)
    work = work_of(
        asked.checks, ground, [asked.profile], asked.samples, asked.moves, chosen=chosen, parallel=asked.parallel,
        bound=asked.bound,
    )  # fmt: skip
    internal = internal_of(asked.profile) if asked.internal else ()
    return Plan(given=asked, assumed=cluster.assumed, internal=internal, **vars(work))


def work_of(
    checks: Sequence[Check],
    ground: Ground,
    profiles: Sequence[LoadBalancer],
    samples: int,
    moves: int,
    *,
    sure: bool = True,
    chosen: Sample | None = None,
    bound: float | None = None,
    parallel: int | None = None,
) -> Work:
    """Determine what a run would do on a cluster.

    Args:
        checks: the selected checks.
        ground: the cluster; its roles include the control plane, its features what a named load balancer lacks.
        profiles: the profiles that may apply. Outcomes are predicted only if there is exactly one.
        samples, moves: as for a run.
        sure: whether the user named the load balancer. Only then a run skips what the profile does not support.
        chosen: the nodes that may run an agent; by default a sample with seed 0.
        bound: the value of ``--bound``.
        parallel: the maximum number of load balancers at the same time; None for no limit.
    """
    missing = {check.id: missing_features(check, ground.features) for check in checks}
    able = tuple(check for check in checks if not missing[check.id])
    unsupported: dict[str, list[Check]] = {}
    for check in checks:
        if missing[check.id]:
            first = dict(list(missing[check.id].items())[:1])  # each check is counted under one reason only
            unsupported.setdefault(say_missing(check, first), []).append(check)
    (profile,) = profiles if len(profiles) == 1 else (None,)
    chosen = chosen or sample(ground.nodes.values(), ground.roles)
    made = _in_batches(_made(able, ground, chosen), able, ground, parallel)
    return Work(
        checks=len(checks),
        asked=able,
        unsupported={why: tuple(those) for why, those in unsupported.items()},
        limited=tuple(limited(profile, able)) if profile else (),
        made=made,
        designs=_designs(checks, able, ground, samples),
        sample=chosen if made.agents else NO_SAMPLE,
        patience=timeouts_of(profiles, sure=sure, bound=bound),
        parts=tuple(_parts(able, made, profiles, samples, moves, bound)),
    )


def _designs(checks: Iterable[Check], able: Iterable[Check], ground: Ground, samples: int) -> dict[str, DesignCost]:
    """The designs of the selected suites, with the paths that would be asked, and their cost on this cluster."""
    suites = {check.suite for check in checks}
    asked = {path for check in able for path in check.subject.judged}
    found = {}
    for suite, whole in designs().items():
        if suite in suites:
            rest = [check for check in able if check.suite != suite]
            found[suite] = _design_cost(whole.only(asked), rest, ground, samples)
    return found


@cache
def _checks_of_product(product: tuple[Any, ...], checks: Callable[[Any], Iterable[Check]]) -> dict[Any, list[Check]]:
    """The checks of each row of a design; they are the same in every plan."""
    return {row: list(checks(row)) for row in product}


def _design_cost(design: Design, rest: Sequence[Check], ground: Ground, samples: int) -> DesignCost:
    """The cost of a design in a run that has the rest of the checks anyway."""
    checks = _checks_of_product(design.product, design.checks)
    missing = {check.id: missing_features(check, ground.features) for each in checks.values() for check in each}
    there = {path for check in rest for path in check.subject.paths}
    before = sum(expected(rest, samples, 0).values()) if rest else 0.0

    def cost(rows: Iterable[Any]) -> Cost:
        made = [check for row in rows for check in checks[row] if not missing[check.id]]
        added = len({path for check in made for path in check.subject.paths} - there)
        return Cost(added, samples * added, sum(expected([*rest, *made], samples, 0).values()) - before)

    def why(rows: Sequence[Any]) -> str:
        lacking = [missing[check.id] for row in rows for check in checks[row]]
        needs = ({f"needs {name}: {each.why}" for name, each in found.items()} for found in lacking)
        whys = ({each.why for each in found.values()} for found in lacking)  # a feature of each family has its own name
        return next(iter(sorted(set.intersection(*needs)) or sorted(set.intersection(*whys))), "")

    others = set(design.without.rows)
    every = cost(row for row in design.product if row not in others)
    return DesignCost(design, cost(design.own), every, tuple(design.not_asked(why)))


# ------------------------------------------------------------------------------------------------------- what is made
def _made(checks: Sequence[Check], ground: Ground, chosen: Sample) -> Made:
    paths = sorted({path for check in checks for path in check.subject.paths}, key=lambda path: path.key)
    scenario_objects = objects_of(checks, ground)
    hosted = ground.features[HOST_NETWORK].present
    testbed = Testbed(
        *(cast(Cluster, None), ground.run, ground.image, ground.nodes, ground.roles),
        hosted=hosted,
        sampled=chosen.nodes,
    )
    objects = {path.object_name: path.service for path in paths if path.service}
    ports = {(path.object_name, path.port, path.protocol) for path in paths
             if path.service and path.service.type is not ServiceType.CLUSTER_IP}  # fmt: skip
    kinds: Counter[str] = Counter()
    for service in objects.values():
        own = service.type is ServiceType.LOAD_BALANCER
        reference = own and service.balancer is not Balancer.DEFAULT
        kinds["reference" if reference else "own" if own else "other"] += 1
    for manifest in scenario_objects.services:
        kinds[_kind_of(manifest)] += 1
    clients = {client.name for client in {path.client for path in paths} | scenario_objects.clients
               if client.vantage is Vantage.OUTSIDE}  # fmt: skip
    pods = testbed.pods_for(paths, scenario_objects) if checks else []
    agents = len(testbed.sampled) if checks else 0
    return Made(
        kinds["own"], kinds["reference"], kinds["unserved"], kinds["other"], len(pods) + agents,
        len(clients | ({"outside-1"} if speakers_of_sctp(paths) and clients else set())),
        agents, chosen.fit,
        len(ports) + _node_ports(scenario_objects.services),
        len(scenario_objects.passing),
        sum(_kind_of(each) == "unserved" for each in scenario_objects.passing),
        _node_ports(scenario_objects.passing),
    )  # fmt: skip


def _in_batches(made: Made, checks: Sequence[Check], ground: Ground, parallel: int | None) -> Made:
    """The same objects with a limit on load balancers at the same time."""
    services = {scenario: each.services for scenario, each in objects_by_scenario(checks, ground).items()}
    plan_of = batches(checks, services, parallel)
    if not plan_of.limited:
        return replace(made, all_balancers=made.balancers)
    turns = [each for each in (*plan_of.windows, *plan_of.scenarios.values()) if each]
    refused = sum(bool(balanced(check.subject.paths) & plan_of.too_many.keys()) for check in checks)
    return replace(made, balancers=plan_of.at_once, batches=len(turns), all_balancers=made.balancers, refused=refused)


def _node_ports(services: Iterable[Json]) -> int:
    """The number of node ports of Services."""
    specs = [service["spec"] for service in services]
    return sum(len(spec["ports"]) for spec in specs if spec["type"] != ServiceType.CLUSTER_IP.value)


def _kind_of(service: Json) -> str:
    spec = service["spec"]
    name = spec.get("loadBalancerClass")
    if spec["type"] != "LoadBalancer":
        return "other"
    return "own" if not name else "unserved" if name == UNSERVED_CLASS else "reference"


# ---------------------------------------------------------------------------------------------------- how long it takes
def _parts(
    checks: Sequence[Check],
    made: Made,
    profiles: Sequence[LoadBalancer],
    samples: int,
    moves: int,
    bound: float | None,
) -> Iterator[Part]:
    """The parts of the duration on an idle machine; with several profiles, the slowest one counts."""
    seconds = expected(checks, samples, moves)
    following = next(each for each in phases() if each.move)
    moving = seconds.pop(following.phase, None)
    yield Part(
        "checks", sum(seconds.values()),
        f"{counted(len(checks), 'check')}, {counted(samples, 'connection')} per path, "
        f"{counted(len(seconds), 'phase')}, as measured on kind",
    )  # fmt: skip
    if moving is not None:
        each = max([following.move, *(_seconds_per_pair(profile, bound) for profile in profiles)])
        yield Part(
            "endpoint changes", moving + moves * (each - following.move),
            f"{moves} up and {moves} down, {each:g} s for each pair: as measured on kind, "
            "or the bound plus the time to use a new node, if that is longer",
        )  # fmt: skip
    usual = max((profile.times.usual.value[1] for profile in profiles if profile.times.usual), default=None)
    if made.balancers and usual is not None:
        yield Part(
            "load balancers",
            usual * made.batches,
            f"the time for one, because the run creates all {made.balancers} at the same time"
            + (f"; in {made.batches} batches" if made.batches > 1 else ""),
        )


def _seconds_per_pair(profile: LoadBalancer, bound: float | None) -> float:
    """Seconds that a load balancer takes to follow one endpoint change up and one down."""
    return sum(each for each in (bound or profile.bound, profile.rise) if each)


# ------------------------------------------------------------------------------------------------------------- limits
SEVERITY = (Outcome.UNSUPPORTED, Outcome.UNDECIDED, Outcome.FAILS, Outcome.DIFFERS)
"""Outcomes, the worst first: each check is listed under one limit only."""

LOCAL: frozenset[Policy] = frozenset({"Local"})


def limited(profile: LoadBalancer, checks: Iterable[Check]) -> list[Limited]:
    """Each limit with the checks that it affects; each check is listed under its worst limit."""
    stated = (limit for limit in profile.limits if limit.outcome is not Outcome.UNSUPPORTED)
    limits = [*uncarried(profile), *_proxied(profile), *stated]
    limits.sort(key=lambda limit: SEVERITY.index(limit.outcome))
    found: dict[int, list[Check]] = {}
    for check in checks:
        hit = next((number for number, limit in enumerate(limits) if hits(limit, check)), None)
        if hit is not None:
            found.setdefault(hit, []).append(check)
    return [(limits[number], tuple(of)) for number, of in sorted(found.items())]


def _proxied(profile: LoadBalancer) -> Iterator[Limit]:
    """The limit of a proxy, which hides the client's address; the status decides whether that is known."""
    if profile.kind is not Class.PROXY:
        return
    mode = profile.status.ip_mode
    reported = profile.status.form.value == "hostname" or (mode is not None and mode.value == "Proxy")
    outcome, how = (Outcome.DIFFERS, "shows this") if reported else (Outcome.FAILS, "does not show this")
    why = f"{profile.name} is a proxy: pods see its address under Local, and the Service's status {how}"
    yield Limit(outcome, why, profile.datapath.kind.sources, policies=LOCAL)


def hits(limit: Limit, check: Check) -> bool:
    """Whether a check is about the cluster's own load balancer, and a limit applies to it."""
    if limit.outcome is Outcome.UNSUPPORTED:
        return any(check.subject.balanced.issuperset(words) for words in names_of(limit))
    if limit.outcome is Outcome.FAILS and check.level is Level.RECORD:
        return False
    return check.subject.limited_by(limit)
