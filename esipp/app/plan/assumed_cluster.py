"""The assumed cluster of a plan: what a load balancer's profile says, and marked assumptions for the rest."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from esipp.base.errors import PreflightError
from esipp.base.plural import counted
from esipp.checks.catalog import all_checks
from esipp.checks.check import (
    HEALTH_VIEW,
    HOST_NETWORK,
    LINK_LOCAL,
    LONG,
    NAT,
    OF_VERSIONS,
    ONE_NODE,
    ROUTED,
    WITHOUT_NODE_PORTS,
    Check,
    Feature,
    on_link,
)
from esipp.checks.model import Balancer, Family, Role
from esipp.checks.profile import LoadBalancer
from esipp.checks.versions import asked_version, version_features
from esipp.judging.topology import Node, cast_roles, with_control_plane
from esipp.ledger.run import DEFAULT_NODES
from esipp.loadbalancers.capabilities import features_of, node_ports_feature, one_node_feature
from esipp.loadbalancers.provider_annotations import header_features, headers_of
from esipp.loadbalancers.views import NO_TOOL, cloud_of
from esipp.preflight.outside_clients import ONLY_KIND
from esipp.preflight.preflight import left_out
from esipp.preflight.steps import NEEDS_TWO, say_too_few

MANAGED = frozenset({"gke", "aks", "eks"})
"""Platforms whose control planes do not appear as nodes."""

ASSUMED = "assumed: only a cluster can show it"

NEWEST = "v99.0"

ADDRESS = {Family.IPV4: "192.0.2.{}", Family.IPV6: "2001:db8::{}"}
"""Addresses reserved for documentation, for the assumed nodes."""


@dataclass(frozen=True)
class Asked:
    """The input of a plan.

    Args:
        profile: the load balancer.
        checks: the selected checks.
        nodes: the number of nodes that can run pods; a run needs two.
        families: the address families of nodes and Services; none for all that the load balancer supports.
        version: version of the API server; empty for one that has every feature.
        without: features that are treated as missing.
        disruptive: whether ``--allow-disruptive`` is given.
        samples, moves, sample_nodes: as for a run.
        seed: as for a run; None if a run would choose one.
        internal: whether load balancers must be internal.
        bound: the value of ``--bound``, in seconds.
        long: whether ``--long`` is given.
        parallel: the maximum number of load balancers at the same time; None for no limit.
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
    long: bool = False


@dataclass(frozen=True)
class Imagined:
    """An assumed cluster: its nodes, their roles, its features, and the names of the assumed features."""

    nodes: Mapping[str, Node]
    roles: Mapping[Role, str]
    features: Mapping[str, Feature]
    assumed: tuple[str, ...]


def imagine(asked: Asked) -> Imagined:
    """The cluster that a profile and the options describe.

    Raises:
        PreflightError: the number of nodes is out of range, or there is no such version or feature.
    """
    if not 1 <= asked.nodes <= 5000:
        raise PreflightError(f"--nodes {asked.nodes} is out of range.", "use 1 to 5000 nodes that can run pods.")
    if asked.nodes < 2:
        raise PreflightError(say_too_few(asked.nodes, counted(asked.nodes, "node")), NEEDS_TWO)
    families = asked.families or asked.profile.carries.families.value
    own_kind = asked.profile.system == "kind"
    nodes = {node.name: node for node in _nodes(asked.nodes, families, shown=own_kind or not _managed(asked.profile))}
    roles = cast_roles(nodes.values(), asked.seed or 0)
    known = _known(asked, families, own_kind=own_kind)
    names = {name for check in asked.checks for name in check.features if not name.startswith(OF_VERSIONS)} | {
        HOST_NETWORK
    }
    features = {name: known.get(name, Feature(True, ASSUMED)) for name in sorted(names | known.keys())}
    features |= features_of(asked.profile)
    others = {name: Feature(True, ASSUMED) for check in all_checks() for name in check.features}
    features |= left_out(asked.without, others | features)  # as for a run, also one that no chosen check needs
    version = asked.version or NEWEST
    if asked.version:
        asked_version(asked.version)
    features |= version_features(version, asked.checks)
    assumed = tuple(name for name, feature in features.items() if feature.why == ASSUMED and name in names)
    return Imagined(nodes, with_control_plane(nodes.values(), roles, asked.seed or 0), features, assumed)


