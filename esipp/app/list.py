"""What ``esipp list`` prints: the rows, or those of them that a server of some age would be asked."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence

from esipp.base.kubernetes_version import read_version
from esipp.base.plural import counted
from esipp.checks.check import Level, Row, say_missing
from esipp.checks.required_features import counts
from esipp.checks.versions import asked_version, version_features
from esipp.cluster.dialect import Dialect, dialect_of
from esipp.ledger.conclusion import LEVELS


def as_text(rows: Sequence[Row]) -> Iterator[str]:
    """A line a row."""
    for row in rows:
        yield f"{row.level.value:<9}{row.id:<75} {row.expected}"


def as_json(rows: Sequence[Row]) -> Iterator[str]:
    """A JSON object a row."""
    for row in rows:
        yield json.dumps(row.as_json())


def features_as_text(rows: Sequence[Row]) -> Iterator[str]:
    """A line a feature: how many rows need it, of each level."""
    for name, found in counts(rows).items():
        told = ", ".join(f"{found[level]} {LEVELS[level]}" for level in Level if found[level])
        yield f"{name:<44} {counted(found.total(), 'row')}" + (f": {told}" if told else "")


def features_as_json(rows: Sequence[Row]) -> Iterator[str]:
    """A JSON object a feature."""
    for name, found in counts(rows).items():
        yield json.dumps({"feature": name, "rows": {level.value: found[level] for level in Level if found[level]}})


def text_for(version: str, rows: Sequence[Row]) -> Iterator[str]:
    """The rows that a server of a version would be asked, after how it is spoken to; at last what the others need.

    Raises:
        PreflightError: it is no version, or too old for any row.
    """
    name, dialect, lacking = _asked(version, rows)
    asked = [row for row in rows if row.id not in lacking]
    yield f"Kubernetes {name}, spoken to in {dialect.name}: {len(asked)} of {len(rows)} rows, as far as its age goes"
    yield from (f"  {remark}" for remark in dialect.remarks)
    yield ""
    yield from as_text(asked)
    if lacking:
        counts = Counter((row.since, row.since_why) for row in rows if row.id in lacking)
        yield from ("", f"{counted(len(lacking), 'row')} would be unsupported:")
        for (since, why), count in sorted(
            counts.items(), key=lambda item: (read_version(item[0][0]) or (), str(item[0][1]))
        ):
            yield f"{count:>6} need Kubernetes {since}" + (f" ({why})" if why else "")


def json_for(version: str, rows: Sequence[Row]) -> Iterator[str]:
    """All rows, with the dialect, and why a server of a version would not be asked one (null where it would).

    Raises:
        PreflightError: it is no version, or too old for any row.
    """
    name, dialect, lacking = _asked(version, rows)
    for row in rows:
        told = {"kubernetes": name, "dialect": dialect.name, "unsupported": lacking.get(row.id)}
        yield json.dumps(row.as_json() | told)


def _asked(version: str, rows: Sequence[Row]) -> tuple[str, Dialect, dict[str, str]]:
    """The version as it is told, the dialect, and for rows that are not asked, why."""
    number = asked_version(version)
    name = version.removeprefix("v")
    features = version_features(version, rows)  # what rows need besides, only a cluster can say
    lacking = {}
    for row in rows:
        missing = {each: features[each] for each in row.features if each in features and not features[each].present}
        if missing:
            lacking[row.id] = say_missing(row, missing)
    return name, dialect_of("{}.{}".format(*number)), lacking
