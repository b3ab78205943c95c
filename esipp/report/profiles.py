"""Verdicts by profile and level, with the features that their checks need. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from esipp.checks.check import OF_VERSIONS, Level, Profile, Status, exclusions
from esipp.ledger.reading import RecordedRun
from esipp.ledger.recorded_checks import RecordedCheck

OTHERWISE = "another reason"
"""Replaces the feature for checks that were not tested although all their features are present."""

NOT_JUDGED = "not judged"
"""How counts call a check without a verdict; only an incomplete run has any."""


@dataclass(frozen=True)
class Part:
    """The checks of one profile and one level."""

    profile: str
    level: Level
    checks: Sequence[RecordedCheck]

    def counts(self, run: RecordedRun) -> dict[str, int]:
        """The number of checks by verdict, sorted by name; absent verdicts are left out."""
        found = Counter(
            run.verdicts[check.id].status.value if check.id in run.verdicts else NOT_JUDGED for check in self.checks
        )
        return dict(sorted(found.items()))

    def of(self, run: RecordedRun, *statuses: Status) -> list[str]:
        """The sorted ids of the checks with one of these verdicts."""
        return sorted(
            check.id for check in self.checks if check.id in run.verdicts and run.verdicts[check.id].status in statuses
        )

    def features(self) -> set[str]:
        """Every feature that one of the checks needs."""
        return {name for check in self.checks for name in check.features}


def parts(run: RecordedRun) -> dict[tuple[str, Level], Part]:
    """The parts of all profiles and levels, also empty ones; without checks of the instrument."""
    checks: dict[tuple[str, Level], list[RecordedCheck]] = {
        (each.value, level): [] for each in Profile for level in Level
    }
    for check in run.qualified:
        checks.setdefault((check.profile, check.level), []).append(check)
    return {key: Part(*key, own) for key, own in checks.items()}


@dataclass(frozen=True)
class Missing:
    """A missing feature, why it is missing, whether the user excluded it, and the checks not tested for it."""

    name: str
    why: str
    ours: bool
    checks: Sequence[str]


def missing(run: RecordedRun) -> list[Missing]:
    """The untested checks by missing feature; a check that lacks two features appears with both."""
    checks: dict[str, list[str]] = {}
    for check in run.checks:
        verdict = run.verdicts.get(check.id)
        if verdict is not None and verdict.status is Status.UNSUPPORTED:
            names = exclusions(check.id, run.features) or _lacking(run, check, verdict.reason)
            for name in names or [OTHERWISE]:
                checks.setdefault(name, []).append(check.id)
    return [_missing(run, name, sorted(own)) for name, own in sorted(checks.items())]


def _lacking(run: RecordedRun, check: RecordedCheck, reason: str) -> list[str]:
    """The missing features of a check, and those that its verdict names: some follow from the check's subject."""
    named = (name for name, each in run.features.items() if not each.present and f"{name}: {each.why}" in reason)
    return sorted({*absent(run, check.features), *named})


def _missing(run: RecordedRun, name: str, checks: Sequence[str]) -> Missing:
    if name == OTHERWISE:
        verdicts = [run.verdicts[check] for check in checks]
        return Missing(name, verdicts[0].reason, any(verdict.left_out for verdict in verdicts), checks)
    feature = run.features.get(name)
    return Missing(name, feature.why if feature else "not probed", bool(feature and feature.ours), checks)


def present(run: RecordedRun, names: Iterable[str]) -> list[str]:
    """The sorted features that are present, without Kubernetes versions: the server's version implies them."""
    return sorted(
        name
        for name in names
        if not name.startswith(OF_VERSIONS) and name in run.features and run.features[name].present
    )


def absent(run: RecordedRun, names: Iterable[str]) -> list[str]:
    """The sorted features that are missing or were not probed."""
    return sorted(name for name in names if name not in run.features or not run.features[name].present)


def moment(at: float | None, precise: bool = False) -> str:
    """Unix seconds as an RFC 3339 time in UTC; empty for None."""
    if at is None:
        return ""
    text = datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds" if precise else "seconds")
    return text.replace("+00:00", "Z")


def ended(run: RecordedRun) -> float | None:
    """The end of the run in Unix seconds; None if its ledger has no closing record."""
    at = (run.end or {}).get("at")
    return None if at is None else float(at)


def faults(run: RecordedRun) -> list[str]:
    """The faults of the ledger, a missing closing record included."""
    return [*run.trouble, *([] if run.end else ["the run has no closing record: it was killed"])]


def settings(run: RecordedRun, *names: str) -> Mapping[str, object]:
    """The named settings that the header has; older headers have fewer."""
    return {name: run.header[name] for name in names if name in run.header}
