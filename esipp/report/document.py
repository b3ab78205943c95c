"""report.json: all results of a run for programs, described by report.schema.json."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from esipp.base.json import Json
from esipp.checks.check import Level, Profile, Status
from esipp.checks.health import parts_of
from esipp.checks.known_differences import Nature
from esipp.checks.reference import Reference
from esipp.judging.statistics import Distribution
from esipp.ledger.reading import LEDGER, RecordedRun
from esipp.ledger.recorded_checks import RecordedCheck
from esipp.report.causes import TROUBLE, reasons
from esipp.report.profiles import ended, faults, missing, moment, parts, settings
from esipp.scenarios.continuity.evidence import Seen as Continuity
from esipp.scenarios.continuity.judge import Judge as ContinuityJudge
from esipp.scenarios.continuity.windows import ways
from esipp.scenarios.endpoint_change.evidence import Moved
from esipp.scenarios.endpoint_change.judge import Judge as EndpointChangeJudge
from esipp.scenarios.endpoint_change.judge import judges_of
from esipp.scenarios.health.evidence import HealthEvidence as Health
from esipp.scenarios.health.evidence import follow_times
from esipp.scenarios.policy_change.evidence import Seen as PolicyChanges

FORMAT = "esipp-report/3"
"""Format version. An incompatible change raises it, and changes the ``$id`` of the schema."""

SCHEMA = Path(__file__).with_name("report.schema.json")

ASKED = (
    "created_with", "context", "image", "samples", "outside", "without", "fail_on", "accept_known_defects",
    "require", "moves", "seed", "allow_disruptive",
    "redact_cloud_ids", "implementation", "provider", "bound",
)  # fmt: skip


def render(run: RecordedRun) -> str:
    """The document as text: keys in a fixed order, one check or record per line, so that documents can be compared."""
    content = document(run)
    lines = ["{"]
    for number, (name, value) in enumerate(content.items()):
        comma = "," if number < len(content) - 1 else ""
        lines.append(f"  {_json(name)}: {_fold(value)}{comma}")
    return "\n".join([*lines, "}"]) + "\n"


def _fold(value: Any) -> str:
    """A list of objects with one object per line; any other value on one line."""
    if not isinstance(value, list) or not value or not isinstance(value[0], dict):
        return _json(value)
    return "[\n    " + ",\n    ".join(_json(each) for each in value) + "\n  ]"


def _json(value: Any) -> str:
    """One value as JSON.

    Raises:
        ValueError: the value holds an infinity or NaN, which JSON cannot express.
    """
    return json.dumps(value, allow_nan=False)


def document(run: RecordedRun) -> Json:
    """The document as a value."""
    header, said = run.header, run.conclusion
    over = ended(run)
    return {
        "format": FORMAT,
        "run": {
            "id": header["run"],
            "lane": header["lane"],
            "suite_version": header["suite"],
            "began": moment(header["at"], precise=True),
            "ended": moment(over, precise=True) or None,
            "seconds": None if over is None else round(over - header["at"], 3),
            "command": run.command,
            "settings": settings(run, *ASKED),
        },
        "conclusion": {
            "result": said.result,
            "exit_code": int(said.exit_code),
            "why": said.why,
            "lines": list(said.lines),
            "power": run.power,
            "counts": dict(sorted(said.counts.items())),
            "levels": {level.value: said.levels[level].as_json() for level in Level},
            "catalogue": {"core": said.catalogue, "asked": said.levels[Level.CORE].asked},
            "rows": len(run.checks),
            "left_out_core_rows": header["left_out_core_rows"],
        },
        "ledger": {
            "file": LEDGER,
            "schema": header["schema"],
            "sha256": run.sha256,
            "whole": run.whole,
            "faults": faults(run),
        },
        "facts": [
            {"name": name, "value": fact.value, "decided": fact.decided} for name, fact in sorted(run.facts.items())
        ],
        "components": [each._asdict() for each in sorted(run.components)],
        "features": [
            {"name": name, "present": each.present, "why": each.why, "ours": each.ours}
            for name, each in sorted(run.features.items())
        ],
        "topology": run.topology or None,
        "profiles": _profiles(run),
        "instrument": _instrument(run),
        "known_differences": [
            {"reason": each.why, "references": _cited(each.references), "nature": each.nature or Nature.DEFECT.value}
            | {"levels": each.levels, "rows": sorted(check.id for check in each.checks)}
            for each in reasons(run.qualified, run.verdicts, Status.KNOWN)
        ],
        "undecided": [
            {"reason": each.why, "levels": each.levels, "rows": sorted(check.id for check in each.checks)}
            for each in reasons(run.qualified, run.verdicts, Status.INCONCLUSIVE)
        ],
        "not_tested": [
            {"feature": each.name, "why": each.why, "ours": each.ours, "rows": list(each.checks)}
            for each in missing(run)
        ],
        "rows": _checks(run),
        "convergence": _convergence(run),
        "continuity": _continuity(run.evidence_of(Continuity)),
        "flips": _policy_changes(run.evidence_of(PolicyChanges) or PolicyChanges()),
        "health": _health(run.evidence_of(Health) or Health()),
        "phases": [
            {"name": each.name, "seconds": each.seconds, "ended": moment(each.at, precise=True)} for each in run.phases
        ],
        "settled": [{name: each[name] for name in ("held", "seconds", "state")} for each in run.settled],
        "obstacles": [{"path": path, "why": why} for path, why in sorted(run.obstacles.items())],
        "notes": [{"about": about, "note": note} for about, note in run.notes],
    }


def _convergence(run: RecordedRun) -> Json:
    """The settings of the endpoint changes, null if there were none, and the numbers of each load balancer."""
    moved, judges = run.evidence_of(Moved), run.analysed(Moved, judges_of)
    if moved is None or judges is None:
        return {"settings": None, "balancers": []}
    settings = {"seed": run.header["seed"], "moves": run.header["moves"], "spacing": moved.spacing}
    settings |= {"timeout": moved.timeout, "clock_uncertainty": moved.uncertainty}
    return {"settings": settings, "balancers": [_balancer(judge) for judge in judges.values()]}


def _balancer(judge: EndpointChangeJudge) -> Json:
    result = judge.result
    ups = sum(change.up for change in result.changes)
    losses = {family.value: judge.losses(family) for family in result.seen.vip if judge.lines}
    return {
        "name": result.balancer.value,
        "obstacle": result.obstacle,
        "bound": {"seconds": judge.bound, "rests_on": result.promise.source},
        "told": {"period": result.told.period, "failures": result.told.failures},
        "observed": {
            "sources": list(result.observed.sources),
            "gaps": _numbers(result.observed.gaps),
            "failures": list(result.observed.failures),
        },
        "moves": {"up": ups, "down": len(result.changes) - ups},
        "losses": {
            family: {**lost.kinds, "outage": round(lost.outage, 4), "black_hole": _rounded(lost.black_hole)}
            for family, lost in losses.items()
        },
        "distributions": [
            {"family": family.value, "direction": direction, "phase": phase, **_numbers(of)}
            | {"samples": [round(each, 4) for each in of.samples]}
            for family, direction, phase, of in judge.times
        ],
        "balance": [
            {"family": family.value, "nodes": dict(counted.nodes), "pods": dict(counted.pods), "lost": counted.lost}
            | {"p_value": counted.p_value}
            for family, counted in result.counted.items()
        ],
    }


def _numbers(of: Distribution) -> Json:
    """The count and the quantiles, in seconds; null without samples."""
    if not of.samples:
        return {"n": 0, "p50": None, "p95": None, "max": None}
    told = {"p50": of.quantile(0.5), "p95": of.quantile(0.95), "max": of.samples[-1]}
    return {"n": len(of.samples)} | {name: round(each, 4) for name, each in told.items()}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 4)


def _continuity(seen: Continuity | None) -> Json:
    """The disruptions under steady traffic, and the numbers of each way in."""
    if seen is None:
        return {"settings": None, "windows": [], "ways": []}
    checking = {"period": seen.checking.period, "failures": seen.checking.failures}
    settings = {"spacing": seen.spacing, "timeout": seen.timeout, "serves": int(seen.serves)}
    return {
        "settings": settings | {"checking": checking, "trouble": seen.trouble},
        "windows": [
            {"phase": each.phase.value, "seconds": _between(each.began, each.until), "words": each.words}
            | {"trouble": each.trouble, "unsettled": each.unsettled}
            for each in seen.windows
        ],
        "ways": [
            {"phase": each.phase, "way": each.way, "family": each.family, "requests": each.requests}
            | {"lost": each.lost, "late": each.late, "gap": round(each.longest, 4), "broken": each.broken}
            | {"wrong": each.wrong_count}
            for each in ways(ContinuityJudge(seen))
        ],
    }


def _policy_changes(seen: PolicyChanges) -> list[Json]:
    """Every policy change: the Service, what it changed to, and how long the API server took, in seconds."""
    others = seen.window.neighbours if seen.window else {}
    made = [("neighbour", name, flip) for name, each in others.items() for flip in each.flips]
    made += [("own", service.value, flip) for service, course in seen.courses.items() for flip in course.flips]
    return [
        {"kind": kind, "service": service, "number": flip.number, "to": flip.to.value, "policy": flip.policy}
        | {"health_port": flip.health_port, "seconds": _between(flip.cause, flip.answered)}
        for kind, service, flip in made
    ]


def _between(since: float, until: float) -> float:
    """Seconds between two moments, both to 0.1 ms."""
    return round(round(until, 4) - round(since, 4), 4)


def _health(seen: Health) -> Json:
    """Each question to a health check with its answers, and how fast the nodes followed pods placed at random."""
    questions = []
    for key, answers in seen.answers.items():
        told: list[Json] = []
        for each in answers:
            headers = {name.lower(): value for name, value in each.headers.items()}
            weight = headers.get("x-load-balancing-endpoint-weight")
            told.append({"outcome": each.outcome, "status": each.status, "count": each.count, "weight": weight})
        questions.append({"question": key, **parts_of(key)._asdict(), "answers": told})
    of = follow_times(seen.rounds)
    times = {"answers": of.answers, "never": of.never, "p50": of.p50, "p95": of.p95, "max": of.most}
    return {"questions": questions, "rounds": {"rounds": len(seen.rounds)} | times}


def _instrument(run: RecordedRun) -> Json:
    """The checks of the reference load balancer, which no profile and no count of the conclusion includes."""
    ids = {check.id for check in run.instruments}
    found = Counter(each.status.value for each in run.verdicts.values() if each.check_id in ids)
    wrong = [each for each in run.verdicts.values() if each.check_id in ids and each.status in TROUBLE]
    return {
        "rows": len(ids),
        "verdicts": dict(sorted(found.items())),
        "not_fine": sorted(each.check_id for each in wrong),
    }


def _profiles(run: RecordedRun) -> list[Json]:
    counts = {key: {"rows": len(part.checks), "verdicts": part.counts(run)} for key, part in parts(run).items()}
    return [
        {"name": profile.value} | {level.value: counts[profile.value, level] for level in Level} for profile in Profile
    ]


def _cited(references: Iterable[Reference]) -> list[Json]:
    return [each.as_json() for each in references]


def _checks(run: RecordedRun) -> list[Json]:
    kept = (run.folder / "rows").is_dir()
    return [_check(run, check, kept) for check in run.checks]


def _check(run: RecordedRun, check: RecordedCheck, kept: bool) -> Json:
    """A check with its verdict; without a verdict, the status is null and the observation empty."""
    verdict = run.verdicts.get(check.id)
    fields: Mapping[str, Any] = verdict.as_json() if verdict else {}
    return {
        "id": check.id,
        "suite": check.suite,
        "profile": check.profile,
        "level": check.level.value,
        "status": fields.get("status"),
        "requirement": check.requirement,
        "references": _cited(check.references),
        "features": list(check.features),
        "fails_if": check.fails_if,
        "path": _path(check),
        "expected": fields.get("expected", check.expect),
        "observed": fields.get("observed", ""),
        "reason": fields.get("reason", ""),
        "difference_references": fields.get("references", []),
        "likely": fields.get("likely", ""),
        "tally": fields.get("tally", {}),
        "shown": fields.get("shown", []),
        "ports": fields.get("ports", ""),
        "change": fields.get("change", ""),
        "witnesses": fields.get("witnesses", ""),
        "left_out": fields.get("left_out", False),
        "sees": fields.get("sees", ""),
        "nature": fields.get("nature", ""),
        "missing": fields.get("missing", []),
        "instrument": fields.get("instrument", False),
        "files": [path.as_posix() for path in run.files(check.id)] if kept else [],
    }


def _path(check: RecordedCheck) -> Json | None:
    """The path of a path check: client, entry and Service; null for any other check."""
    names = ("service", "policy", "internal_policy", "protocol", "family", "client", "entry", "told", "spread")
    if check.place is None:
        return None
    return {"id": check.path, "accepts": sorted(check.accept)} | {name: check.data.get(name) for name in names}
