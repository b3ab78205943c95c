"""``Check``, its ``Subject``, and the rules that decide whether a cluster supports a check. No I/O.

The modules of this package add a subject for each kind of experiment.
"""

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Generic, cast

from typing_extensions import TypeIs, TypeVar

from esipp.checks.known_differences import KnownDifference
from esipp.checks.model import AddressClass, Path
from esipp.checks.profile import Limit
from esipp.checks.reference import Reference


class Level(StrEnum):
    """How binding a check is.

    ``core``: the API contract and its documentation. ``extended``: kube-proxy's documented behaviour, where other
    data planes may differ. ``record``: informational; the result is recorded and never fails.
    """

    CORE = "core"
    EXTENDED = "extended"
    RECORD = "record"

    @property
    def words(self) -> str:
        """Return its name in texts, as of the glossary."""
        return "informational" if self is Level.RECORD else self.value


class Profile(StrEnum):
    """The kind of Service of a check. Reports group verdicts by it (a term of the Gateway API)."""

    CLUSTER_IP = "ClusterIP"
    NODE_PORT = "NodePort"
    LOAD_BALANCER = "LoadBalancer"


class Binding(StrEnum):
    """The failures that make a run fail (``--fail-on``): of core checks only, or of extended ones too."""

    CORE = "core"
    EXTENDED = "extended"


class Status(StrEnum):
    """The verdict on a check (docs/verdicts.md). ``recorded`` is for an informational check that was observed: it
    requires nothing, so it neither passes nor fails.
    """

    PASS = "pass"  # noqa: S105 - a verdict, not a password
    RECORDED = "recorded"
    FAIL = "fail"
    FLAKY = "flaky"
    KNOWN = "known"
    UNSUPPORTED = "unsupported"
    INCONCLUSIVE = "inconclusive"
    ERROR = "error"


PACKETS = "packets of"
"""Followed by their number, the witnesses of a verdict that rests on packets."""

_PACKETS = re.compile(rf"(?<!the ){PACKETS} \d+ of")  # "the packets of" so many are those that say nothing


@dataclass(frozen=True)
class Verdict:
    """The verdict on one check.

    ``expected`` and ``observed`` are texts for people. ``tally`` counts observations by result, and ``shown`` has the
    address classes among them. ``left_out`` marks an unsupported check that the cluster itself would support.
    ``ports`` says whether source ports were kept, ``change`` where packets saw the source change, ``witnesses`` which
    evidence the verdict rests on, ``likely`` where to look first after a failure. ``sees`` is the power of the check
    and the resolution of its measurement. ``nature`` is the nature of a known difference (a value of ``Nature``),
    ``missing`` has the missing features of an unsupported check. ``instrument`` marks a check of the reference load
    balancer, which counts neither for nor against the cluster.
    """

    check_id: str
    level: Level
    status: Status
    expected: str
    observed: str
    reason: str = ""
    tally: Mapping[str, int] = field(default_factory=dict)
    references: tuple[Reference, ...] = ()
    shown: tuple[AddressClass, ...] = ()
    left_out: bool = False
    ports: str = ""
    change: str = ""
    witnesses: str = ""
    likely: str = ""
    sees: str = ""
    nature: str = ""
    missing: tuple[str, ...] = ()
    instrument: bool = False

    @property
    def by_packets(self) -> bool:
        """Return whether it rests on captured packets."""
        return bool(_PACKETS.search(self.witnesses))


FAMILY = "family."
OUTSIDE, TWO_ADDRESSES = "vantage.outside", "vantage.outside.two-addresses"
"""Features: a client outside the cluster, and a second one with another address. Features of their own say so if that
does not hold for every IP family, or not for raw sockets: see ``_of_vantages``."""

LONG = "long"
"""Feature: the run may take long, as with ``--long``."""

ROUTED, NAT = f"{OUTSIDE}.routed", f"{OUTSIDE}.nat"
"""Features: a client outside in another subnet, behind a router; and one behind NAT. esipp makes both next to kind's
nodes."""

RAW_SOCKETS = f"{OUTSIDE}.raw-sockets"
"""Feature: clients outside may open raw sockets, which SCTP needs, and questions to a link (ARP, NDP). Absent if these
clients are containers."""

LINK_LOCAL = f"{OUTSIDE}.link-local"
"""Feature: a client outside is on the nodes' own link, so that it reaches them from its link-local address."""

ONE_NODE = "load-balancer.one-node"
"""Feature: one node at a time answers for a VIP (ARP, NDP), by the profile of the cluster's own load balancer."""


