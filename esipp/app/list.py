"""The output of ``esipp list``: the checks, or those that an API server of a given version supports."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence

from esipp.base.plural import counted
from esipp.checks.check import Check, Level, say_missing
from esipp.checks.required_features import counts
from esipp.checks.versions import asked_version, read_version, version_features
from esipp.cluster.dialect import Dialect, dialect_of
from esipp.report.causes import by_level


def as_text(checks: Sequence[Check]) -> Iterator[str]:
    """One line per check."""
    for check in checks:
        yield f"{check.level.words:<14}{check.id:<75} {check.expected}"


def as_json(checks: Sequence[Check]) -> Iterator[str]:
    """One JSON object per check."""
    for check in checks:
        yield json.dumps(check.as_json())


def features_as_text(checks: Sequence[Check]) -> Iterator[str]:
    """One line per feature: how many checks of each level need it."""
    for name, found in counts(checks).items():
        levels = by_level(found.elements())
        yield f"{name:<44} {counted(found.total(), 'check')}" + (f": {levels}" if levels else "")


def features_as_json(checks: Sequence[Check]) -> Iterator[str]:
    """One JSON object per feature."""
    for name, found in counts(checks).items():
        yield json.dumps({"feature": name, "rows": {level.value: found[level] for level in Level if found[level]}})


def text_for(version: str, checks: Sequence[Check]) -> Iterator[str]:
    """The API dialect, the checks that a server of a version supports, and what the other checks need.

    Raises:
        PreflightError: it is not a version, or too old for any check.
    """
    name, dialect, lacking = _for_version(version, checks)
    supported = [check for check in checks if check.id not in lacking]
    yield f"Kubernetes {name}, API dialect {dialect.name}: {len(supported)} of {len(checks)} checks need nothing newer"
    yield from (f"  {remark}" for remark in dialect.remarks)
    yield ""
    yield from as_text(supported)
    if lacking:
        counts = Counter((check.since, check.since_why) for check in checks if check.id in lacking)
        yield from ("", f"{counted(len(lacking), 'check')} would be unsupported:")
        for (since, why), count in sorted(
            counts.items(), key=lambda item: (read_version(item[0][0]) or (), str(item[0][1]))
        ):
            yield f"{count:>6} need Kubernetes {since}" + (f" ({why})" if why else "")


def json_for(version: str, checks: Sequence[Check]) -> Iterator[str]:
    """All checks, with the API dialect, and why a server of a version does not support a check (null if it does).

    Raises:
        PreflightError: it is not a version, or too old for any check.
    """
    name, dialect, lacking = _for_version(version, checks)
    for check in checks:
        support = {"kubernetes": name, "dialect": dialect.name, "unsupported": lacking.get(check.id)}
        yield json.dumps(check.as_json() | support)


def _for_version(version: str, checks: Sequence[Check]) -> tuple[str, Dialect, dict[str, str]]:
    """The version's name, its API dialect, and the reason for each check that it does not support."""
    number = asked_version(version)
    name = version.removeprefix("v")
    features = version_features(version, checks)  # the other features depend on the cluster
    lacking = {}
    for check in checks:
        missing = {each: features[each] for each in check.features if each in features and not features[each].present}
        if missing:
            lacking[check.id] = say_missing(check, missing)
    return name, dialect_of("{}.{}".format(*number)), lacking
