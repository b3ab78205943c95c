"""report.md: a short report for a pull request or a job summary. The conclusion comes first, then the failures.

Text from outside is escaped (escaping.py). The number of lines is limited, so that the report fits a comment.
"""

from collections.abc import Sequence

from esipp.base.customisation import INTERNAL
from esipp.base.json import Json
from esipp.base.plural import counted
from esipp.checks.check import KUBERNETES, Level, Profile, Status
from esipp.checks.known_differences import Nature
from esipp.ledger import numbers
from esipp.ledger.conclusion import LEVELS, WORST_FIRST, tally
from esipp.ledger.reading import RecordedRun
from esipp.ledger.recorded_checks import RecordedCheck
from esipp.report.causes import Group, causes_of_others, causes_of_paths, one_of, reasons
from esipp.report.escaping import block, code, links, prose, table_cell
from esipp.report.profiles import NOT_JUDGED, ended, faults, missing, moment, parts
from esipp.report.shared import common_factor
from esipp.report.terminal import contradictions

MOST_CAUSES, MOST_REASONS, MOST_FACTS, MOST_PARTS, MOST_FAULTS, MOST_BALANCERS = 10, 5, 16, 8, 3, 5
"""Limits of each list; the report names the number of the rest, and report.json has all."""

MOST_INSTRUMENT_CAUSES = 3
"""Limit of the causes listed for the reference load balancer."""

FIRST_FACTS = ("kubernetes", "service-proxy", "proxy-mode", "network-add-on", INTERNAL, "nodes", "kernel", "runtime")
FIRST_KINDS = ("service-proxy", "network-add-on", "load-balancer")
"""Facts and kinds of components that come first; all others follow by name."""

ORDER = (*(status.value for status in reversed(WORST_FIRST)), NOT_JUDGED)
"""The columns of the table of verdicts."""


def render(run: RecordedRun) -> str:
    """The text of report.md."""
    said = run.conclusion
    lines = [f"# Source IP qualification: {said.result.upper()}", "", f"**{said.result.upper()}**: {prose(said.why)}"]
    lines += _trouble(run)
    lines += ["", *(f"- {prose(each)}" for each in said.lines)] if said.lines else []
    lines += ["", prose(run.power)] if run.power else []
    lines += _verdicts(run)
    lines += _failures(run)
    lines += _qualified(run)
    lines += _known(run)
    lines += _not_tested(run)
    lines += _instrument(run)
    lines += _convergence(run)
    lines += _repeat(run)
    return "\n".join(lines) + "\n"


def _some(found: Sequence[str], most: int, what: str) -> list[str]:
    """The first few lines, and how many more there are."""
    more = len(found) - most
    return [*found[:most], *([f"- and {more} more {what}, in report.json"] if more > 0 else [])]


def _trouble(run: RecordedRun) -> list[str]:
    """The faults of the ledger, before everything else."""
    if run.whole:
        return []
    found = [f"- {prose(each)}" for each in faults(run)]
    lines = ["", "**INCOMPLETE: the ledger of this run is incomplete. Do not sign anything below.**", ""]
    return lines + _some(found, MOST_FAULTS, "faults")


def _verdicts(run: RecordedRun) -> list[str]:
    """The table of verdicts by profile and level; verdicts that no check has are left out."""
    found = {key: part.counts(run) for key, part in parts(run).items()}
    columns = [each for each in ORDER if each == Status.PASS or any(each in counts for counts in found.values())]
    lines = ["", "| profile | level | checks | " + " | ".join(columns) + " |", "|---|---|--:|" + "--:|" * len(columns)]
    for profile in Profile:
        for level in Level:
            counts = found[profile.value, level]
            if counts:
                numbers_ = " | ".join(str(counts.get(each, 0)) for each in columns)
                lines.append(f"| {profile.value} | {LEVELS[level]} | {sum(counts.values())} | {numbers_} |")
    left_out = run.header["left_out_core_rows"]
    return lines + (["", f"Not selected: {counted(left_out, 'core check')}."] if left_out else [])