def on_link(family: str) -> str:
    """Return the feature: the VIPs of a family are on a link of the client outside, so that it can ask who has them."""
    return f"load-balancer.on-link.{family.lower()}"


WITHOUT_NODE_PORTS = "load-balancer.without-node-ports"
"""Feature: the cluster's own load balancer serves Services that have no nodePorts."""

HEALTH_VIEW = "load-balancer.health-view"
"""Feature: the cluster's own load balancer reports the health of each node."""

REFERENCE = "load-balancer.reference-"
"""Prefix of features for the classes of the reference load balancer."""

OWN_REFERENCE = "load-balancer.reference.role"
"""The fact about the role of the reference load balancer. ``own``: it serves Services without a class, so it is the
cluster's own load balancer. ``instrument``: the cluster has another one."""

HOST_NETWORK = "host-network"
"""Feature of checks that need the agents on the host network, which a cluster may not admit."""

KUBERNETES = "kubernetes."
"""Prefix of features for a version: ``kubernetes.1.28``."""

PROXY_VERSION = "kube-proxy-version"
"""The fact of kube-proxy's version, which may differ from the API server's. If it also differs between nodes, the value
has all versions, the oldest first: ``1.33.13, 1.36.3``."""

PROXY_SKEW = "kube-proxy-skew"
"""The fact of how many minor versions kube-proxy is older than the API server. Absent if it is none."""

KUBE_PROXY = f"{PROXY_VERSION}."
"""Prefix of features for a version of kube-proxy: ``kube-proxy-version.1.28``."""

OF_VERSIONS = (KUBERNETES, KUBE_PROXY)
"""The prefixes of features for versions."""

CARRIES = "load-balancer.carries."
"""Prefix of features for traffic that the cluster's own load balancer may not carry (loadbalancers). Words of
``Subject.balanced`` follow: ``load-balancer.carries.sctp``."""

REPORTS = "load-balancer.reports."
"""Prefix of features for the header in which the cluster's own load balancer reports clients (loadbalancers):
``load-balancer.reports.proxy-v2``."""

AT_VIPS = f"{OUTSIDE}.vips."
"""Prefix of facts, by family (``vantage.outside.vips.ipv4``), that say why the address of a client outside is uncertain
at VIPs of the cluster's own load balancer. Absent if nothing makes it uncertain."""

ENVIRONMENT = "environment."
"""Prefix of facts about the environment that may affect traffic between clients and pods: a NetworkPolicy that denies,
the proxy of a mesh. Absent if there is none."""

EXCLUDED = "excluded."
"""Prefix of features for checks that the user excludes (exclusions.py). A pattern of ids follows."""


@dataclass(frozen=True)
class Subject:
    """What a check is about. Each kind of experiment has a subject of its own, which answers these questions."""

    @property
    def paths(self) -> tuple[Path, ...]:
        """Return every path that the verdict needs; the testbed must have the Service of each."""
        return ()

    @property
    def judged(self) -> tuple[Path, ...]:
        """Return the path whose connections alone the verdict is about; empty for checks other than of paths."""
        return ()

    @property
    def window(self) -> tuple[Path, ...]:
        """Return the paths that it needs from the judged window, in which nothing changes."""
        return ()

    @property
    def summed(self) -> tuple["Check", ...]:
        """Return the checks whose evidence it judges together; without all of them there is nothing to judge."""
        return ()

    @property
    def bodies(self) -> tuple[Any, ...]:
        """Return the bodies of the requests that it makes to the API server."""
        return ()

    @property
    def part(self) -> str:
        """Return the part of the experiment: a scenario, or a change during steady traffic; empty for all of it."""
        return ""

    @property
    def traits(self) -> Mapping[str, str]:
        """Return what the rules for Kubernetes versions (versions.py) select checks by."""
        return {}

    @property
    def on_host_network(self) -> bool:
        """Return whether the check needs the agents, which run on the host network and report all node addresses."""
        return True

    @property
    def balanced(self) -> frozenset[str]:
        """Return what the cluster's own load balancer must carry, in lower case; empty if the check dials no such VIP.

        The words are protocol, family, policy (``unset`` without one) and vantage, if the check has one.
        """
        return frozenset()

    @property
    def own_service(self) -> str:
        """Return the Service of the cluster's own load balancer with the dialled VIP; empty if there is none."""
        return ""

    @property
    def source_at_vips(self) -> frozenset[str]:
        """Return the families, in lower case, of claims about the address of clients outside at such VIPs."""
        return frozenset()

    @property
    def dials_nodes(self) -> bool:
        """Return whether clients outside dial InternalIPs of nodes, also as controls, and not only VIPs."""
        return True

    @property
    def through_pods(self) -> bool:
        """Return whether the check connects to pods, which NetworkPolicies and meshes may affect."""
        return True

    @property
    def profile(self) -> Profile:
        """Return the kind of Service; health checks and their ports belong to load balancers."""
        return Profile.LOAD_BALANCER

    def limited_by(self, limit: Limit) -> bool:  # noqa: ARG002 - no limit does unless a subject says so
        """Return whether a limit of the cluster's own load balancer, which carries the traffic, affects the check."""
        return False

    def as_json(self) -> dict[str, Any]:
        """Return what the JSON object of the check says about its subject."""
        return {}

    def recorded(self) -> dict[str, Any]:
        """Return what else the ledger keeps of it: its controls, its place in the matrix, and its siblings there."""
        return {}


