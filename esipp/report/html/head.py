"""Data of the page's head: the conclusion, verdicts by profile, and the facts of the cluster and the run."""

import re
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from esipp.base.document import Block, Code, Fold, Pairs, Section, Table, Text
from esipp.base.errors import ExitCode
from esipp.base.plural import form
from esipp.checks.check import PROXY_SKEW, PROXY_VERSION, Level, Profile, Status
from esipp.ledger.conclusion import (
    CONFORMANT,
    EMPTY,
    INCONCLUSIVE,
    KNOWN_DEFECTS,
    PARTIAL,
    WAIVED,
    WITH_DIFFERENCES,
    is_defect,
)
from esipp.ledger.reading import LEDGER, RecordedRun
from esipp.report.html.marks import Count, counts
from esipp.report.sections import figures

NAMES = {
    "kubernetes": "Kubernetes",
    "service-proxy": "Service proxy",
    PROXY_VERSION: "kube-proxy",
    PROXY_SKEW: "kube-proxy, skew",
    "proxy-mode": "Proxy mode",
    "network-add-on": "Network add-on",
    "families": "IP families",
    "load-balancer": "Load balancer",
    "kernel": "Kernel",
    "runtime": "Container runtime",
    "kubelet": "kubelet",
    "nodes": "Nodes",
}
"""The facts that come first, with their titles."""

TONES = {CONFORMANT: "good", WITH_DIFFERENCES: "good", PARTIAL: "part", EMPTY: "part", INCONCLUSIVE: "part"}
"""The look of each conclusion; all others look bad."""

NOT_GOOD = (Status.ERROR.value, Status.FAIL.value, Status.FLAKY.value, Status.INCONCLUSIVE.value, "unjudged")


class Part(NamedTuple):
    """A profile's checks of one level: one word, and the counts."""

    level: str
    verdict: str
    word: str
    counts: list[Count]


class Span(NamedTuple):
    """A phase, or an event of the phase above: its name, seconds, and start and width in thousandths of the run.

    ``touches`` is what an event touches; a phase has none.
    """

    name: str
    seconds: float
    start: float
    width: float
    touches: str = ""


def head_of(run: RecordedRun) -> dict[str, Any]:
    """The data of the head."""
    header, last = run.header, run.conclusion
    begun = header.get("at")
    ended = run.end["at"] if run.end and "at" in run.end else None
    return {
        "title": f"{last.result.upper()}: {header.get('lane', '')} {_value(run, 'kubernetes')}".strip(),
        "result": last.result.upper(),
        "tone": _tone(run),
        "why": last.why,
        "figures": _figures(run),
        "lines": last.lines,
        "power": run.power,
        "short": _short(run),
        "exit": f"{int(last.exit_code)} ({last.exit_code.name.lower().replace('_', ' ')})",
        "failed": last.exit_code is not ExitCode.CONFORMANT,
        "whole": run.whole,
        "faults": [*run.trouble, *([] if run.end else ["No closing record: the run was killed, or is still running."])],
        "judged": len(run.verdicts),
        "rows": len(run.checks),
        "profiles": _profiles(run),
        "levels": [level.words for level in Level],
        "facts": Table(("Fact", "Value", "Source"), tuple(_facts(run))),
        "components": run.components,
        "digests": sum(1 for each in run.components if each.digest),
        "features": sorted(run.features.items()),
        "nodes": _nodes(run.topology),
        "phases": len(run.phases),
        "spans": _phases(run),
        "seconds": _lasted(begun, ended),
        "begun": _utc(begun),
        "ended": _utc(ended),
        "about": _about(run),
        "command": run.command,
        "digest": str(run.end.get("sha256", "")) if run.end else "",
        "check": f"head -n -1 {LEDGER} | sha256sum",
    }


def _figures(run: RecordedRun) -> list[tuple[str, str]]:
    """The figures that a reader wants first: those of the scenarios, and the share of the catalogue that was asked."""
    core = run.conclusion.levels.get(Level.CORE)
    catalogue = run.conclusion.catalogue
    share = f"{core.judged:,} of {catalogue:,} core checks" if core and catalogue else ""
    return [*figures(run), *([("asked of the catalogue", share)] if share else [])]


