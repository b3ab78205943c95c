"""A cluster that nobody has seen yet: as much of it as a profile tells, the rest assumed, and told to be."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from esipp.base.errors import PreflightError
from esipp.checks.check import HEALTH_VIEW, HOST_NETWORK, KUBERNETES, Check, Feature
from esipp.checks.model import Balancer, Family, Role
from esipp.checks.profile import LoadBalancer
from esipp.checks.versions import asked_version, version_features
from esipp.judging.topology import Node, cast_roles, with_control_plane
from esipp.ledger.run import DEFAULT_NODES
from esipp.loadbalancers.capabilities import features_of
from esipp.loadbalancers.views import NO_TOOL, cloud_of
from esipp.preflight.preflight import left_out

MANAGED = frozenset({"gke", "aks", "eks"})
"""Platforms whose control planes are no nodes that anybody sees."""

ASSUMED = "assumed: only a cluster can tell"

NEWEST = "v99.0"

ADDRESS = {Family.IPV4: "192.0.2.{}", Family.IPV6: "2001:db8::{}"}
"""Addresses of documentation, for nodes that are not there."""


@dataclass(frozen=True)
class Asked:
    """What is asked of a plan.

    Args:
        profile: the load balancer.
        checks: those that are asked for.
        nodes: how many take pods.
        families: those that nodes and Services have; none for all that the load balancer carries.
        version: of the API server; empty for one that has everything.
        without: features that are taken as missing.
        disruptive: whether ``--allow-disruptive`` is given.
        samples, moves, sample_nodes: as of a run.
        seed: as of a run; None where a run would choose one.
        internal: whether load balancers must be internal.
        bound: what the user says that its steering may take, in seconds.
        parallel: how many load balancers stand at the same time; None for all that are needed.
    """

    profile: LoadBalancer
    checks: Sequence[Check]
    nodes: int = 3
    families: tuple[Family, ...] = ()
    version: str = ""
    without: tuple[str, ...] = ()
    disruptive: bool = False
    samples: int = 200
    moves: int = 30
    sample_nodes: int = DEFAULT_NODES
    seed: int | None = None
    internal: bool = False
    bound: float | None = None
    parallel: int | None = None


@dataclass(frozen=True)
class Imagined:
    """That cluster: its nodes, who plays which part, what it has, and which of that is no more than assumed."""

    nodes: Mapping[str, Node]
    roles: Mapping[Role, str]
    features: Mapping[str, Feature]
    assumed: tuple[str, ...]


def imagine(asked: Asked) -> Imagined:
    """The cluster that a profile, and what is asked, tell of.

    Raises:
        PreflightError: fewer than two nodes, no such version or feature.
    """
    if not 2 <= asked.nodes <= 5000:
        raise PreflightError(f"--nodes {asked.nodes} is out of range.", "2 to 5000 that take pods.")
    families = asked.families or asked.profile.families.value
    own_kind = asked.profile.system == "kind"
    nodes = {node.name: node for node in _nodes(asked.nodes, families, shown=own_kind or not _managed(asked.profile))}
    roles = cast_roles(nodes.values())
    known = _known(asked, families, own_kind=own_kind)
    names = {name for check in asked.checks for name in check.features if not name.startswith(KUBERNETES)} | {
        HOST_NETWORK
    }
    features = {name: known.get(name, Feature(True, ASSUMED)) for name in sorted(names | known.keys())}
    features |= features_of(asked.profile)
    features |= left_out(asked.without, features)
    version = asked.version or NEWEST
    if asked.version:
        asked_version(asked.version)
    features |= version_features(version, asked.checks)
    assumed = tuple(name for name, feature in features.items() if feature.why == ASSUMED and name in names)
    return Imagined(nodes, with_control_plane(nodes.values(), roles), features, assumed)


def _managed(profile: LoadBalancer) -> bool:
    return bool(profile.found.platforms & MANAGED)


def _nodes(count: int, families: Sequence[Family], *, shown: bool) -> Iterable[Node]:
    """The nodes, and a control plane's where one shows."""
    for number in range(1, count + 1):
        yield Node(f"node-{number:04}", _addresses(number, families), frozenset())
    if shown:
        internal = _addresses(count + 1, families)
        yield Node("z-control-plane", internal, frozenset(), schedulable=False, marks=frozenset({"control-plane"}))


def _addresses(number: int, families: Sequence[Family]) -> dict[Family, str]:
    return {family: ADDRESS[family].format(number % 250 + 1) for family in families}


def _known(asked: Asked, families: Sequence[Family], *, own_kind: bool) -> dict[str, Feature]:
    """What the profile and the question decide."""
    profile = asked.profile
    found = {
        f"family.{family.value.lower()}": Feature(family in families, f"families asked for: {_list(families)}")
        for family in Family
    }
    found["families.dual"] = Feature(len(set(families)) > 1, f"families asked for: {_list(families)}")
    found["nodes.three"] = Feature(asked.nodes > 2, f"{asked.nodes} nodes take pods")
    found["load-balancer"] = Feature(True, profile.name)
    cloud = cloud_of(profile)
    assumed = "its cloud's own command-line tool is on PATH and logged in" if cloud else NO_TOOL
    found[HEALTH_VIEW] = Feature(bool(cloud), assumed)
    beside = "the reference load balancer stands beside kind's nodes only"
    for each in Balancer:
        if each is not Balancer.DEFAULT:
            found[f"load-balancer.{each.value}"] = Feature(own_kind, beside)
    shown = own_kind or not _managed(profile)
    found["nodes.control-plane"] = Feature(shown, ASSUMED if shown else "managed control planes are no nodes")
    found["nodes.excluded"] = Feature(own_kind, "no node is kept from load balancers, as a rule")
    for family in Family:
        name = f"nodes.second-address.{family.value.lower()}"
        found[name] = Feature(False, "nodes have one address of a family, as a rule")
    said = "--allow-disruptive" if asked.disruptive else "only with --allow-disruptive"
    found["disruptive"] = Feature(asked.disruptive, said, ours=True)
    for name in ("nodes.shell", "control-plane.reachable"):
        found[name] = Feature(own_kind, "docker reaches kind's nodes only")
    found["load-balancer.speaker"] = Feature(profile.noun == "MetalLB", "only MetalLB's speakers are known")
    return found


def _list(families: Iterable[Family]) -> str:
    return ", ".join(family.value for family in families)
