"""The results of a comparison in records/peer.jsonl, the only source of docs/peer.md."""

from dataclasses import asdict, dataclass, field
from pathlib import Path

from cattrs import structure

from ci import records
from ci.peer_tests.report import BAD, Outcome, SpecResult

KEPT = records.FOLDER / "peer.jsonl"


@dataclass(frozen=True)
class Effort:
    """Time and load of a run.

    Args:
        seconds: wall-clock time.
        load: the machine's load average over the last minute, at the end of the run.
    """

    seconds: float
    load: float


@dataclass(frozen=True)
class Theirs:
    """A run of upstream's specs."""

    effort: Effort
    results: list[SpecResult] = field(default_factory=list)

    def outcomes(self) -> dict[str, Outcome]:
        """The outcome of each spec."""
        return {result.name: result.outcome for result in self.results}


@dataclass(frozen=True)
class Ours:
    """A run of this suite: number of checks per status, and the bad ones (``fail``, ``flaky`` and similar)."""

    effort: Effort
    exit_code: int
    suites: list[str]
    counts: dict[str, int]
    worse: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Noticing:
    """The result of this suite with a break: how many of the right checks noticed, and which others changed."""

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
        name: the name of the break.
        what: the break in one sentence.
        ours: the result of this suite.
        theirs: the result of upstream's specs.
        together: other breaks that were in place for upstream's specs at the same time.
    """

    name: str
    what: str
    ours: Noticing
    theirs: Theirs
    together: list[str] = field(default_factory=list)


@dataclass
class Comparison:
    """All results of a comparison.

    Args:
        versions: versions of Kubernetes and both sides' programs, and the lane.
        machine: number of cores, and of parallel upstream processes.
        limits: time limits of upstream's runs in seconds, healthy and broken.
        theirs: upstream's run on the healthy cluster.
        ours: our run on the healthy cluster.
        broken: results with breaks, by name, in order of execution.
        after: upstream's run after repair; a spec that is still red has not noticed a break.
    """

    versions: dict[str, str] = field(default_factory=dict)
    machine: dict[str, int] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)
    theirs: Theirs | None = None
    ours: Ours | None = None
    broken: dict[str, Broken] = field(default_factory=dict)
    after: Theirs | None = None

    def healthy(self) -> dict[str, Outcome]:
        """The outcome of each upstream spec on the healthy cluster."""
        return self.theirs.outcomes() if self.theirs else {}

    def noticed(self, broken: Broken) -> list[SpecResult]:
        """Specs that are green on the healthy cluster, before and after, and red on the broken one."""
        after = self.after.outcomes() if self.after else {}
        return [each for each in self._turned_red(broken) if after.get(each.name) is Outcome.PASSED]

    def unsure(self, broken: Broken) -> list[SpecResult]:
        """Specs that turned red, and were red once more without the break: it was not the break, or not it alone."""
        sure = self.noticed(broken)
        return [each for each in self._turned_red(broken) if each not in sure]

    def calmed(self, broken: Broken) -> list[SpecResult]:
        """Specs that are red on the healthy cluster, before and after, and green on the broken one."""
        before, after = self.healthy(), self.after.outcomes() if self.after else {}
        green = [each for each in broken.theirs.results if each.outcome is Outcome.PASSED]
        return [each for each in green if before.get(each.name) in BAD and after.get(each.name, Outcome.FAILED) in BAD]

    def _turned_red(self, broken: Broken) -> list[SpecResult]:
        healthy = self.healthy()
        return [each for each in broken.theirs.results if each.bad and healthy.get(each.name) is Outcome.PASSED]

    def save(self, path: Path = KEPT) -> None:
        """Write it down: what it was run with, then a record for each side and each break."""
        about = {"kind": "about", "versions": self.versions, "machine": self.machine, "limits": self.limits}
        once = {"ours": self.ours, "theirs": self.theirs, "after": self.after}
        recorded = [{"kind": kind, **asdict(each)} for kind, each in once.items() if each]
        records.write(path, [about, *recorded, *({"kind": "broken", **asdict(each)} for each in self.broken.values())])

    @staticmethod
    def load(path: Path = KEPT) -> "Comparison":
        """Read what is kept; nothing is kept at first."""
        data = Comparison()
        for record in records.read(path):
            match record.pop("kind"):
                case "about":
                    data.versions, data.machine, data.limits = record["versions"], record["machine"], record["limits"]
                case "ours":
                    data.ours = structure(record, Ours)
                case "theirs":
                    data.theirs = structure(record, Theirs)
                case "after":
                    data.after = structure(record, Theirs)
                case "broken":
                    data.broken[record["name"]] = structure(record, Broken)
        return data