def _qualified(run: RecordedRun) -> list[str]:
    """The facts and components of the cluster, with their sources."""
    over = ended(run)
    when = f"began {code(moment(run.header['at']))}" if over is None else code(moment(over))
    lines = ["", "## What was tested", ""]
    lines += [
        f"Lane {code(str(run.header['lane']))}, esipp {code(str(run.header['suite']))}, "
        f"run {code(str(run.header['run']))}, {when}, "
        f"ledger sha256 {code(run.sha256)}",
        "",
    ]
    known = [name for name in FIRST_FACTS if name in run.facts]
    facts = [
        f"| {table_cell(name)} | {table_cell(run.facts[name].value)} | {table_cell(run.facts[name].decided)} |"
        for name in [*known, *sorted(run.facts.keys() - {*known})]
    ]
    components = [
        f"| {table_cell(each.kind)} | {table_cell(each.image or each.name)} |"
        f" {table_cell(each.digest or 'no digest')} |"
        for each in sorted(run.components, key=lambda each: (each.kind not in FIRST_KINDS, each.kind, each))
    ]
    if facts:
        lines += ["| fact | value | source |", "|---|---|---|", *facts[:MOST_FACTS]]
        more = len(facts) - MOST_FACTS
        lines += [f"| | and {more} more | in report.json |"] if more > 0 else []
    if found := contradictions(run):
        lines += ["", *(f"* {prose(each)}" for each in found)]
    if components:
        lines += ["", "| component | image | digest |", "|---|---|---|", *components[:MOST_PARTS]]
        more = len(components) - MOST_PARTS
        lines += [f"| | and {more} more | in report.json |"] if more > 0 else []
    return lines


def _failures(run: RecordedRun) -> list[str]:
    """Failures and undecided checks by cause, binding ones first."""
    groups = _groups(run, run.qualified)
    if not groups:
        return []
    groups.sort(key=lambda group: not run.scale.binds(run.verdicts[group[0].id]))
    checks = sum(len(group) for group in groups)
    lines = ["", f"## Failures: {counted(checks, 'check')}, {counted(len(groups), 'cause')}", ""]
    for group in groups[:MOST_CAUSES]:
        lines += _cause(run, group)
    if len(groups) > MOST_CAUSES:
        left = sum(len(group) for group in groups[MOST_CAUSES:])
        lines += [
            "",
            f"And {counted(len(groups) - MOST_CAUSES, 'more cause')} ({counted(left, 'check')}) in report.json.",
        ]
    return lines


def _groups(run: RecordedRun, checks: Sequence[RecordedCheck]) -> list[Group]:
    """The causes of these checks, path checks first."""
    paths, others = ([check for check in checks if bool(check.place) is which] for which in (True, False))
    return [*causes_of_paths(paths, run.verdicts), *causes_of_others(others, run.verdicts)]


def _cause(run: RecordedRun, group: Group) -> list[str]:
    """One cause, shown by its first check: requirement, observation, likely fault, and the command that repeats it."""
    first, *others = group
    verdict = run.verdicts[first.id]
    wrong = verdict.status in (Status.FAIL, Status.FLAKY)
    observed = f"expected {code(verdict.expected, 200)}, observed {code(verdict.observed, 200)}"
    why = {
        "": code(verdict.reason, 200) if verdict.reason else "",
        "packets: ": code(one_of(verdict.change), 200) if verdict.change else "",
        "only affects: ": prose(common_factor(group, run.checks, run.verdicts)) if wrong else "",
        "likely cause: ": prose(verdict.likely) if verdict.likely else "",
    }
    details = {
        "required": prose(first.requirement),
        "result": "" if verdict.status is Status.INCONCLUSIVE else observed,  # no observation of it counts
        "precision": prose(verdict.sees) if verdict.sees else "",
        "why": "; ".join(label + text for label, text in why.items() if text not in ("", "-")),
        "repeat": code(f"{run.header['command']} {first.id}", 400),
    }
    also = f" and {counted(len(others), 'more check')}" if others else ""
    title = f"- **{verdict.status.value.upper()}** ({first.level.value}) {code(first.id, 200)}{also}"
    return [title, *(f"  - {label}: {text}" for label, text in details.items() if text)]


