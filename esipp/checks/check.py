"""A check: one behaviour, one requirement, one verdict; and what decides whether it can be asked. No I/O.

What is common to the checks of all suites is here; what a suite's checks say besides is in model.py (source IP), and in
the packages of the other suites.
"""

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

from esipp.checks.reference import Reference


class Level(StrEnum):
    """How binding a check is.

    ``core``: the API contract and its documentation. ``extended``: kube-proxy's documented behaviour, where other
    data planes may differ. ``record``: written down, never failed.
    """

    CORE = "core"
    EXTENDED = "extended"
    RECORD = "record"


class Profile(StrEnum):
    """The kind of Service that a check is about: what a report's verdicts are told by (Gateway API's word)."""

    CLUSTER_IP = "ClusterIP"
    NODE_PORT = "NodePort"
    LOAD_BALANCER = "LoadBalancer"


class Binding(StrEnum):
    """Whose failures make a run fail (``--fail-on``): those of core checks, or also those of extended ones."""

    CORE = "core"
    EXTENDED = "extended"


class Status(StrEnum):
    """What the judge says of a check (docs/verdicts.md). ``recorded`` is the only one of an informational check that
    was observed: nothing is required of it, so it neither passes nor fails.
    """

    PASS = "pass"  # noqa: S105 - a verdict, not a password
    RECORDED = "recorded"
    FAIL = "fail"
    FLAKY = "flaky"
    KNOWN = "known"
    UNSUPPORTED = "unsupported"
    INCONCLUSIVE = "inconclusive"
    ERROR = "error"


class Nature(StrEnum):
    """What a known difference is: ``allowed``, as the API's text does not forbid it; a known ``defect``; or a
    ``finding`` of this suite's own, of which no issue is known.
    """

    ALLOWED = "allowed"
    DEFECT = "known defect"
    FINDING = "finding"


@dataclass(frozen=True)
class Difference:
    """A legitimate difference of a check that is no path: where all facts in ``when`` hold and ``seen`` is what was
    seen, the check is ``known``, with reason and references. ``before`` limits it to older versions (see ``holds``),
    ``nature`` says what it is, ``by_chance`` that a run need not see it where it holds. ``evidence`` says in a sentence
    what must have been seen, ``hides`` what the difference can still hide (docs/excuses.md).
    """

    when: tuple[tuple[str, str], ...]
    seen: str
    reason: str
    references: tuple[Reference, ...]
    before: str = ""
    nature: Nature = Nature.ALLOWED
    by_chance: bool = False
    evidence: str = ""
    hides: str = ""


FAMILY = "family."
OUTSIDE, TWO_ADDRESSES = "vantage.outside", "vantage.outside.two-addresses"
"""That a client stands outside the cluster, and a second one by another address. Where that is not so in every IP
family, or not with raw sockets, features of their own say it: see ``_of_vantages``."""

RAW_SOCKETS = f"{OUTSIDE}.raw-sockets"
"""That clients outside may open raw sockets, which SCTP needs; nobody looks for it where they are containers."""

HEALTH_VIEW = "load-balancer.health-view"
"""That the cluster's own load balancer can be asked what it thinks of each node."""

REFERENCE = "load-balancer.reference-"
"""How the features are called that stand for the classes of the reference load balancer."""

OWN_REFERENCE = "load-balancer.reference.role"
"""The fact that says what the reference load balancer is here: ``own`` where it serves Services that name no class, so
that it is the cluster's own load balancer; ``instrument`` where it stands beside the cluster's."""

HOST_NETWORK = "host-network"
"""The feature that checks need which rest on our agents: a cluster may admit no such pods."""

KUBERNETES = "kubernetes."
"""How the features are called that stand for a version: ``kubernetes.1.28``."""

CARRIES = "load-balancer.carries."
"""How features are called that stand for what the cluster's own load balancer does not carry, as somebody told
(loadbalancers/carrying.py): words of ``Check.balanced`` follow, ``load-balancer.carries.sctp``."""

ANYTHING = "anything"
"""The word that all checks have which the cluster's own load balancer must carry."""