S = TypeVar("S", bound=Subject, default=Subject, covariant=True)
T = TypeVar("T", bound=Subject)


@dataclass(frozen=True, kw_only=True)
class Check(Generic[S]):
    """One behaviour (docs/architecture.md, law 1), with one requirement and one verdict.

    Args:
        id: stable, and the name of the test.
        requirement: a sentence.
        level: how binding it is.
        suite: the suite that it belongs to.
        references: the documents that it rests on.
        subject: what it is about.
        expected: what it expects, in a few words, as ``esipp list`` prints it.
        fails_if: the fault that it detects, for ``esipp explain`` and for failures.
        asked: how it probes, for ``esipp explain``; empty if there is nothing to add.
        differences: the known differences.
        features: what it needs; if the cluster lacks one, the check is unsupported.
        since: the first Kubernetes version that supports it (``1.28``), or empty for all versions that the suite
            supports. It follows from what the check uses (versions.py), unless the check gives a later one.
        since_why: the reference for ``since``.
    """

    id: str
    requirement: str
    level: Level
    suite: str
    references: tuple[Reference, ...]
    subject: S
    expected: str
    fails_if: str = ""
    asked: str = ""
    differences: tuple[KnownDifference, ...] = ()
    features: frozenset[str] = frozenset()
    since: str = ""
    since_why: Reference | None = None

    @property
    def instrument(self) -> bool:
        """Return whether the check uses the reference load balancer, which is an instrument of this suite."""
        return any(name.startswith(REFERENCE) for name in self.features)

    @property
    def on_host_network(self) -> bool:
        """Return whether the check needs the agents: for its subject, or for the evidence of a known difference."""
        return self.subject.on_host_network or any(known.connections.of_nodes for known in self.differences)

    def with_subject(self, subject: T) -> "Check[T]":
        """Return the same check with another subject."""
        return cast("Check[T]", replace(self, subject=subject))  # type: ignore[arg-type]  # replace() loses T

    def as_json(self) -> dict[str, Any]:
        """Return the check as a JSON object, as ``esipp list --format json`` and the ledger have it."""
        fields = {
            "id": self.id,
            "suite": self.suite,
            "level": self.level.value,
            "requirement": self.requirement,
            "features": sorted(self.features),
            "since": self.since or None,
            "references": [each.as_json() for each in self.references],
            **self.subject.as_json(),
        }
        return {**fields, "expect": fields.get("expect", self.expected)}


def is_about(check: Check, kind: type[T]) -> TypeIs[Check[T]]:
    """Return whether a check has a subject of this kind."""
    return isinstance(check.subject, kind)


def checks_about(kind: type[T], checks: Iterable[Check]) -> list[Check[T]]:
    """Return the checks with subjects of this kind."""
    return [check for check in checks if is_about(check, kind)]


@dataclass(frozen=True)
class Feature:
    """A feature that checks may need: whether it is present, and why.

    ``ours`` marks a feature that is missing for reasons outside the cluster: the user excluded it, or there is no
    client outside. Its core checks then count as left out, and the result is at best ``partial``.
    """

    present: bool
    why: str
    ours: bool = False


def missing_features(check: Check, features: Mapping[str, Feature]) -> dict[str, Feature]:
    """Return the missing features of a check, by name; a feature that the run did not check for is missing."""
    unknown = Feature(False, "this run did not check for it")
    needed = check.features | ({HOST_NETWORK} if check.on_host_network and HOST_NETWORK in features else set())
    needed |= _of_vantages(check, features)
    names = tuple(features)
    needed |= {*exclusions(check.id, _starting(EXCLUDED, names)), *_uncarried(check, _starting(CARRIES, names))}
    found = {name: features.get(name, unknown) for name in sorted(needed)}
    missing = {name: feature for name, feature in found.items() if not feature.present}
    if missing or not check.subject.summed:
        return missing
    for each in check.subject.summed:
        if not (lacks := missing_features(each, features)):
            return {}
        missing |= lacks
    return missing


