"""Data planes found by runs, and their differences. Pure; lane names do not matter."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum

from esipp.checks.check import PROXY_VERSION, Status
from esipp.checks.known_differences import KnownDifference, Nature
from esipp.checks.patterns import patterns
from esipp.checks.reference import Reference
from esipp.checks.versions import read_version
from esipp.ledger.conclusion import FINE
from esipp.ledger.reading import RecordedRun
from esipp.report.comparing.checks import Change, Kind, compare_checks
from esipp.report.comparing.words import ranges

KUBE_PROXY, IPTABLES = "kube-proxy", "iptables"
UNKNOWN = "unknown"
DUAL = "dual-stack"
MASQUERADED = "masqueraded"
FAMILIES = {"IPv4, IPv6": DUAL, "IPv6, IPv4": DUAL}


@dataclass(frozen=True)
class Plane:
    """The data plane of a cluster, from its facts.

    Args:
        proxy: the service proxy, its minor version if it is not that of Kubernetes, and its mode.
        add_on: the network add-on, and whether it masquerades pods to nodes; empty if the service proxy is the same
            product.
        families: ``dual-stack``, ``dual-stack with IPv6 first``, ``IPv4`` or ``IPv6``.
        kubernetes: the minor version.
        balancer: the cluster's own load balancer; empty if there is none.
    """

    proxy: str
    add_on: str
    families: str
    kubernetes: str
    balancer: str

    @property
    def name(self) -> str:
        """The full name of the data plane."""
        parts = [self.proxy, self.add_on, self.families, self.balancer, f"Kubernetes {self.kubernetes}"]
        return ", ".join(part for part in parts if part)

    @property
    def is_reference(self) -> bool:
        """Whether it serves as the reference: Kubernetes documents kube-proxy in iptables mode."""
        return self.proxy == f"{KUBE_PROXY} {IPTABLES}"

    @property
    def minor(self) -> tuple[int, ...]:
        """The version for comparisons; an unreadable version counts as the oldest."""
        parts = self.kubernetes.split(".")
        return tuple(int(part) for part in parts) if all(part.isdigit() for part in parts) else (0,)


def plane_of(facts: Mapping[str, str]) -> Plane:
    """The data plane of a cluster with these facts."""
    proxy = facts.get("service-proxy", UNKNOWN)
    add_on = facts.get("network-add-on", UNKNOWN)
    words = [proxy, own_version(facts), facts.get("proxy-mode", UNKNOWN)]
    services = facts.get("families.services", UNKNOWN)
    families = FAMILIES.get(services, services)
    families += " with IPv6 first" if (families, facts.get("families.first")) == (DUAL, "IPv6") else ""
    balancer = facts.get("load-balancer.profile", "")
    masquerades = MASQUERADED in (facts.get("pod-to-node.ipv4"), facts.get("pod-to-node.ipv6"))
    return Plane(
        " ".join(word for word in words if word and (word != UNKNOWN or proxy == KUBE_PROXY)),
        "" if add_on == proxy else f"{add_on} with masquerading" if masquerades else add_on,
        families,
        _minor(facts.get("kubernetes", UNKNOWN)),
        "" if balancer == UNKNOWN else balancer,
    )


def own_version(facts: Mapping[str, str], *, whole: bool = False) -> str:
    """The version of the service proxy if it is not that of Kubernetes: a kube-proxy of another minor, or Cilium's.

    Args:
        facts: those of the cluster.
        whole: the whole version, and not only the minor one.
    """

    def shown(version: str) -> str:
        return version if whole else _minor(version)

    proxy = facts.get("service-proxy", UNKNOWN)
    if proxy != KUBE_PROXY:
        return shown(facts.get(f"{proxy}.version", ""))
    found = [each for each in facts.get(PROXY_VERSION, "").split(", ") if read_version(each)]
    same = {_minor(each) for each in found} <= {_minor(facts.get("kubernetes", ""))}
    return "" if same else " and ".join(dict.fromkeys(shown(each) for each in found))


def _minor(version: str) -> str:
    return ".".join(version.removeprefix("v").split(".")[:2])


def reference_for(plane: Plane, others: Sequence[Plane]) -> Plane | None:
    """The reference for a data plane: kube-proxy in iptables mode on the same Kubernetes and families.

    The newest one with both families is the fallback, and has no reference itself. None if there is no reference.
    """
    usable = [each for each in others if each.is_reference]
    if not usable:
        return None
    base = max(usable, key=lambda each: (each.families == "dual-stack", each.minor))
    if plane == base:
        return None
    near = [each for each in usable if each != plane and each.minor == plane.minor]
    alike = [each for each in near if each.families == plane.families] or near
    return max(alike, key=lambda each: each.families == "dual-stack", default=base)


class What(StrEnum):
    """The nature of a difference: known differences name it, others follow from the verdict."""

    FINDING = Nature.FINDING.value
    DEFECT = Nature.DEFECT.value
    ALLOWED = Nature.ALLOWED.value
    MISSING = "not there"
    OPEN = "undecided"
    HOLDS = "holds"
    RECORDED = "recorded"


@dataclass(frozen=True)
class Differing:
    """Checks that differ between two data planes for one reason.

    Args:
        what: allowed, a defect, a finding …
        ids: the checks.
        levels: their levels, the strictest first.
        before, after: the observations on each data plane, the most frequent first, with the verdict if it differs.
        reason, references: the reason.
    """

    what: What
    ids: tuple[str, ...]
    levels: tuple[str, ...]
    before: str
    after: str
    reason: str
    references: tuple[Reference, ...]

    @property
    def checks(self) -> list[str]:
        """The ids as patterns."""
        return patterns(self.ids)


Key = tuple[str, str, tuple[Reference, ...], str]
"""The key of a group: nature, reason, references, and the rest."""

MOST_SHOWN = 3
"""How many observations are listed for checks with one reason."""
NOT_ASKED = (Kind.GONE, Kind.NEW, Kind.NO_VERDICT)
OPEN = (Status.INCONCLUSIVE, Status.ERROR)


def differing(reference: RecordedRun, run: RecordedRun, claims: Iterable[KnownDifference]) -> list[Differing]:
    """The differences of a run from the run on the reference data plane, the gravest first.

    Args:
        reference, run: both runs. Checks that only one of them selected are no difference.
        claims: the known differences with their natures.
    """
    claims = list(claims)
    natures = {claim.reason: claim.nature for claim in claims}
    luck = {claim.reason for claim in claims if claim.by_chance and claim.nature is Nature.ALLOWED}
    groups: dict[Key, list[Change]] = {}
    for change in compare_checks(reference, run):
        if change.kind not in NOT_ASKED and change.new is not None and _is_about_data_plane(change, luck):
            groups.setdefault(_key(change, natures), []).append(change)
    order = list(What)
    found = [
        Differing(
            What(what), tuple(each.id for each in changes), _levels(changes), *_shown(changes, What(what)), reason, see
        )
        for (what, reason, see, _), changes in groups.items()
    ]
    return sorted(found, key=lambda each: (order.index(each.what), -len(each.ids)))


def _is_about_data_plane(change: Change, luck: Set[str]) -> bool:
    """Whether a change says something about the data plane.

    With equal verdicts, only a different class of address does. Places of packet captures, the node of a VIP, chance
    within one window and checks excluded by the user do not count.
    """
    assert change.old is not None
    assert change.new is not None
    both = (change.old, change.new)
    if any(each.left_out for each in both):
        return False
    if change.kind is not Kind.OBSERVED:
        lucky = any(each.reason in luck for each in both if each.status is Status.KNOWN)
        return not (lucky and any(each.status in FINE for each in both))
    classes = [set(each.shown) for each in (change.old, change.new)]
    return all(classes) and classes[0] != classes[1]


def _key(change: Change, natures: Mapping[str, Nature]) -> Key:
    """The key of a change's group."""
    old, new = change.old, change.new
    assert old is not None
    assert new is not None
    if new.status is Status.KNOWN:
        nature = new.nature or natures.get(new.reason, Nature.DEFECT)
        return str(nature), new.reason, new.references, ""
    if new.status is Status.UNSUPPORTED or new.status in OPEN:  # the reason replaces the observation
        what = What.MISSING if new.status is Status.UNSUPPORTED else What.OPEN
        return what.value, change.after, (), new.status.value
    if new.status in FINE and old.status is new.status:
        return What.RECORDED.value, "", (), f"{sorted(old.shown)} {sorted(new.shown)}"
    if new.status in FINE:
        return What.HOLDS.value, old.reason, old.references, old.status.value
    return What.FINDING.value, new.likely, (), change.after