def _known(run: RecordedRun) -> list[str]:
    """The known differences."""
    found = reasons(run.qualified, run.verdicts, Status.KNOWN)
    if not found:
        return []
    bullets = [
        f"- {each.nature or 'known'}, {counted(len(each.checks), 'check')} ({each.told_levels}): {prose(each.why)} "
        f"[{links(each.references)}]"
        for each in sorted(found, key=lambda each: each.nature == Nature.ALLOWED)
    ]
    return ["", "## Known differences", "", *_some(bullets, MOST_REASONS, "reasons")]


def _instrument(run: RecordedRun) -> list[str]:
    """The checks of the reference load balancer, which no table above includes."""
    checks = run.instruments
    if not checks:
        return []
    found = tally(run.verdicts[check.id] for check in checks if check.id in run.verdicts)
    lines = ["", "## Reference load balancer", ""]
    not_asked = f", {found.not_asked:,} not tested" if found.not_asked else ""
    lines += [f"{counted(len(checks), 'check')}, not part of the result: {found.words or 'none tested'}{not_asked}."]
    causes = [line for group in _groups(run, checks)[:MOST_INSTRUMENT_CAUSES] for line in _cause(run, group)]
    return lines + (["", *causes] if causes else [])


def _not_tested(run: RecordedRun) -> list[str]:
    """The untested checks by missing feature, with the reason."""
    found = missing(run)
    unjudged = sum(1 for check in run.checks if check.id not in run.verdicts)
    if not found and not unjudged:
        return []
    bullets = [f"- {counted(unjudged, 'check')} without a verdict: the run ended early"] if unjudged else []
    for each in sorted(found, key=lambda each: (not each.ours, -len(each.checks), each.name)):
        name = f"Kubernetes {each.name.removeprefix(KUBERNETES)}" if each.name.startswith(KUBERNETES) else each.name
        by = " (excluded by user)" if each.ours else ""
        bullets.append(f"- {counted(len(each.checks), 'check')} without {code(name)}{by}: {prose(each.why)}")
    return ["", "## Not tested", "", *_some(bullets, MOST_REASONS, "features")]


def _convergence(run: RecordedRun) -> list[str]:
    """How fast each load balancer followed endpoint changes, and its bound; the slower family only."""
    found = numbers.balancers(run.of)
    if not found:
        return []
    lines = ["", "## Convergence", "", "Seconds from an endpoint change until traffic follows it: p50 / p95 / max.", ""]
    lines += [
        "| load balancer | pod added | pod removed | lost requests | longest black hole | bound |",
        "|---|--:|--:|--:|--:|---|",
    ]
    for each in found[:MOST_BALANCERS]:
        if each["obstacle"]:
            lines.append(f"| {table_cell(each['name'])} | - | - | - | - | {table_cell(each['obstacle'])} |")
            continue
        sides = [_worst(each, direction) for direction in ("up", "down")]
        lost = sum(of[name] for of in each["losses"].values() for name in ("timed_out", "refused", "reset", "wrong"))
        holes = [of["black_hole"] for of in each["losses"].values() if of["black_hole"] is not None]
        hole = f"{max(holes):.2f}" if holes else "-"
        seconds = each["bound"]["seconds"]
        rests = f"{seconds:.2f}, {each['bound']['rests_on']}" if seconds is not None else each["bound"]["rests_on"]
        lines.append(f"| {table_cell(each['name'])} | {' | '.join(sides)} | {lost} | {hole} | {rests} |")
    more = len(found) - MOST_BALANCERS
    return lines + ([f"| and {more} more | in report.json | | | | |"] if more > 0 else [])


def _worst(balancer: Json, direction: str) -> str:
    """The numbers of the slower family."""
    sides = [each for each in numbers.response(balancer) if each["direction"] == direction and each["n"]]
    if not sides:
        return "-"
    slowest = max(sides, key=lambda each: (float(each["p95"]), float(each["max"])))
    return f"{slowest['p50']:.2f} / {slowest['p95']:.2f} / {slowest['max']:.2f} ({slowest['family']}, n={slowest['n']})"


def _repeat(run: RecordedRun) -> list[str]:
    """The command that repeats the run."""
    return ["", "## Repeat", "", *block(run.command)]
