"""What the verdicts are told by in reports: profiles and levels, with the features that their checks need. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from esipp.checks.check import KUBERNETES, Level, Profile, Status, exclusions
from esipp.ledger.reading import RecordedRun
from esipp.ledger.recorded_checks import RecordedCheck

OTHERWISE = "another reason"
"""What stands for a feature where a check was not tested and all that it needs is there."""

NOT_JUDGED = "not judged"
"""What counts call a check without a verdict; only a run that was cut short has any."""


@dataclass(frozen=True)
class Part:
    """The checks of one profile and one level, in their order."""

    profile: str
    level: Level
    checks: Sequence[RecordedCheck]

    def counts(self, run: RecordedRun) -> dict[str, int]:
        """How many checks got which verdict; each verdict that any check got, sorted by name."""
        found = Counter(
            run.verdicts[check.id].status.value if check.id in run.verdicts else NOT_JUDGED for check in self.checks
        )
        return dict(sorted(found.items()))

    def of(self, run: RecordedRun, *statuses: Status) -> list[str]:
        """The ids of the checks that got one of these verdicts, sorted."""
        return sorted(
            check.id for check in self.checks if check.id in run.verdicts and run.verdicts[check.id].status in statuses
        )

    def features(self) -> set[str]:
        """Every feature that a check of it needs."""
        return {name for check in self.checks for name in check.features}


def parts(run: RecordedRun) -> dict[tuple[str, Level], Part]:
    """Every profile and level, also where the run has no such check; without checks about our instrument."""
    checks: dict[tuple[str, Level], list[RecordedCheck]] = {
        (each.value, level): [] for each in Profile for level in Level
    }
    for check in run.qualified:
        checks.setdefault((check.profile, check.level), []).append(check)
    return {key: Part(*key, own) for key, own in checks.items()}


@dataclass(frozen=True)
class Missing:
    """A feature that is not there, why, whether through our own doing, and the checks that were not tested for it."""

    name: str
    why: str
    ours: bool
    checks: Sequence[str]


def missing(run: RecordedRun) -> list[Missing]:
    """What was not tested, by the feature that is missing; a check that lacks two is named with both."""
    checks: dict[str, list[str]] = {}
    for check in run.checks:
        verdict = run.verdicts.get(check.id)
        if verdict is not None and verdict.status is Status.UNSUPPORTED:
            names = exclusions(check.id, run.features) or _lacking(run, check, verdict.reason)
            for name in names or [OTHERWISE]:
                checks.setdefault(name, []).append(check.id)
    return [_missing(run, name, sorted(own)) for name, own in sorted(checks.items())]


def _lacking(run: RecordedRun, check: RecordedCheck, reason: str) -> list[str]:
    """Those of its features that are not there, and those that its verdict names: some follow from what it is about."""
    named = (name for name, each in run.features.items() if not each.present and f"{name}: {each.why}" in reason)
    return sorted({*absent(run, check.features), *named})


def _missing(run: RecordedRun, name: str, checks: Sequence[str]) -> Missing:
    if name == OTHERWISE:
        told = [run.verdicts[check] for check in checks]
        return Missing(name, told[0].reason, any(verdict.left_out for verdict in told), checks)
    feature = run.features.get(name)
    return Missing(name, feature.why if feature else "nobody looked for it", bool(feature and feature.ours), checks)


def present(run: RecordedRun, names: Iterable[str]) -> list[str]:
    """Those of the features that are there, sorted; without versions of Kubernetes, of which the server's tells all."""
    return sorted(
        name
        for name in names
        if not name.startswith(KUBERNETES) and name in run.features and run.features[name].present
    )


def absent(run: RecordedRun, names: Iterable[str]) -> list[str]:
    """Those of the features that are not there, or that nobody looked for, sorted."""
    return sorted(name for name in names if name not in run.features or not run.features[name].present)


def moment(at: float | None, precise: bool = False) -> str:
    """Unix seconds as RFC 3339 has them, in UTC; empty where there are none."""
    if at is None:
        return ""
    told = datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds" if precise else "seconds")
    return told.replace("+00:00", "Z")


def ended(run: RecordedRun) -> float | None:
    """When the run was over, in Unix seconds; None where its ledger has no closing record."""
    at = (run.end or {}).get("at")
    return None if at is None else float(at)


def faults(run: RecordedRun) -> list[str]:
    """What is wrong with the ledger itself; one without a closing record has at least that."""
    return [*run.trouble, *([] if run.end else ["the run has no closing record: it was killed"])]


def settings(run: RecordedRun, *names: str) -> Mapping[str, object]:
    """What the header says of these, where it says anything: older ones know fewer."""
    return {name: run.header[name] for name in names if name in run.header}
