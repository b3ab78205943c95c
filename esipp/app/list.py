"""What ``esipp list`` prints: the checks, or those of them that a server of some age would be asked."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence

from esipp.base.kubernetes_version import read_version
from esipp.base.plural import counted
from esipp.checks.check import Check, Level, say_missing
from esipp.checks.required_features import counts
from esipp.checks.versions import asked_version, version_features
from esipp.cluster.dialect import Dialect, dialect_of
from esipp.ledger.conclusion import LEVELS


def as_text(checks: Sequence[Check]) -> Iterator[str]:
    """A line a check."""
    for check in checks:
        yield f"{check.level.value:<9}{check.id:<75} {check.expected}"


def as_json(checks: Sequence[Check]) -> Iterator[str]:
    """A JSON object a check."""
    for check in checks:
        yield json.dumps(check.as_json())


def features_as_text(checks: Sequence[Check]) -> Iterator[str]:
    """A line a feature: how many checks need it, of each level."""
    for name, found in counts(checks).items():
        told = ", ".join(f"{found[level]} {LEVELS[level]}" for level in Level if found[level])
        yield f"{name:<44} {counted(found.total(), 'check')}" + (f": {told}" if told else "")


def features_as_json(checks: Sequence[Check]) -> Iterator[str]:
    """A JSON object a feature."""
    for name, found in counts(checks).items():
        yield json.dumps({"feature": name, "rows": {level.value: found[level] for level in Level if found[level]}})


def text_for(version: str, checks: Sequence[Check]) -> Iterator[str]:
    """The checks that a server of a version would be asked, after how it is spoken to; at last what the others need.

    Raises:
        PreflightError: it is no version, or too old for any check.
    """
    name, dialect, lacking = _asked(version, checks)
    asked = [check for check in checks if check.id not in lacking]
    yield f"Kubernetes {name}, spoken to in {dialect.name}: {len(asked)} of {len(checks)} checks can be asked"
    yield from (f"  {remark}" for remark in dialect.remarks)
    yield ""
    yield from as_text(asked)
    if lacking:
        counts = Counter((check.since, check.since_why) for check in checks if check.id in lacking)
        yield from ("", f"{counted(len(lacking), 'check')} would be unsupported:")
        for (since, why), count in sorted(
            counts.items(), key=lambda item: (read_version(item[0][0]) or (), str(item[0][1]))
        ):
            yield f"{count:>6} need Kubernetes {since}" + (f" ({why})" if why else "")


def json_for(version: str, checks: Sequence[Check]) -> Iterator[str]:
    """All checks, with the dialect, and why a server of a version would not be asked one (null where it would).

    Raises:
        PreflightError: it is no version, or too old for any check.
    """
    name, dialect, lacking = _asked(version, checks)
    for check in checks:
        told = {"kubernetes": name, "dialect": dialect.name, "unsupported": lacking.get(check.id)}
        yield json.dumps(check.as_json() | told)


def _asked(version: str, checks: Sequence[Check]) -> tuple[str, Dialect, dict[str, str]]:
    """The version as it is told, the dialect, and for checks that are not asked, why."""
    number = asked_version(version)
    name = version.removeprefix("v")
    features = version_features(version, checks)  # what checks need besides, only a cluster can say
    lacking = {}
    for check in checks:
        missing = {each: features[each] for each in check.features if each in features and not features[each].present}
        if missing:
            lacking[check.id] = say_missing(check, missing)
    return name, dialect_of("{}.{}".format(*number)), lacking
