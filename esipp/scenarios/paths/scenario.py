"""Registration of the scenario of paths."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from esipp.checks.path import OnPath, PathCheck
from esipp.judging.frame import Known
from esipp.judging.scenario import RunThen, Scenario, Typical
from esipp.judging.topology import Topology
from esipp.scenarios.paths.diagnosis import diagnose
from esipp.scenarios.paths.evidence import Evidence, Steer
from esipp.scenarios.paths.judge import decide


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


def _window(evidence: Evidence) -> Window:
    known = evidence.obstacles, evidence.blind, tuple(evidence.steers), evidence.clocks
    return Window(evidence.topology, evidence.samples, *known, evidence.doubts, evidence.windows)


def _evidence(window: Window | None, then: RunThen) -> Evidence:
    if window is None:
        return Evidence({}, Topology(), {}, then.samples)
    return Evidence(
        then.observations,
        window.topology,
        {},
        window.samples,
        obstacles=window.obstacles,
        witnesses=then.witnesses,
        blind=window.blind,
        steers=window.steers,
        clocks=window.clocks,
        doubts=window.doubts,
        windows=window.windows,
    )


def _with_known(evidence: Evidence, known: Known) -> Evidence:
    return replace(evidence, features=known.features, facts=known.facts)


def _lacks(check: PathCheck, evidence: Evidence, then: RunThen) -> str:
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
    subjects=(OnPath,),
    evidence=Window,
    with_known=_with_known,
    decide=decide,
    diagnose=diagnose,
    lacks=_lacks,
    pack=_window,
    unpack=_evidence,
    phases=(
        Typical("settle", base=1, check=0.004),
        Typical("observe", base=5, connection=0.00038),
        Typical("packets", check=0.0002),
    ),
)
