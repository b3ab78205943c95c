"""Failures grouped by cause, and other checks grouped by reason; shared by all reports."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from esipp.checks.check import Level, Status, Verdict
from esipp.checks.known_differences import Nature
from esipp.checks.reference import Reference
from esipp.ledger.recorded_checks import RecordedCheck

TROUBLE = (Status.FAIL, Status.FLAKY, Status.ERROR, Status.INCONCLUSIVE)
"""The verdicts that need attention, in the order of the reports."""

Group = Sequence[RecordedCheck]
"""Checks of one cause, first the shortest id of the strictest level."""


def causes_of_paths(checks: Iterable[RecordedCheck], verdicts: Mapping[str, Verdict]) -> list[Group]:
    """Failed and undecided path checks, grouped by cause.

    Checks have one cause if they differ in the same way and point to the same likely fault.
    """
    groups: dict[tuple[object, ...], list[RecordedCheck]] = {}
    for check in checks:
        verdict = verdicts.get(check.id)
        if verdict is not None and verdict.status in TROUBLE:
            groups.setdefault(_cause(check, verdict), []).append(check)
    ordered = sorted(groups.values(), key=lambda group: TROUBLE.index(verdicts[group[0].id].status))
    return [sorted(group, key=lambda check: (list(Level).index(check.level), len(check.id))) for group in ordered]


def causes_of_others(checks: Iterable[RecordedCheck], verdicts: Mapping[str, Verdict]) -> list[Group]:
    """Other failed and undecided checks; checks of one requirement have one cause."""
    groups: dict[tuple[int, str, str], list[RecordedCheck]] = {}
    for check in checks:
        verdict = verdicts.get(check.id)
        if verdict is not None and verdict.status in TROUBLE:
            groups.setdefault((TROUBLE.index(verdict.status), check.suite, check.requirement), []).append(check)
    return [sorted(group, key=lambda check: list(Level).index(check.level)) for _, group in sorted(groups.items())]


def _cause(check: RecordedCheck, verdict: Verdict) -> tuple[object, ...]:
    """The key that checks of one cause share."""
    if verdict.status is Status.INCONCLUSIVE:
        return (verdict.status, verdict.reason.partition(", but ")[0])
    if verdict.status is Status.ERROR:  # numbers and addresses differ from check to check
        kind = verdict.reason.partition(" (on ")[0]  # the path does not matter
        return (verdict.status, "".join(c for c in kind if not c.isdigit())[:40])
    return (verdict.status, verdict.likely, frozenset(each.value for each in verdict.shown) - check.accept)


@dataclass(frozen=True)
class Cause:
    """Checks of one cause, and what all reports say of the first: labels and texts."""

    checks: Group
    verdict: Verdict
    details: Mapping[str, str]

    @property
    def first(self) -> RecordedCheck:
        """The check that stands for the cause."""
        return self.checks[0]

    @property
    def others(self) -> Group:
        """The checks with the same cause."""
        return self.checks[1:]


def causes(checks: Iterable[RecordedCheck], verdicts: Mapping[str, Verdict]) -> list[Cause]:
    """The causes of failed and undecided checks, path checks first, then the worst verdict."""
    every = list(checks)
    paths, others = ([check for check in every if bool(check.place) is which] for which in (True, False))
    groups = [*causes_of_paths(paths, verdicts), *causes_of_others(others, verdicts)]
    return [Cause(group, verdicts[group[0].id], _details(group, paths, verdicts)) for group in groups]


def is_believed(check: RecordedCheck, verdict: Verdict) -> bool:
    """Whether an observation counts: none of an inconclusive path check does."""
    return verdict.status is not Status.INCONCLUSIVE or not check.place


def _details(group: Group, paths: Sequence[RecordedCheck], verdicts: Mapping[str, Verdict]) -> dict[str, str]:
    first = group[0]
    verdict = verdicts[first.id]
    by = f" (from the echo server and the prober of {first.place.client})" if verdict.tally and first.place else ""
    observed = {
        "expected": verdict.expected,
        "observed": verdict.observed + by,
        "packets": f"the source changed: {_one_of(verdict.change)}" if verdict.change else "",
        "ports": f"source ports {verdict.ports}" if verdict.ports else "",
        "based on": verdict.witnesses,
        "precision": verdict.sees,
    }
    wrong = verdict.status in (Status.FAIL, Status.FLAKY)
    details = {
        "required": first.requirement,
        **(observed if is_believed(first, verdict) else {}),
        "reason": verdict.reason,
        "only affects": common_factor(group, paths, verdicts) if wrong else "",
        "likely": verdict.likely,
    }
    return {label: text for label, text in details.items() if text}


def _one_of(changes: str) -> str:
    """The first of several changes; those of other connections mostly differ only in ports."""
    first, *others = changes.split("; ")
    return first + (f" (and {len(others)} more in the ledger)" if others else "")


def common_factor(
    failing: Sequence[RecordedCheck], checks: Iterable[RecordedCheck], verdicts: Mapping[str, Verdict]
) -> str:
    """The common factors of failing checks that their passing siblings lack; empty if there are none.

    A sibling differs from a failing check on one axis only and has the same requirement. An axis is named if all
    failing checks share its value and all their tested siblings on it pass.
    """
    places = [(check.place, verdicts[check.id]) for check in checks
              if check.place and check.id in verdicts and check.level is not Level.RECORD]  # fmt: skip
    own = [check.place for check in failing if check.place]
    said = []
    for axis in own[0].axes if own else ():
        shared = {place.axes[axis] for place in own}
        if len(shared) != 1:
            continue
        (common,) = shared
        wanted = {place.siblings[axis] for place in own}
        siblings = [(p, v) for p, v in places if p.axes[axis] != common and p.siblings[axis] in wanted]
        asked = [(place, verdict) for place, verdict in siblings if verdict.status is not Status.UNSUPPORTED]
        if asked and all(verdict.status is Status.PASS for _, verdict in asked):
            others = sorted({place.axes[axis] for place, _ in asked})
            rest = " or ".join(others) if len(others) <= 2 else f"{len(others)} others"
            said.append(f"{axis.removesuffix(' family')} {common}, not {rest}")
    return "; ".join(said)


@dataclass
class Reason:
    """A reason why checks differ, were not tested or are undecided, with its checks.

    ``of`` are the missing features that the verdicts name; ``nature`` is the nature of a known difference.
    """

    why: str
    references: tuple[Reference, ...] = ()
    of: list[str] = field(default_factory=list)
    checks: list[RecordedCheck] = field(default_factory=list)
    nature: str = ""

    @property
    def levels(self) -> dict[str, int]:
        """The number of checks by level."""
        found = Counter(check.level for check in self.checks)
        return {level.value: found[level] for level in Level if found[level]}

    @property
    def say_levels(self) -> str:
        """The same in words."""
        return by_level(check.level for check in self.checks)


def by_level(levels: Iterable[Level]) -> str:
    """The number of checks of each level: ``3 core, 1 informational``."""
    found = Counter(levels)
    return ", ".join(f"{found[level]} {level.words}" for level in Level if found[level])


def reasons(checks: Iterable[RecordedCheck], verdicts: Mapping[str, Verdict], status: Status) -> list[Reason]:
    """The reasons of checks that are ``known``, ``unsupported`` or ``inconclusive``, each once.

    Inconclusive checks share a reason if its part before ", but " is the same.
    """
    found: dict[tuple[str, tuple[Reference, ...], str], Reason] = {}
    for check in checks:
        verdict = verdicts.get(check.id)
        if verdict and verdict.status is Status.INCONCLUSIVE is status:
            why = verdict.reason.partition(", but ")[0]
            found.setdefault((why, (), ""), Reason(why)).checks.append(check)
        elif verdict and verdict.status is status:
            # several features often lack for one reason; a check that lacks two counts for the first
            first = verdict.reason.removeprefix("needs ").partition("; ")[0]
            what, _, why = first.rpartition(": ") if status is Status.UNSUPPORTED else ("", "", verdict.reason)
            key = (why, verdict.references, verdict.nature)
            reason = found.setdefault(key, Reason(why, verdict.references, nature=verdict.nature))
            reason.checks.append(check)
            if what and what not in reason.of:
                reason.of.append(what)
    return list(found.values())


def known_defects(checks: Iterable[RecordedCheck], verdicts: Mapping[str, Verdict]) -> list[Reason]:
    """The known differences that the API does not allow: those of the strictest level first, then of most checks."""
    found = [each for each in reasons(checks, verdicts, Status.KNOWN) if each.nature != Nature.ALLOWED]
    levels = list(Level)
    return sorted(found, key=lambda each: (min(levels.index(check.level) for check in each.checks), -len(each.checks)))