@lru_cache(maxsize=16)
def _starting(prefix: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names with a prefix; all checks of a run are held against the same ones."""
    return tuple(name for name in names if name.startswith(prefix))


def _of_vantages(check: Check, features: Mapping[str, Feature]) -> set[str]:
    """Return additional features that follow from the need for clients outside, if the run checked for them.

    An IPv6 check needs ``vantage.outside.ipv6``. A check without a family needs all families of the cluster.
    """
    named = {name for name in check.features if name.startswith(FAMILY)}
    families = named or {name for name, each in features.items() if name.startswith(FAMILY) and each.present}
    needed = {
        f"{vantage}.{family.removeprefix(FAMILY)}"
        for vantage in (OUTSIDE, TWO_ADDRESSES, ROUTED, NAT)
        if vantage in check.features
        for family in families
    }
    if check.subject.dials_nodes:
        needed |= {of_nodes(vantage, family) for vantage, family in (each.rsplit(".", 1) for each in needed)}
    needed |= {RAW_SOCKETS} if OUTSIDE in check.features and check.features & {"sctp", ONE_NODE} else set()
    return needed & features.keys()


def _uncarried(check: Check, names: Iterable[str]) -> set[str]:
    """Return the names of features for traffic that the check needs and the load balancer may not carry."""
    words = check.subject.balanced
    named = (name for name in names if words and name.startswith(CARRIES))
    return {name for name in named if words.issuperset(name.removeprefix(CARRIES).split("."))}


def of_nodes(vantage: str, family: str) -> str:
    """Return the name of the feature that a client outside reaches nodes, and not only VIPs."""
    return f"{vantage}.nodes.{family}"


def exclusions(check: str, names: Iterable[str]) -> list[str]:
    """Return the names of features that exclude this check."""
    return [name for name in names if name.startswith(EXCLUDED) and fnmatchcase(check, name.removeprefix(EXCLUDED))]


def say_missing(check: Check, missing: Mapping[str, Feature]) -> str:
    """Return why a check is unsupported, from its missing features; an exclusion by the user comes first."""
    if excluded := [name for name in missing if name.startswith(EXCLUDED)]:
        return "; ".join(missing[name].why for name in excluded)
    too_old = any(name.startswith(KUBERNETES) for name in missing)
    needs = []
    for name, feature in missing.items():
        if name.startswith(KUBE_PROXY) and too_old:
            continue  # kube-proxy is no newer than its API server
        component = next((each for each in OF_VERSIONS if name.startswith(each)), "")
        version = name.removeprefix(component)
        why = f" ({check.since_why})" if check.since_why and version == check.since else ""
        needs.append(f"{_title(component, version)}{why}: {feature.why}" if component else f"{name}: {feature.why}")
    return "needs " + "; ".join(needs)


def _title(component: str, version: str) -> str:
    return f"{'Kubernetes' if component == KUBERNETES else 'kube-proxy'} {version}"


def title_of(feature: str) -> str:
    """Return a feature's name for readers: of a version, the component and its version."""
    component = next((each for each in OF_VERSIONS if feature.startswith(each)), "")
    return _title(component, feature.removeprefix(component)) if component else feature


def unproven_at_vips(check: Check, facts: Mapping[str, str]) -> str:
    """Return why the expected address at a VIP is uncertain (possible NAT) for a failed check; else empty."""
    return next((facts[AT_VIPS + each] for each in sorted(check.subject.source_at_vips) if AT_VIPS + each in facts), "")


def left_out_of(checks: Iterable[Check], selected: Container[str]) -> int:
    """Return how many core checks of the cluster, without those of the instrument, are not selected."""
    return sum(1 for check in checks if check.level is Level.CORE and not check.instrument and check.id not in selected)


def in_environment(check: Check, facts: Mapping[str, str]) -> str:
    """Return what in the environment may explain a failure; else empty."""
    found = (facts[name] for name in sorted(facts) if name.startswith(ENVIRONMENT))
    return next(found, "") if check.subject.through_pods else ""


def is_instrument(check: Check, facts: Mapping[str, str]) -> bool:
    """Return whether a check tests the reference load balancer as an instrument, and says nothing about the cluster."""
    return check.instrument and facts.get(OWN_REFERENCE) != "own"


@dataclass(frozen=True)
class Fact:
    """A fact about a cluster, and how esipp determined it."""

    value: str
    decided: str
