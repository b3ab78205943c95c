"""Re-judging: a recorded run as its judges need it, and the current judges on its evidence."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from esipp.base.errors import PreflightError
from esipp.checks.check import Check, Feature, Status, Verdict, missing_features
from esipp.checks.versions import versions_at
from esipp.judging.frame import Known
from esipp.judging.observation import Observation
from esipp.judging.scenario import RunThen, Scenario, scenario_of, where_to_look
from esipp.ledger.codec import read_record
from esipp.ledger.older import fact
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
    for record in records(past.ledger):
        kind = record["record"]
        if kind == "observation":
            past.observations.setdefault(record["path"], []).append(read_record(record, Observation))
        elif kind == "fact":
            facts = facts | {fact(record["name"]): record["value"]}
            past.at_last = Known(facts, features)
        elif kind == "feature":
            features = features | {record["name"]: Feature(record["present"], record["why"], record["ours"])}
            past.at_last = Known(facts, features)
        elif kind == "verdict":
            past.known[record["id"]] = past.at_last
    return past


def records(ledger: Path) -> Iterator[dict[str, Any]]:
    """The records of a ledger that was found to be whole, in order."""
    with ledger.open(encoding="utf-8") as lines:
        for line in lines:
            if not line.endswith("\n"):  # it is being written
                return
            yield json.loads(line)


@dataclass
class Bench:
    """All judges, with the evidence of one run.

    ``rows`` are those of today.
    """

    past: Past
    checks: Sequence[Check]
    _evidence: dict[str, Any] = field(default_factory=dict)
    _analysed: dict[str, Any] = field(default_factory=dict)
    _completed: dict[int, Known] = field(default_factory=dict)

    # ------------------------------------------------------------------------------------------- what was there then
    def known(self, check: Check) -> Known:
        """Facts and features when the check was judged, with those that only current checks need."""
        then = self.past.known.get(check.id, self.past.at_last)
        if id(then) not in self._completed:
            self._completed[id(then)] = Known(then.facts, self._all_features(then))
        return self._completed[id(then)]

    def _all_features(self, then: Known) -> dict[str, Feature]:
        wanted = {name for check in self.checks for name in check.features}
        unknown = Feature(False, "not determined in that run", ours=True)
        return {**dict.fromkeys(wanted, unknown), **versions_at(then.facts, self.checks), **then.features}

    def lacks(self, check: Check) -> str:
        """Why a check cannot be judged from the evidence of that run; empty if it can."""
        if missing_features(check, self.known(check).features):
            return ""  # it is not asked on that cluster, whatever was seen
        scenario = scenario_of(check)
        name = scenario.record
        if name in self.past.run.unread:
            return self.past.run.unread[name]
        if name in self.past.run.broken_off:
            return f"the run broke off while it gathered the evidence of {name}"
        if name not in self.past.run.judged:
            return f"the run has no evidence for the judge of {name}"
        return scenario.lacks(check, self._evidence_of(scenario), self._then)

    @cached_property
    def _then(self) -> RunThen:
        run = self.past.run
        known = {check.id: check for check in run.checks}
        return RunThen(int(run.header["samples"]), self.past.observations, run.witnesses, known, self.checks)

    def _evidence_of(self, scenario: Scenario) -> Any:
        """What a scenario observed in that run, or nothing; read once."""
        if scenario.name not in self._evidence:
            packed = self.past.run.judged.get(scenario.record)
            self._evidence[scenario.name] = scenario.read(packed, self._then)
        return self._evidence[scenario.name]

    # ---------------------------------------------------------------------------------------------------- the judges
    def verdict(self, check: Check) -> Verdict:
        """The verdict on a check, from the evidence of that run; undecided if that is not enough."""
        known, why = self.known(check), self.lacks(check)
        if why:
            return _left_open(check, Status.INCONCLUSIVE, f"not observed in that run: {why}")
        try:
            found = self._decide(check, known)
        except Exception as broken:  # current checks may need evidence that the run does not have
            ours = f"esipp itself failed: {type(broken).__name__}: {broken}"
            found = _left_open(check, Status.ERROR, ours)
        if found.status is Status.ERROR and check.id not in self._then.checks:
            found = replace(found, status=Status.INCONCLUSIVE, reason=f"not observed in that run: {found.reason}")
        return replace(found, likely=where_to_look(check, found))

    def _decide(self, check: Check, known: Known) -> Verdict:
        scenario = scenario_of(check)
        if scenario.name not in self._analysed:
            self._analysed[scenario.name] = scenario.analyse(self._evidence_of(scenario))
        return scenario.judge(check, self._analysed[scenario.name], known)


def _left_open(check: Check, status: Status, why: str) -> Verdict:
    return Verdict(check.id, check.level, status, check.expected, "nothing", why)
