"""What the runs said, as docs/peer.json keeps it: the page is rendered from this alone."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ci.peer_tests.report import Outcome, SpecResult
from ci.places import ROOT

Json = dict[str, Any]

KEPT = ROOT / "docs" / "peer.json"


@dataclass(frozen=True)
class Effort:
    """What a run took.

    Args:
        seconds: on the wall.
        cpu: seconds of processor time of the run itself, without what the cluster spent.
        load: the machine's load average over the last minute, when it ended.
    """

    seconds: float
    cpu: float
    load: float


@dataclass(frozen=True)
class Theirs:
    """A run of upstream's specs."""

    effort: Effort
    results: list[SpecResult] = field(default_factory=list)

    def outcomes(self) -> dict[str, Outcome]:
        """What each spec said."""
        return {result.name: result.outcome for result in self.results}


@dataclass(frozen=True)
class Ours:
    """A run of our suites: how many rows said what, and which went wrong (``fail``, ``flaky`` and the like)."""

    effort: Effort
    exit_code: int
    suites: list[str]
    counts: dict[str, int]
    worse: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Noticing:
    """What our suites said of a broken cluster: of the rows that must notice so many did, and others that changed."""

    effort: Effort
    suites: list[str]
    must: int
    right: int
    wrong: dict[str, list[str]]
    said: str


@dataclass(frozen=True)
class Broken:
    """One broken data plane.

    Args:
        name: of the break.
        what: is broken, in one sentence.
        ours: what our suites said.
        theirs: what upstream's specs said.
        again: of the specs that turned red, what they said once more on the healed cluster.
    """

    name: str
    what: str
    ours: Noticing
    theirs: Theirs
    again: Theirs | None = None

    def noticed(self, healthy: dict[str, Outcome]) -> list[SpecResult]:
        """Specs that were green before, are red now, and are green again on the healed cluster."""
        after = self.again.outcomes() if self.again else {}
        return [each for each in self._turned_red(healthy) if after.get(each.name) is Outcome.PASSED]

    def unsure(self, healthy: dict[str, Outcome]) -> list[SpecResult]:
        """Specs that turned red and stayed so on the healed cluster: it was not the break, or not it alone."""
        sure = self.noticed(healthy)
        return [each for each in self._turned_red(healthy) if each not in sure]

    def calmed(self, healthy: dict[str, Outcome]) -> list[SpecResult]:
        """Specs that are red on the healthy cluster and green on the broken one."""
        bad = (Outcome.FAILED, Outcome.TIMED_OUT)
        return [
            each for each in self.theirs.results if each.outcome is Outcome.PASSED and healthy.get(each.name) in bad
        ]

    def _turned_red(self, healthy: dict[str, Outcome]) -> list[SpecResult]:
        return [each for each in self.theirs.results if each.bad and healthy.get(each.name) is Outcome.PASSED]


@dataclass
class Comparison:
    """Everything.

    Args:
        versions: of Kubernetes, of both sides' programs, and the lane.
        machine: cores, and how many processes of upstream's ran side by side.
        limits: seconds that upstream's whole run was given, healthy and broken.
        theirs: upstream's run on the healthy cluster.
        ours: our run on the healthy cluster.
        broken: by name, in the order in which they were tried.
    """

    versions: dict[str, str] = field(default_factory=dict)
    machine: dict[str, int] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)
    theirs: Theirs | None = None
    ours: Ours | None = None
    broken: dict[str, Broken] = field(default_factory=dict)

    def healthy(self) -> dict[str, Outcome]:
        """What each of upstream's specs said on the healthy cluster."""
        return self.theirs.outcomes() if self.theirs else {}

    def save(self, path: Path = KEPT) -> None:
        """Write it down."""
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    @staticmethod
    def load(path: Path = KEPT) -> Comparison:
        """Read what is kept; nothing is kept at first."""
        if not path.is_file():
            return Comparison()
        told: Json = json.loads(path.read_text(encoding="utf-8"))
        return Comparison(
            told["versions"],
            told["machine"],
            told["limits"],
            _theirs(told["theirs"]),
            Ours(**{**told["ours"], "effort": Effort(**told["ours"]["effort"])}) if told["ours"] else None,
            {name: _broken(each) for name, each in told["broken"].items()},
        )


def _broken(told: Json) -> Broken:
    ours = Noticing(**{**told["ours"], "effort": Effort(**told["ours"]["effort"])})
    theirs = _theirs(told["theirs"])
    assert theirs is not None
    return Broken(told["name"], told["what"], ours, theirs, _theirs(told["again"]))


def _theirs(told: Json | None) -> Theirs | None:
    if told is None:
        return None
    results = [SpecResult(**{**each, "outcome": Outcome(each["outcome"])}) for each in told["results"]]
    return Theirs(Effort(**told["effort"]), results)
