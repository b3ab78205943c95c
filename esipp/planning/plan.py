"""From a profile and rows to a plan: what is asked, what is made, how long it takes, what is left. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from esipp.cluster import Cluster
from esipp.deployed import props_of
from esipp.durations import PHASES, expected
from esipp.loadbalancers.patience import Patience, patience_of
from esipp.loadbalancers.profiles.model import LoadBalancer, Outcome
from esipp.model import Balancer, ServiceType, Vantage, paths_of
from esipp.planning import limits
from esipp.planning.imagined import Asked, Imagined, imagine
from esipp.props import Ground
from esipp.rows import HOST_NETWORK, Feature, Row, missing_features, say_missing
from esipp.stage import Stage, speakers_of_sctp

RUN = "RUN"
"""Stands for a run's id."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Made:
    """What exists at once, at most.

    Args:
        balancers: Services that the cluster's own load balancer serves.
        reference: those of the reference load balancer.
        unserved: those of a class that nobody serves: they cost nothing.
        services: all other Services.
        pods: pods of ours.
        clients: clients outside.
    """

    balancers: int
    reference: int
    unserved: int
    services: int
    pods: int
    clients: int


@dataclass(frozen=True)
class Part:
    """A part of the time: seconds, and what they follow from."""

    name: str
    seconds: float
    why: str


@dataclass(frozen=True)
class Plan:
    """What a run would do.

    Args:
        profile: where.
        rows: how many are asked for.
        asked: those that would be asked.
        unsupported: those that would not, and why.
        limited: those that are asked, and what is predicted of them; a row stands under its worst limit.
        assumed: features that are taken to be there.
        made: what would exist at once.
        patience: how long is waited.
        parts: where the time goes.
    """

    profile: LoadBalancer
    rows: int
    asked: tuple[Row, ...]
    unsupported: Mapping[str, tuple[Row, ...]]
    limited: tuple[limits.Limited, ...]
    assumed: tuple[str, ...]
    made: Made
    patience: Patience
    parts: tuple[Part, ...]

    @property
    def seconds(self) -> float:
        """All of the time."""
        return sum(part.seconds for part in self.parts)


def plan(asked: Asked) -> Plan:
    """The plan.

    Raises:
        PreflightError: what is asked makes no sense.
    """
    cluster = imagine(asked)
    missing = {row.id: missing_features(row, cluster.features) for row in asked.rows}
    able = tuple(row for row in asked.rows if not missing[row.id])
    unsupported: dict[str, list[Row]] = {}
    for row in asked.rows:
        if missing[row.id]:
            unsupported.setdefault(say_missing(row, _first(missing[row.id])), []).append(row)
    limited = limits.limited(asked.profile, able)
    gone = {row.id for limit, rows in limited if limit.outcome is Outcome.UNSUPPORTED for row in rows}
    for limit, rows in limited:
        if limit.outcome is Outcome.UNSUPPORTED:
            unsupported.setdefault(limit.why, []).extend(rows)
    able = tuple(row for row in able if row.id not in gone)
    patience = patience_of([asked.profile])
    made = _made(able, cluster)
    return Plan(
        asked.profile,
        len(asked.rows),
        able,
        {why: tuple(rows) for why, rows in unsupported.items()},
        tuple((limit, rows) for limit, rows in limited if limit.outcome is not Outcome.UNSUPPORTED),
        cluster.assumed,
        made,
        patience,
        tuple(_parts(asked, able, made)),
    )


def _first(missing: Mapping[str, Feature]) -> dict[str, Feature]:
    """One of several that are missing: rows are counted under one reason only."""
    return dict(list(missing.items())[:1])


# ------------------------------------------------------------------------------------------------------- what is made
def _made(rows: Sequence[Row], cluster: Imagined) -> Made:
    paths = sorted({path for row in rows for path in paths_of(row)}, key=lambda path: path.key)
    ground = Ground(RUN, "image", cluster.nodes, cluster.roles, cluster.features)
    props = props_of(rows, ground)
    hosted = cluster.features[HOST_NETWORK].present
    stage = Stage(cast(Cluster, None), RUN, "image", cluster.nodes, cluster.roles, hosted=hosted)
    objects = {path.object_name: path.service for path in paths if path.service}
    kinds: Counter[str] = Counter()
    for service in objects.values():
        own = service.type is ServiceType.LOAD_BALANCER
        reference = own and service.balancer is not Balancer.DEFAULT
        kinds["reference" if reference else "own" if own else "other"] += 1
    for manifest in props.services:
        kinds[_kind_of(manifest)] += 1
    clients = {client.name for client in {path.client for path in paths} | props.clients
               if client.vantage is Vantage.OUTSIDE}  # fmt: skip
    pods = stage.pods_for(paths, props) if rows else []
    return Made(
        kinds["own"], kinds["reference"], kinds["nobody"], kinds["other"], len(pods),
        len(clients | ({"outside-1"} if speakers_of_sctp(paths) and clients else set())),
    )  # fmt: skip


def _kind_of(service: Json) -> str:
    spec = service["spec"]
    name = spec.get("loadBalancerClass")
    if spec["type"] != "LoadBalancer":
        return "other"
    return "own" if not name else "nobody" if name == "esipp.dev/nobody" else "reference"


# ---------------------------------------------------------------------------------------------------- how long it takes
def _parts(asked: Asked, rows: Sequence[Row], made: Made) -> Iterator[Part]:
    """What a run takes on an idle machine, with what its seconds follow from."""
    phases = expected(rows, asked.samples, asked.moves)
    per_move = next(each.move for each in PHASES if each.phase == "moves")
    moving = phases.pop("moves", None)
    yield Part(
        "asking", sum(phases.values()),
        f"{len(rows)} rows, {asked.samples} connections a path, {len(phases)} phases, as measured on kind",
    )  # fmt: skip
    if moving is not None:
        profile = asked.profile
        own = sum(each for each in (profile.local.bound if profile.local.on else None, profile.rise) if each)
        each = max(per_move, own)
        yield Part(
            "moves", moving + asked.moves * (each - per_move),
            f"{asked.moves} up and {asked.moves} down, {each:g} s for both: what was measured on kind, "
            "or the bound and \"up\" together, if they are more",
        )  # fmt: skip
    usual = asked.profile.times.usual
    if made.balancers and usual:
        yield Part("load balancers", usual.value[1], f"{made.balancers} are made side by side, so once what one takes")