def features_of(run: RecordedRun) -> Fold:
    """The features of the cluster."""
    rows = [
        (name, "✓ yes" if each.present else "✕ excluded by user" if each.ours else "✕ no", each.why)
        for name, each in sorted(run.features.items())
    ]
    table = Table(("Feature", "Present", "Source"), tuple(rows))
    return Fold(f"Features of the cluster, present and missing: {len(rows)}", (table,))


def cluster_of(run: RecordedRun) -> Section:
    """The components, the nodes and the notes."""
    components = [
        (each.name, each.kind, each.version, (Code(each.image), " ", Code(each.digest)), each.decided)
        for each in run.components
    ]
    head = ("Component", "Kind", "Version", "Image and digest", "Source")
    blocks: list[Block] = [Table(head, tuple(components))] if components else [Text("The ledger names no components.")]
    if nodes := _nodes(run.topology):
        rows = [(name, part or "none", Code(addresses)) for name, part, addresses in nodes]
        blocks.append(Section("Nodes", (Table(("Node", "Role in the run", "Addresses"), tuple(rows)),)))
    if run.notes:
        blocks.append(Section("Notes", (Pairs(tuple(run.notes)),)))
    return Section("Components and nodes", tuple(blocks), "cluster")


def _tone(run: RecordedRun) -> str:
    """The look of the conclusion; accepted defects do not look good."""
    last = run.conclusion
    if not run.whole:
        return "bad"
    accepted = last.result in (KNOWN_DEFECTS, WAIVED) and last.exit_code is ExitCode.CONFORMANT
    return "part" if accepted else TONES.get(last.result, "bad")


def _value(run: RecordedRun, fact: str) -> str:
    return str(run.facts[fact].value) if fact in run.facts else ""


def _short(run: RecordedRun) -> str:
    """The cluster in one line."""
    its = _value(run, PROXY_VERSION) if PROXY_SKEW in run.facts else ""
    proxy = " ".join(filter(None, (_value(run, "service-proxy"), its, _value(run, "proxy-mode"))))
    families = " and ".join(_families(run))
    number = _value(run, "nodes")
    nodes = f"{number} {form(1 if number == '1' else 2, 'node')}" if number else ""
    version = f"Kubernetes {_value(run, 'kubernetes')}" if _value(run, "kubernetes") else ""
    return " · ".join(filter(None, (version, proxy, _value(run, "network-add-on"), families, nodes)))


def _families(run: RecordedRun) -> list[str]:
    """The families that were tested."""
    return [name.removeprefix("family.").replace("ip", "IP") for name, feature in sorted(run.features.items())
            if name.startswith("family.") and feature.present]  # fmt: skip


def _utc(at: object) -> str:
    """A time of the ledger for people."""
    if not isinstance(at, int | float):
        return ""
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return ""


def _lasted(begun: object, ended: object) -> str:
    if not isinstance(begun, int | float) or not isinstance(ended, int | float):
        return ""
    minutes, seconds = divmod(round(ended - begun), 60)
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def _about(run: RecordedRun) -> list[tuple[str, str]]:
    """Facts about the run; only those that its ledger has."""
    header = run.header
    facts = {
        "Run": header.get("run", ""),
        "Lane": header.get("lane", ""),
        "esipp": header.get("suite", ""),
        "Echo server": header.get("image", ""),
        "Connections per path": header.get("samples", ""),
        "Fails on": header.get("fail_on", ""),
        "Known defects": "accepted" if header.get("accept_known_defects") else "",
        "Required": ", ".join(map(str, header.get("require") or [])),
        "Excluded": ", ".join(map(str, header.get("without") or [])),
        "Core checks not selected": header.get("left_out_core_rows") or "",
        "Seed": header.get("seed", ""),
    }
    return [(name, str(value)) for name, value in facts.items() if value != ""]


