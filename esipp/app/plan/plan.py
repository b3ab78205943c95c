"""From a profile and checks to a plan: what is asked, what is made, how long it takes, what is left. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from esipp.app.plan import limits
from esipp.app.plan.assumed_cluster import Asked, imagine
from esipp.base.plural import counted
from esipp.checks.check import HOST_NETWORK, Check, Feature, missing_features, say_missing
from esipp.checks.durations import PHASES, expected
from esipp.checks.model import Balancer, Service, ServiceType, Vantage
from esipp.checks.path import paths_of
from esipp.checks.profile import Annotation, LoadBalancer
from esipp.cluster.client import Cluster
from esipp.loadbalancers.provider_annotations import internal_of
from esipp.loadbalancers.timeouts import Patience, patience_of
from esipp.scenarios.objects import props_by_suite, props_of
from esipp.testbed.batches import balanced, batches
from esipp.testbed.objects import Ground
from esipp.testbed.pods import speakers_of_sctp
from esipp.testbed.sampling import NO_SAMPLE, Sample, sample
from esipp.testbed.testbed import Testbed

RUN = "RUN"
"""Stands for a run's id."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Made:
    """What exists at once, at most.

    Args:
        balancers: Services that the cluster's own load balancer serves.
        batches: in how many batches these are made, one after the other; ``all_balancers`` of them in all.
        refused: checks that need more load balancers at the same time than may be there.
        reference: those of the reference load balancer.
        unserved: those of a class that nobody serves: they cost nothing.
        services: all other Services.
        pods: pods of ours.
        clients: clients outside.
        agents: the pods among them that are agents, of so many ``nodes`` that could carry one.
        node_ports: ports of all these Services that are served on nodes, without those of health checks.
        passing: Services that a trial makes for a while, besides; ``passing_unserved`` of them are of a class that
            nobody serves, all of them together have ``passing_ports`` on nodes.
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
    """A part of the time: seconds, and what they follow from."""

    name: str
    seconds: float
    why: str


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a run would do on a cluster, seen or imagined.

    Args:
        checks: how many are asked for.
        asked: those that would be asked.
        unsupported: those that would not, and why.
        limited: those that are asked, and what is predicted of them; a check stands under its worst limit.
        made: what would exist at once.
        sample: the nodes that carry an agent; none where the cluster admits none.
        patience: how long is waited.
        parts: where the time goes.
    """

    checks: int
    asked: tuple[Check, ...]
    unsupported: Mapping[str, tuple[Check, ...]]
    limited: tuple[limits.Limited, ...]
    made: Made
    sample: Sample
    patience: Patience
    parts: tuple[Part, ...]

    @property
    def seconds(self) -> float:
        """All of the time."""
        return sum(part.seconds for part in self.parts)


@dataclass(frozen=True, kw_only=True)
class Plan(Work):
    """What a run would do where a load balancer is.

    Args:
        profile: the load balancer.
        assumed: features that are taken to be there.
        sample_nodes, seed: as they were asked for.
        internal: the annotations that make load balancers internal, where that is wanted.
        bound: what the user says that its steering may take, in seconds.
        parallel: how many load balancers stand at the same time, as it was asked for.
    """

    profile: LoadBalancer
    assumed: tuple[str, ...]
    sample_nodes: int
    seed: int | None
    internal: tuple[Annotation, ...] = ()
    bound: float | None = None
    parallel: int | None = None


def plan(asked: Asked) -> Plan:
    """The plan.

    Raises:
        PreflightError: what is asked makes no sense.
    """
    cluster = imagine(asked)
    ground = Ground(RUN, "image", cluster.nodes, cluster.roles, cluster.features)
    chosen = sample(cluster.nodes.values(), cluster.roles, asked.sample_nodes, asked.seed or 0)
    work = work_of(
        asked.checks,
        ground,
        [asked.profile],
        asked.samples,
        asked.moves,
        chosen=chosen,
        parallel=asked.parallel,
        bound=asked.bound,
    )
    return Plan(
        profile=asked.profile,
        assumed=cluster.assumed,
        sample_nodes=asked.sample_nodes,
        seed=asked.seed,
        internal=internal_of(asked.profile) if asked.internal else (),
        bound=asked.bound,
        parallel=asked.parallel,
        **vars(work),
    )


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
    """What a run would do there.

    Args:
        checks: those that are asked for.
        ground: the cluster; its roles with that of the control plane, its features with what a load balancer that
            somebody named does not carry.
        profiles: what its load balancer is taken for. Only where it is one, it predicts anything of checks.
        samples, moves: as of a run.
        sure: whether somebody said that it is that load balancer: only then nothing is waited for that it carries not.
        chosen: the nodes that may carry an agent; by default those of a sample by seed 0.
        bound: what the user says that the load balancer's steering may take.
        parallel: how many load balancers stand at the same time; None for all that are needed.
    """
    missing = {check.id: missing_features(check, ground.features) for check in checks}
    able = tuple(check for check in checks if not missing[check.id])
    unsupported: dict[str, list[Check]] = {}
    for check in checks:
        if missing[check.id]:
            unsupported.setdefault(say_missing(check, _first(missing[check.id])), []).append(check)
    (profile,) = profiles if len(profiles) == 1 else (None,)
    chosen = chosen or sample(ground.nodes.values(), ground.roles)
    made = _in_batches(_made(able, ground, chosen), able, ground, parallel)
    return Work(
        checks=len(checks),
        asked=able,
        unsupported={why: tuple(those) for why, those in unsupported.items()},
        limited=tuple(limits.limited(profile, able)) if profile else (),
        made=made,
        sample=chosen if made.agents else NO_SAMPLE,
        patience=patience_of(profiles, sure=sure, bound=bound),
        parts=tuple(_parts(able, made, profiles, samples, moves, bound)),
    )