def _shown(changes: Sequence[Change], what: What) -> tuple[str, str]:
    """The observations on both data planes; only the classes of addresses if the verdicts are equal."""
    before: dict[str, list[str]] = {}
    after: dict[str, list[str]] = {}
    for change in changes:
        assert change.old is not None
        assert change.new is not None
        same = change.old.status is change.new.status
        if what is What.RECORDED:
            for found, classes in ((before, change.old.shown), (after, change.new.shown)):
                found.setdefault(" and ".join(sorted(classes)), []).append(" and ".join(sorted(classes)))
        else:
            status = "" if same else f"{change.old.status.value}: "
            before.setdefault(status + change.before, []).append(status + (change.measured_before or change.before))
            if what in (What.MISSING, What.OPEN):
                after.setdefault(change.new.status.value, []).append(change.new.status.value)
            else:
                status = "" if same else f"{change.new.status.value}: "
                after.setdefault(status + change.after, []).append(status + (change.measured_after or change.after))
    return _most(before), _most(after)


def _most(found: Mapping[str, Sequence[str]]) -> str:
    """The most frequent observations, with ranges of their numbers."""
    frequent = sorted(found.values(), key=len, reverse=True)[:MOST_SHOWN]
    return "; ".join(map(ranges, frequent)) + (
        f"; and {len(found) - MOST_SHOWN} more" if len(found) > MOST_SHOWN else ""
    )


def _levels(changes: Sequence[Change]) -> tuple[str, ...]:
    found = {change.level.value for change in changes}
    return tuple(level for level in ("core", "extended", "record") if level in found)
