"""Registration of the scenario of paths."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from esipp.checks.connections import ConnectionsCheck, OnConnections
from esipp.checks.observation import Tracked
from esipp.checks.path import OnPath, PathCheck
from esipp.judging.frame import Known
from esipp.judging.scenario import RunThen, Scenario, Typical, by_subject
from esipp.judging.topology import Topology
from esipp.scenarios.paths.connections import decide_connections, diagnose_connections
from esipp.scenarios.paths.diagnosis import diagnose as diagnose_path
from esipp.scenarios.paths.evidence import Evidence, FirstAnswers, Stall, Steer, Wait
from esipp.scenarios.paths.judge import decide as decide_path


@dataclass(frozen=True)
class Window:
    """The evidence of paths without observations, witnesses, features and facts, which have their own records."""

    topology: Topology
    samples: int
    obstacles: Mapping[str, str] = field(default_factory=dict)
    blind: str = ""
    steers: Sequence[Steer] = ()
    clocks: Mapping[str, float] = field(default_factory=dict)
    doubts: Mapping[str, str] = field(default_factory=dict)
    windows: Mapping[str, int] = field(default_factory=dict)
    first: Mapping[str, Sequence[FirstAnswers]] = field(default_factory=dict)
    waits: Mapping[str, Sequence[Wait]] = field(default_factory=dict)
    stalls: Sequence[Stall] = ()
    tracked: Mapping[str, Tracked] = field(default_factory=dict)


def _window(evidence: Evidence) -> Window:
    kept = {each.name: getattr(evidence, each.name) for each in fields(Window)}
    return Window(**kept | {"steers": tuple(evidence.steers), "stalls": tuple(evidence.stalls)})


def _evidence(window: Window | None, then: RunThen) -> Evidence:
    if window is None:
        return Evidence({}, Topology(), {}, then.samples)
    return Evidence(observations=then.observations, witnesses=then.witnesses, features={}, **vars(window))


def _with_known(evidence: Evidence, known: Known) -> Evidence:
    return replace(evidence, features=known.features, facts=known.facts)


def _lacks_connections(check: ConnectionsCheck, _: Evidence, then: RunThen) -> str:
    return "" if then.asked(check) else "the run did not record this of its connections"


def _lacks_path(check: PathCheck, evidence: Evidence, then: RunThen) -> str:
    if then.asked(check):
        recorded = then.checks[check.id]
        controls = {each["path"] for each in recorded.data["controls"]}
        if recorded.path == check.subject.path.key and controls == {each.path.key for each in check.subject.controls}:
            return ""
    known = evidence.observations.keys() | evidence.obstacles.keys()
    return next((f"{path.key} was not dialled" for path in check.subject.paths if path.key not in known), "")


SCENARIO = Scenario(
    name="paths",
    suite="source_ip",
    record="paths",
    subjects=(OnPath, OnConnections),
    evidence=Window,
    with_known=_with_known,
    decide=by_subject({OnPath: decide_path, OnConnections: decide_connections}),
    diagnose=by_subject({OnPath: diagnose_path, OnConnections: diagnose_connections}),
    lacks=by_subject({OnPath: _lacks_path, OnConnections: _lacks_connections}),
    pack=_window,
    unpack=_evidence,
    phases=(
        Typical("settle", base=1, check=0.004),
        Typical("observe", (OnPath,), base=5, connection=0.00038),
        Typical("packets", (OnPath,), check=0.0002),
    ),
)