def _facts(run: RecordedRun) -> list[tuple[str, str, str]]:
    found, families = dict(run.facts), _families(run)
    known = []
    for name, title in NAMES.items():
        if name == "families" and families:
            why = sorted({run.features[f"family.{each.lower()}"].why for each in families})
            known.append((title, ", ".join(families), "; ".join(why)))
        for each in [one for one in found if one == name or one.startswith(f"{name}.")]:
            fact = found.pop(each)
            known.append((title + each[len(name) :].replace(".", ": ").replace("-", " "), fact.value, fact.decided))
    rest = [(_title(name), fact.value, fact.decided) for name, fact in found.items()]
    return known + rest


def _title(name: str) -> str:
    words = re.sub(r"[-.]", " ", name)
    words = re.sub(r"\b(ipv4|ipv6|os|cpu|mtu)\b", lambda found: found[0].upper().replace("IPV", "IPv"), words)
    return words[:1].upper() + words[1:]


def _nodes(topology: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Each node: its name, its roles in the run, its internal addresses."""
    nodes, roles = topology.get("nodes"), topology.get("roles")
    if not isinstance(nodes, Mapping):
        return []
    parts: dict[str, list[str]] = {}
    for role, node in roles.items() if isinstance(roles, Mapping) else ():
        parts.setdefault(str(node), []).append(str(role))
    found = []
    for name, node in nodes.items():
        internal = node.get("internal") if isinstance(node, Mapping) else None
        own = internal.values() if isinstance(internal, Mapping) else []
        found.append((str(name), ", ".join(parts.get(str(name), [])), ", ".join(map(str, own))))
    return found


def _profiles(run: RecordedRun) -> list[tuple[str, list[Part], str]]:
    """Each profile with its levels and a link to its checks."""
    checks = run.qualified
    names = dict.fromkeys([*Profile, *(check.profile for check in checks)])
    found = []
    for name in names:
        own = [check for check in checks if check.profile == name]
        if own:
            levels = [_part(run, level, [check for check in own if check.level is level]) for level in Level]
            found.append((str(name), levels, f"profile={name}"))
    return found


def _part(run: RecordedRun, level: Level, checks: list[Any]) -> Part:
    found = counts(checks, run.verdicts)
    by = {each.verdict: each.number for each in found}
    bad = [name for name in NOT_GOOD if name in by]
    if not checks:
        verdict, word = "none", "no checks"
    elif bad:
        verdict = bad[0] if bad[0] != Status.ERROR.value or Status.FAIL.value not in by else Status.FAIL.value
        word = {"fail": "fails", "flaky": "is flaky", "error": "was not judged", "inconclusive": "is inconclusive"}.get(
            verdict, "not judged" if by.get("unjudged") == len(checks) else "not all judged"
        )
    elif not run.whole:
        verdict, word = "unjudged", "incomplete"
    elif level is Level.RECORD:
        verdict, word = "recorded", "recorded"
    elif by.get(Status.UNSUPPORTED.value, 0) == len(checks):
        verdict, word = "unsupported", "not tested"
    else:
        verdict = "known" if "known" in by else "pass"
        known = [run.verdicts[check.id] for check in checks if run.verdicts[check.id].status is Status.KNOWN]
        word = "known defects" if any(map(is_defect, known)) else "allowed differences" if known else "as required"
        word += ", some not tested" if "unsupported" in by else ""
    return Part(level.value, verdict, word, found)


def _phases(run: RecordedRun) -> list[Span]:
    """The phases and their events on the run's timeline; it shows which ran at the same time."""
    if not run.phases:
        return []
    first = min(phase.at - phase.seconds for phase in run.phases)
    whole = max(phase.at for phase in run.phases) - first or 1.0

    def span(name: str, began: float, seconds: float, touches: str = "") -> Span:
        return Span(
            name, seconds, round(1000 * (began - first) / whole, 1), max(3.0, round(1000 * seconds / whole, 1)), touches
        )

    spans = []
    for phase in run.phases:
        spans.append(span(phase.name, phase.at - phase.seconds, phase.seconds))
        own = sorted((each for each in run.events if each.phase == phase.name), key=lambda each: each.began)
        spans += [span(each.name, each.began, each.seconds, each.touches) for each in own]
    return spans


def repeat(run: RecordedRun, check: str) -> str:
    """The command that repeats one check."""
    return f"{run.header['command']} {shlex.quote(check)}"