AT_VIPS = f"{OUTSIDE}.vips."
"""Facts that say why it is not proven by which address a client outside is seen at VIPs of the cluster's own load
balancer, by family (``vantage.outside.vips.ipv4``); there is none where nothing speaks against it (whereabouts.py)."""

SURROUNDINGS = "surroundings."
"""Facts that say what in the cluster's surroundings was seen to stand between clients and pods of ours: a policy that
denies, a mesh's proxy. There is none where nothing does."""

EXCLUDED = "excluded."
"""How those are called that stand for checks which the user leaves out (excluding.py): a pattern of ids follows."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One behaviour (docs/architecture.md, law 1): what every suite's checks have.

    ``features`` that the cluster lacks make it unsupported. ``id`` is stable, and the test's name.
    ``since`` is the Kubernetes from which on it can be asked (``1.28``), ``since_why`` the reference; both follow from
    what the check uses (versions.py), unless a later version is given here. Empty where every Kubernetes will do that
    the suite can speak to.
    """

    id: str
    requirement: str
    level: Level
    suite: str
    references: tuple[Reference, ...]
    features: frozenset[str] = frozenset()
    since: str = ""
    since_why: Reference | None = None

    @property
    def expected(self) -> str:
        """What must be seen, in a word or two, as ``esipp list`` prints it."""
        raise NotImplementedError

    @property
    def asked(self) -> str:
        """How it is asked, as ``esipp explain`` tells it; empty where there is nothing to add."""
        return ""

    @property
    def fails_if(self) -> str:
        """The broken data plane that trips it, for ``esipp explain`` and for whoever reads a failure."""
        return ""

    @property
    def instrument(self) -> bool:
        """Whether it asks by way of the reference load balancer, an instrument of ours beside the cluster."""
        return any(name.startswith(REFERENCE) for name in self.features)

    @property
    def on_host_network(self) -> bool:
        """Whether it rests on our agents, which stand on the nodes' own network and tell all their addresses."""
        return True

    @property
    def balanced(self) -> frozenset[str]:
        """What the cluster's own load balancer must carry for it, in small words; none where no VIP of its is dialled.

        Protocol, family, policy (``unset`` where there is none) and vantage, as far as the check is about one.
        """
        return frozenset()

    @property
    def own_service(self) -> str:
        """The Service object of the cluster's own load balancer whose VIP it dials; empty where it dials none."""
        return ""

    @property
    def source_at_vips(self) -> frozenset[str]:
        """The families, in small letters, in which it claims whose address is seen of clients outside at such VIPs."""
        return frozenset()

    @property
    def through_pods(self) -> bool:
        """Whether it rests on connections to pods of ours, which policies and meshes may hinder."""
        return True

    @property
    def profile(self) -> Profile:
        """The kind of Service that it is about; health checks and their ports belong to load balancers."""
        return Profile.LOAD_BALANCER

    def as_json(self) -> dict[str, Any]:
        """The check as one JSON object, as ``esipp list --format json`` prints it and the ledger keeps it."""
        return {
            "id": self.id,
            "suite": self.suite,
            "level": self.level.value,
            "requirement": self.requirement,
            "features": sorted(self.features),
            "since": self.since or None,
            "references": [each.as_json() for each in self.references],
        }


@dataclass(frozen=True)
class Feature:
    """Something checks may need: whether it is there, and how that was decided.

    ``ours`` marks what is missing through our own doing (left out by the user, no client outside at hand) and not
    because the cluster lacks it: its core checks then count as left out, and the result is at best ``partial``.
    """

    present: bool
    why: str
    ours: bool = False


def missing_features(check: Check, features: Mapping[str, Feature]) -> dict[str, Feature]:
    """What a check needs and is not there, by name; a feature that nobody looked for counts as missing."""
    unknown = Feature(False, "nobody looked for it")
    needed = check.features | ({HOST_NETWORK} if check.on_host_network and HOST_NETWORK in features else set())
    needed |= _of_vantages(check, features)
    needed |= set(exclusions(check.id, features)) | _uncarried(check, features)
    found = {name: features.get(name, unknown) for name in sorted(needed)}
    return {name: feature for name, feature in found.items() if not feature.present}


