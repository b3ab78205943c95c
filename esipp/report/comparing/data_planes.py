"""Data planes, as runs found them, and what each shows otherwise than another. Pure; no lane's name is asked."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum

from esipp.checks.check import Nature, Status
from esipp.checks.known_differences import Claim
from esipp.checks.patterns import patterns
from esipp.checks.reference import Reference
from esipp.ledger.conclusion import FINE
from esipp.ledger.reading import RecordedRun
from esipp.report.comparing.checks import Change, Kind, compare_checks

KUBE_PROXY, IPTABLES = "kube-proxy", "iptables"
UNKNOWN = "unknown"
FAMILIES = {"IPv4, IPv6": "dual-stack", "IPv6, IPv4": "dual-stack"}


@dataclass(frozen=True)
class Plane:
    """What carries Services on a cluster, by what was found there.

    Args:
        proxy: the service proxy, its minor version where it has one of its own, and its mode.
        add_on: the network add-on; empty where the service proxy is that, too.
        families: ``dual-stack``, ``IPv4`` or ``IPv6``.
        kubernetes: the minor version.
        balancer: the cluster's own load balancer; empty where none was found.
    """

    proxy: str
    add_on: str
    families: str
    kubernetes: str
    balancer: str

    @property
    def name(self) -> str:
        """All of it, in words: what tells it apart from others."""
        parts = [self.proxy, self.add_on, self.families, self.balancer, f"Kubernetes {self.kubernetes}"]
        return ", ".join(part for part in parts if part)

    @property
    def is_reference(self) -> bool:
        """Whether others can be held against it: kube-proxy in iptables mode is what the documentation describes."""
        return self.proxy == f"{KUBE_PROXY} {IPTABLES}"

    @property
    def minor(self) -> tuple[int, ...]:
        """The version, to compare; of what cannot be read, the oldest of all."""
        parts = self.kubernetes.split(".")
        return tuple(int(part) for part in parts) if all(part.isdigit() for part in parts) else (0,)


def plane_of(facts: Mapping[str, str]) -> Plane:
    """The data plane that a cluster of these facts has."""
    proxy = facts.get("service-proxy", UNKNOWN)
    add_on = facts.get("network-add-on", UNKNOWN)
    words = [proxy, _minor(facts.get(f"{proxy}.version", "")), facts.get("proxy-mode", UNKNOWN)]
    families = facts.get("families.services", UNKNOWN)
    balancer = facts.get("load-balancer.profile", "")
    return Plane(
        " ".join(word for word in words if word and (word != UNKNOWN or proxy == KUBE_PROXY)),
        "" if add_on == proxy else add_on,
        FAMILIES.get(families, families),
        _minor(facts.get("kubernetes", UNKNOWN)),
        "" if balancer == UNKNOWN else balancer,
    )


def _minor(version: str) -> str:
    return ".".join(version.removeprefix("v").split(".")[:2])


def reference_for(plane: Plane, others: Sequence[Plane]) -> Plane | None:
    """Which of the data planes a plane is held against: kube-proxy's iptables on the same Kubernetes and families.

    The newest one with both families stands for all, and is held against nobody. None where there is no such.
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
    """What a difference is. Known ones say it themselves; all others follow from the verdict."""

    FINDING = Nature.FINDING.value
    DEFECT = Nature.DEFECT.value
    ALLOWED = Nature.ALLOWED.value
    MISSING = "not there"
    OPEN = "undecided"
    HOLDS = "holds"
    RECORDED = "recorded"


@dataclass(frozen=True)
class Differing:
    """Checks that show something else on one data plane than on another, for one reason.

    Args:
        what: whether it is allowed, a defect, a finding.
        ids: the checks.
        levels: theirs, the strictest first.
        before, after: what each data plane shows, the most frequent first, with the verdict where that is another, too.
        reason, references: why.
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
        """The ids, folded."""
        return patterns(self.ids)


Key = tuple[str, str, tuple[Reference, ...], str]
"""What tells groups apart: what it is, why, where that is known from, and what else."""

MOST_SHOWN = 3
"""Different things shown that are told of checks of one reason."""
NOT_ASKED = (Kind.GONE, Kind.NEW, Kind.NO_VERDICT)
OPEN = (Status.INCONCLUSIVE, Status.ERROR)


def differing(reference: RecordedRun, run: RecordedRun, claims: Iterable[Claim]) -> list[Differing]:
    """What a run shows otherwise than the run on the data plane that it is held against; the gravest first.

    Args:
        reference, run: both runs. Checks that one of them was not asked are no difference.
        claims: the known differences, which say of themselves what they are.
    """
    claims = list(claims)
    natures = {claim.reason: claim.nature for claim in claims}
    luck = {claim.reason for claim in claims if claim.by_chance and claim.nature is Nature.ALLOWED}
    groups: dict[Key, list[Change]] = {}
    for change in compare_checks(reference, run):
        if change.kind not in NOT_ASKED and change.new is not None and _tells(change, luck):
            groups.setdefault(_key(change, natures), []).append(change)
    order = list(What)
    found = [
        Differing(
            What(what), tuple(each.id for each in changes), _levels(changes), *_shown(changes, What(what)), reason, see
        )
        for (what, reason, see, _), changes in groups.items()
    ]
    return sorted(found, key=lambda each: (order.index(each.what), -len(each.ids)))


def _tells(change: Change, luck: Set[str]) -> bool:
    """Whether it says something of the data plane: another class of address where the verdict is the same.

    Not where packets were caught, which node a VIP was at, what happened in one window, or what one was told to leave
    out.
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
    """What it is, why, where that is known from, and what else tells such differences apart."""
    old, new = change.old, change.new
    assert old is not None
    assert new is not None
    if new.status is Status.KNOWN:
        nature = new.nature or natures.get(new.reason, Nature.DEFECT)
        return str(nature), new.reason, new.references, ""
    if new.status is Status.UNSUPPORTED or new.status in OPEN:  # the reason is what it shows
        what = What.MISSING if new.status is Status.UNSUPPORTED else What.OPEN
        return what.value, change.after, (), new.status.value
    if new.status in FINE and old.status is new.status:
        return What.RECORDED.value, "", (), f"{sorted(old.shown)} {sorted(new.shown)}"
    if new.status in FINE:
        return What.HOLDS.value, old.reason, old.references, old.status.value
    return What.FINDING.value, new.likely, (), change.after


def _shown(changes: Sequence[Change], what: What) -> tuple[str, str]:
    """What both data planes show on these checks; classes of addresses alone where the verdict is the same."""
    before, after = Counter[str](), Counter[str]()
    for change in changes:
        assert change.old is not None
        assert change.new is not None
        same = change.old.status is change.new.status
        if what is What.RECORDED:
            before[" and ".join(sorted(change.old.shown))] += 1
            after[" and ".join(sorted(change.new.shown))] += 1
        else:
            before[change.before if same else f"{change.old.status.value}: {change.before}"] += 1
            told = change.new.status.value if what in (What.MISSING, What.OPEN) else change.after
            after[told if same or told == change.new.status.value else f"{change.new.status.value}: {told}"] += 1
    return _most(before), _most(after)


def _most(found: Counter[str]) -> str:
    told = [words for words, _ in found.most_common(MOST_SHOWN)]
    return "; ".join(told) + (f"; and {len(found) - MOST_SHOWN} more" if len(found) > MOST_SHOWN else "")


def _levels(changes: Sequence[Change]) -> tuple[str, ...]:
    found = {change.level.value for change in changes}
    return tuple(level for level in ("core", "extended", "record") if level in found)