def _managed(profile: LoadBalancer) -> bool:
    return bool(profile.found.platforms & MANAGED)


def _nodes(count: int, families: Sequence[Family], *, shown: bool) -> Iterable[Node]:
    """The nodes, with a control plane node if the platform shows one."""
    for number in range(1, count + 1):
        yield Node(f"node-{number:04}", _addresses(number, families), frozenset())
    if shown:
        internal = _addresses(count + 1, families)
        yield Node("z-control-plane", internal, frozenset(), schedulable=False, marks=frozenset({"control-plane"}))


def _addresses(number: int, families: Sequence[Family]) -> dict[Family, str]:
    return {family: ADDRESS[family].format(number % 250 + 1) for family in families}


def _known(asked: Asked, families: Sequence[Family], *, own_kind: bool) -> dict[str, Feature]:
    """The features that the profile and the options decide."""
    profile, of_families = asked.profile, f"address families: {', '.join(family.value for family in families)}"
    found = {f"family.{family.value.lower()}": Feature(family in families, of_families) for family in Family}
    found["families.dual"] = Feature(len(set(families)) > 1, of_families)
    found["nodes.three"] = Feature(asked.nodes > 2, f"{asked.nodes} nodes can run pods")
    found["nodes.zones"] = Feature(False, "assumes that nodes have no zones")
    found["load-balancer"] = Feature(True, profile.name)
    shows = own_kind or not _managed(profile)
    number = asked.nodes + shows
    found["nodes.four"] = Feature(number > 3, f"{counted(number, 'node')} can run our pods")
    found |= header_features(profile, headers_of(profile))
    found[WITHOUT_NODE_PORTS] = node_ports_feature([profile])
    found[ONE_NODE] = one_node_feature([profile])
    beside = "assumes that a client outside is on the nodes' link" if own_kind else "clients outside are seldom on it"
    found[LINK_LOCAL] = Feature(own_kind, beside)
    cloud = cloud_of(profile)
    assumed = "assumes that its cloud's command-line tool is on PATH and logged in" if cloud else NO_TOOL
    found[HEALTH_VIEW] = Feature(bool(cloud), assumed)
    only_kind = "the reference load balancer exists next to kind's nodes only"
    for each in Balancer:
        if each is not Balancer.DEFAULT:
            found[f"load-balancer.{each.value}"] = Feature(own_kind, only_kind)
    for vantage in (ROUTED, NAT):
        found[vantage] = Feature(own_kind, ONLY_KIND.why)
    found["nodes.control-plane"] = Feature(shows, ASSUMED if shows else "managed control planes are not nodes")
    found["nodes.excluded"] = Feature(own_kind, "usually no node is excluded from load balancers")
    for family in Family:
        for name in ("nodes.second-address", "nodes.other-addresses", "nodes.external-ips"):
            found[f"{name}.{family.value.lower()}"] = Feature(False, "nodes usually have one address per family")
        several = f"load-balancer.several-addresses.{family.value.lower()}"
        found[several] = Feature(False, "load balancers usually announce one address per family")
        found[on_link(family)] = Feature(own_kind, beside)
        found[f"nodes.{family.value.lower()}"] = Feature(family in families, of_families)
    said = "--allow-disruptive" if asked.disruptive else "only with --allow-disruptive"
    found["disruptive"] = Feature(asked.disruptive, said, ours=True)
    found[LONG] = Feature(asked.long, "--long" if asked.long else "only with --long", ours=True)
    found["network-agent.other-image"] = Feature(False, "assumes kube-proxy, and no Cilium that could be upgraded")
    for name in ("nodes.shell", "control-plane.reachable"):
        found[name] = Feature(own_kind, "docker reaches kind's nodes only")
    found["control-plane.several"] = Feature(False, "assumes one API server")
    found["load-balancer.speaker"] = Feature(profile.noun == "MetalLB", "esipp supports only MetalLB's speakers")
    of_metallb = own_kind and profile.noun == "MetalLB"
    found["load-balancer.controller"] = Feature(of_metallb, "esipp stops only MetalLB's controller, on kind's nodes")
    return found