def _of_vantages(check: Check, features: Mapping[str, Feature]) -> set[str]:
    """What a check that needs clients outside needs of them besides, as far as somebody looked for it.

    ``vantage.outside.ipv6`` for a check about IPv6; a check that names no family needs all that the cluster has.
    """
    named = {name for name in check.features if name.startswith(FAMILY)}
    families = named or {name for name, each in features.items() if name.startswith(FAMILY) and each.present}
    needed = {
        f"{vantage}.{family.removeprefix(FAMILY)}"
        for vantage in (OUTSIDE, TWO_ADDRESSES)
        if vantage in check.features
        for family in families
    }
    needed |= {RAW_SOCKETS} if {OUTSIDE, "sctp"} <= check.features else set()
    return needed & features.keys()


def _uncarried(check: Check, names: Iterable[str]) -> set[str]:
    """Those among the names of features that stand for what is not carried, and is needed: all their words."""
    words = check.balanced
    named = (name for name in names if words and name.startswith(CARRIES))
    return {name for name in named if words.issuperset(name.removeprefix(CARRIES).split("."))}


def exclusions(check: str, names: Iterable[str]) -> list[str]:
    """Those among the names of features that stand for this check, by its id, being left out by the user."""
    return [name for name in names if name.startswith(EXCLUDED) and fnmatchcase(check, name.removeprefix(EXCLUDED))]


def say_missing(check: Check, missing: Mapping[str, Feature]) -> str:
    """Why a check is unsupported, from what of its features is missing; the user's own word goes before."""
    if excluded := exclusions(check.id, missing):
        return "; ".join(missing[name].why for name in excluded)
    told = []
    for name, feature in missing.items():
        version = name.removeprefix(KUBERNETES)
        dated = name.startswith(KUBERNETES)
        why = f" ({check.since_why})" if check.since_why and version == check.since else ""
        told.append(f"Kubernetes {version}{why}: {feature.why}" if dated else f"{name}: {feature.why}")
    return "needs " + "; ".join(told)


def unproven_at_vips(check: Check, facts: Mapping[str, str]) -> str:
    """Why nobody can say whose address was to be seen where a check failed: NAT may be on that way; else nothing."""
    return next((facts[AT_VIPS + each] for each in sorted(check.source_at_vips) if AT_VIPS + each in facts), "")


def left_out_of(checks: Iterable[Check], selected: Container[str]) -> int:
    """How many core checks about the cluster are not among the selected ids; those of our instrument are none."""
    return sum(1 for check in checks if check.level is Level.CORE and not check.instrument and check.id not in selected)


def surrounded(check: Check, facts: Mapping[str, str]) -> str:
    """What stands between clients and pods and may explain that a check failed; else nothing."""
    found = (facts[name] for name in sorted(facts) if name.startswith(SURROUNDINGS))
    return next(found, "") if check.through_pods else ""


def is_instrument(check: Check, facts: Mapping[str, str]) -> bool:
    """Whether a check checks an instrument of ours, and so says nothing for or against the cluster."""
    return check.instrument and facts.get(OWN_REFERENCE) != "own"


def holds(when: Iterable[tuple[str, str]], before: str, facts: Mapping[str, str]) -> bool:
    """Whether a known difference is to be expected on a cluster of these facts.

    Args:
        when: facts and their values, all of which must hold.
        before: a version of Kubernetes, ``1.34``, or of what another fact tells: ``cilium.version 1.19``.
        facts: what was found, by name.
    """
    whose, _, version = before.rpartition(" ")
    if before and not _version(facts.get(whose or "kubernetes", "")) < _version(version):
        return False
    return all(facts.get(name) == value for name, value in when)


def older_than(before: str) -> str:
    """What a known difference's ``before`` says, in words."""
    whose, _, version = before.rpartition(" ")
    return f"{whose or 'Kubernetes'} before {version}"


def _version(text: str) -> tuple[int, ...]:
    """The numbers of ``v1.36.3-gke.1`` or ``1.34``; of what cannot be read, one that is newer than all."""
    found = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(part) for part in found.groups() if part is not None) if found else (9999,)
