"""Recorded runs: read from a ledger, with the evidence for judging them again."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from esipp.base.errors import PreflightError
from esipp.checks.check import Feature
from esipp.checks.observation import Irregular, Observation, Outcome
from esipp.judging.frame import Known
from esipp.ledger.reading import LEDGER, RecordedRun, read_run


@dataclass
class Past:
    """A recorded run.

    Args:
        run: the run as reports read it.
        ledger: the path of its ledger.
        observations: the full observations of paths.
        known: facts and features when each check was judged, by its id; ``at_last``: those at the end.
    """

    run: RecordedRun
    ledger: Path
    observations: dict[str, list[Observation]] = field(default_factory=dict)
    known: dict[str, Known] = field(default_factory=dict)
    at_last: Known = field(default_factory=Known)


def read_past(path: Path) -> Past:
    """Read a run, to judge it again.

    Args:
        path: the run's folder, or its ledger.

    Raises:
        PreflightError: there is no ledger, it has a version that this esipp does not read, or it is damaged, so that
            its evidence cannot be trusted. A killed run is no damage.
    """
    run = read_run(path)
    damage = [each for each in run.trouble if each not in run.unread.values()]
    if damage:
        more = f", and {len(damage) - 1} more faults" if len(damage) > 1 else ""
        raise PreflightError(
            f"The ledger of {path} is damaged and cannot be re-judged: {damage[0]}{more}.",
            "'esipp report' shows what is readable.",
        )
    past = Past(run, path / LEDGER if path.is_dir() else path)
    facts: dict[str, str] = {}
    features: dict[str, Feature] = {}
    for told in records(past.ledger):
        kind = told["record"]
        if kind == "observation":
            past.observations.setdefault(told["path"], []).append(read_observation(told))
        elif kind == "fact":
            facts = facts | {told["name"]: told["value"]}
            past.at_last = Known(facts, features)
        elif kind == "feature":
            features = features | {told["name"]: Feature(told["present"], told["why"], told["ours"])}
            past.at_last = Known(facts, features)
        elif kind == "verdict":
            past.known[told["id"]] = past.at_last
    return past


def records(ledger: Path) -> Iterator[dict[str, Any]]:
    """The records of a ledger that was found to be whole, in order."""
    with ledger.open(encoding="utf-8") as lines:
        for line in lines:
            if not line.endswith("\n"):  # it is being written
                return
            yield json.loads(line)


def read_observation(told: Mapping[str, Any]) -> Observation:
    """The observation from ``Observation.as_json``."""
    source, dialled, seen = (_end(told[name]) for name in ("source", "dialled", "seen"))
    plain = {
        name: told[name]
        for name in ("path", "seq", "echo", "started", "connected", "ended", "time", "detail", "observer", "nonce")
    }
    return Observation(
        **plain,
        outcome=Outcome(told["outcome"]),
        source=source,
        dialled=dialled,
        seen=seen,
        tag=told["tag"],
        count=told["count"],
        ports=tuple((own, other) for own, other in told["ports"]),
        connection=told.get("connection", 0),
        addresses=tuple(told.get("addresses", ())),
        moments=tuple((began, ended) for began, ended in told.get("moments", ())),
        irregular=tuple(Irregular(*each) for each in told.get("irregular", ())),
    )


def _end(told: Any) -> tuple[str, int] | None:
    """Address and port."""
    return (told[0], told[1]) if told else None