def _first(missing: Mapping[str, Feature]) -> dict[str, Feature]:
    """One of several that are missing: checks are counted under one reason only."""
    return dict(list(missing.items())[:1])


# ------------------------------------------------------------------------------------------------------- what is made
def _made(checks: Sequence[Check], ground: Ground, chosen: Sample) -> Made:
    paths = sorted({path for check in checks for path in paths_of(check)}, key=lambda path: path.key)
    props = props_of(checks, ground)
    hosted = ground.features[HOST_NETWORK].present
    testbed = Testbed(
        *(cast(Cluster, None), ground.run, ground.image, ground.nodes, ground.roles),
        hosted=hosted,
        sampled=chosen.nodes,
    )
    objects = {path.object_name: path.service for path in paths if path.service}
    ports = {(path.object_name, path.port, path.protocol) for path in paths if path.service and _at_nodes(path.service)}
    kinds: Counter[str] = Counter()
    for service in objects.values():
        own = service.type is ServiceType.LOAD_BALANCER
        reference = own and service.balancer is not Balancer.DEFAULT
        kinds["reference" if reference else "own" if own else "other"] += 1
    for manifest in props.services:
        kinds[_kind_of(manifest)] += 1
    clients = {client.name for client in {path.client for path in paths} | props.clients
               if client.vantage is Vantage.OUTSIDE}  # fmt: skip
    pods = testbed.pods_for(paths, props) if checks else []
    agents = len(testbed.sampled) if checks else 0
    return Made(
        kinds["own"], kinds["reference"], kinds["nobody"], kinds["other"], len(pods) + agents,
        len(clients | ({"outside-1"} if speakers_of_sctp(paths) and clients else set())),
        agents, chosen.fit,
        len(ports) + _node_ports(props.services),
        len(props.passing), sum(_kind_of(each) == "nobody" for each in props.passing), _node_ports(props.passing),
    )  # fmt: skip


def _in_batches(made: Made, checks: Sequence[Check], ground: Ground, parallel: int | None) -> Made:
    """The same where only so many load balancers stand at the same time."""
    services = {suite: each.services for suite, each in props_by_suite(checks, ground).items()}
    plan_of = batches(checks, services, parallel)
    if not plan_of.limited:
        return replace(made, all_balancers=made.balancers)
    turns = [each for each in (*plan_of.windows, *plan_of.suites.values()) if each]
    refused = sum(bool(balanced(paths_of(check)) & plan_of.too_many.keys()) for check in checks)
    return replace(made, balancers=plan_of.at_once, batches=len(turns), all_balancers=made.balancers, refused=refused)


def _at_nodes(service: Service) -> bool:
    """Whether its ports are served on nodes."""
    return service.type is not ServiceType.CLUSTER_IP


def _node_ports(services: Iterable[Json]) -> int:
    """The ports of Services that are served on nodes."""
    specs = [service["spec"] for service in services]
    return sum(len(spec["ports"]) for spec in specs if spec["type"] != ServiceType.CLUSTER_IP.value)


def _kind_of(service: Json) -> str:
    spec = service["spec"]
    name = spec.get("loadBalancerClass")
    if spec["type"] != "LoadBalancer":
        return "other"
    return "own" if not name else "nobody" if name == "esipp.dev/nobody" else "reference"


# ---------------------------------------------------------------------------------------------------- how long it takes
def _parts(
    checks: Sequence[Check],
    made: Made,
    profiles: Sequence[LoadBalancer],
    samples: int,
    moves: int,
    bound: float | None,
) -> Iterator[Part]:
    """What a run takes on an idle machine, with what its seconds follow from; of several load balancers the most."""
    phases = expected(checks, samples, moves)
    per_move = next(each.move for each in PHASES if each.phase == "moves")
    moving = phases.pop("moves", None)
    yield Part(
        "asking", sum(phases.values()),
        f"{counted(len(checks), 'check')}, {counted(samples, 'connection')} a path, "
        f"{counted(len(phases), 'phase')}, as measured on kind",
    )  # fmt: skip
    if moving is not None:
        each = max([per_move, *(_move(profile, bound) for profile in profiles)])
        yield Part(
            "moves", moving + moves * (each - per_move),
            f"{moves} up and {moves} down, {each:g} s for both: what was measured on kind, "
            "or the bound and \"up\" together, if they are more",
        )  # fmt: skip
    usual = max((profile.times.usual.value[1] for profile in profiles if profile.times.usual), default=None)
    if made.balancers and usual is not None:
        yield Part(
            "load balancers",
            usual * made.batches,
            f"{counted(made.balancers, 'is', 'are')} made side by side, so once what one takes"
            + (f", for each of {made.batches} batches" if made.batches > 1 else ""),
        )


def _move(profile: LoadBalancer, bound: float | None) -> float:
    """Seconds that a load balancer takes to follow a pod up, and down."""
    return sum(each for each in (bound or profile.bound, profile.rise) if each)
