"""A comparison of two runs, as it is told to people and to programs."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from esipp.base.plural import counted, form
from esipp.checks.check import Level, Status
from esipp.checks.observation import Verdict
from esipp.checks.patterns import patterns
from esipp.judging.statistics import Distribution
from esipp.report.comparing.checks import DEFINITIONS, Change, Kind
from esipp.report.comparing.diff import Diff
from esipp.report.comparing.document import Item, Paper, Section, Table
from esipp.report.comparing.environment import name_of
from esipp.report.comparing.statistics import ALPHA, LEAST, Compared
from esipp.report.comparing.times import KINDS

MOST_OBSERVED = 15
"""Groups of checks with other observations that are told where room is short."""

MOST_SHOWN = 3
"""Pairs of what was seen that are named of checks that changed for one reason."""


def paper(diff: Diff) -> Paper:
    """Everything that changed, what is worse first."""
    sections = [_runs(diff)]
    for kind in Kind:
        own = [each for each in diff.changes if each.kind is kind]
        if own:
            sections.append(_of_kind(kind, own))
    sections += [*_redefined(diff), *_environment(diff), *_times(diff)]
    lanes = [str(run.header.get("lane", "?")) for run in (diff.old, diff.new)]
    title = f"esipp diff: {lanes[0]} and {lanes[1]}" if lanes[0] != lanes[1] else f"esipp diff: {lanes[0]}, twice"
    return Paper(title, diff.sentence, tuple(diff.incomplete), tuple(sections))


def document(diff: Diff) -> str:
    """Everything, as JSON: each changed check with both verdicts, every distribution that was compared."""
    told = {
        "kind": "esipp.diff",
        "version": 1,
        "sentence": diff.sentence,
        "exit_code": int(diff.exit_code),
        "fail_on": diff.fail_on.value,
        "incomplete": diff.incomplete,
        "old": _run(diff, 0),
        "new": _run(diff, 1),
        "regressed": sorted(diff.regressed),
        "fixed": sorted(diff.fixed),
        "counts": {kind.value: sum(1 for each in diff.changes if each.kind is kind) for kind in Kind},
        "definitions": {kind.value: text for kind, text in DEFINITIONS.items()},
        "rows": [_check(each) for each in diff.changes],
        "redefined": [{"id": e.id, "what": e.what, "old": e.old, "new": e.new} for e in diff.redefined],
        "environment": [
            {"group": each.group, "name": each.name, "old": each.values[0], "new": each.values[1]}
            for each in diff.environment
        ],
        "times": [_time(each) for each in diff.times.compared],
        "median_of_all_probes": diff.times.probes and list(diff.times.probes),
    }
    return json.dumps(told, indent=2, ensure_ascii=False) + "\n"


# ------------------------------------------------------------------------------------------------------------ checks
def _of_kind(kind: Kind, changes: Sequence[Change]) -> Section:
    groups: dict[tuple[object, ...], list[Change]] = {}
    for change in changes:
        groups.setdefault(_alike(change), []).append(change)
    ordered = sorted(groups.values(), key=lambda group: (min(_rank(each) for each in group), -len(group)))
    title = f"{kind.value[0].upper()}{kind.value[1:]}: {_levels(changes)}"
    most = MOST_OBSERVED if kind is Kind.OBSERVED else 1000
    return Section(title, _sentence(DEFINITIONS[kind]), tuple(_item(group) for group in ordered), most=most)


def _alike(change: Change) -> tuple[object, ...]:
    """What checks have in common that are told as one: a reason that both name, else what was seen."""
    statuses = (change.old and change.old.status, change.new and change.new.status)
    if change.kind in (Kind.NEW, Kind.GONE, Kind.NO_VERDICT):
        return statuses
    reasons = (change.why_before, change.why_after)
    return (*statuses, change.aspect, reasons if any(reasons) else (change.before, change.after))


def _rank(change: Change) -> int:
    return list(Level).index(change.level)


def _item(group: Sequence[Change]) -> Item:
    first = group[0]
    details: list[tuple[str, str]] = []
    if first.kind not in (Kind.NEW, Kind.GONE, Kind.NO_VERDICT):
        pairs = Counter((each.before, each.after) for each in group)
        if first.aspect == "reason":
            pairs.clear()
        for (before, after), times in pairs.most_common(MOST_SHOWN):
            many = f" ({counted(times, 'check')})" if len(pairs) > 1 else ""
            label = first.aspect if first.aspect not in ("", "seen") else "seen"
            details.append((label if len(label) < 10 else "", f"{_what(first, before, after)}{many}"))
        if len(pairs) > MOST_SHOWN:
            details.append(("", f"and {len(pairs) - MOST_SHOWN} more"))
        same = first.why_before == first.why_after
        reasons = [("why", first.why_after)] if same else [("before", first.why_before), ("now", first.why_after)]
        details += [(label, text) for label, text in reasons if text]
        worst = first.new if first.new and first.new.likely else first.old
        if worst and worst.likely:
            details.append(("likely", worst.likely))
    return Item(_head(group), tuple(details), tuple(patterns([each.id for each in group])))


def _what(change: Change, before: str, after: str) -> str:
    about = f"{change.aspect}: " if len(change.aspect) >= 10 else ""
    if change.why_before and not change.why_after and change.old and change.old.status is not Status.KNOWN:
        return f"{about}{after or 'nothing'} now"
    if change.why_after and change.new and change.new.status is not Status.KNOWN:
        return f"{about}{before or 'nothing'} before"
    return f"{about}{before or 'nothing'} -> {after or 'nothing'}"


def _head(group: Sequence[Change]) -> str:
    first = group[0]
    statuses = [each.status.value for each in (first.old, first.new) if each]
    if first.kind is Kind.NO_VERDICT:
        statuses = [each.status.value if each else "no verdict" for each in (first.old, first.new)]
    same = len(set(statuses)) == 1
    return f"{_levels(group)}, {statuses[0] if same else ' -> '.join(statuses) or 'no verdict'}"


def _levels(changes: Sequence[Change]) -> str:
    counted = Counter(each.level for each in changes)
    *others, last = [f"{counted[level]:,} {level.value}" for level in Level if level in counted]
    told = f"{', '.join(others)} and {last}" if others else last
    return f"{told} {form(len(changes), 'check')}"


def _redefined(diff: Diff) -> list[Section]:
    groups: dict[tuple[str, str, str], list[str]] = {}
    for each in diff.redefined:
        groups.setdefault((each.what, each.old, each.new), []).append(each.id)
    items = tuple(
        Item(f"{what}, {len(ids):,} checks", (("before", old or "nothing"), ("now", new or "nothing")),
             tuple(patterns(ids)))
        for (what, old, new), ids in groups.items()
    )  # fmt: skip
    about = "The versions of the suite do not ask the same of them; a change of verdict may come from that."
    return [Section("Checks that are defined otherwise", about, items)] if items else []


# ---------------------------------------------------------------------------------------------------------- beside
def _runs(diff: Diff) -> Section:
    checks = tuple(
        (name, name_of(run), run.conclusion.sentence) for name, run in (("OLD", diff.old), ("NEW", diff.new))
    )
    return Section("The runs", table=Table(("", "run", "what it concluded"), checks, frozenset({1, 2})))


def _environment(diff: Diff) -> list[Section]:
    checks = tuple((each.group, each.name, *each.short) for each in diff.environment)
    table = Table(("kind", "name", "old", "new"), checks, frozenset({2, 3}))
    return [Section("What else is not the same", "Facts, features, components and options.", table=table)] * bool(
        checks
    )


def _times(diff: Diff) -> list[Section]:
    compared, later = diff.times.compared, diff.later
    if not compared:
        return []
    tested = sum(1 for each in compared if each.enough)
    about = (
        f"{tested:,} distributions were tested (Mann-Whitney U, Holm's correction for all of them together, "
        f"{ALPHA:.0%}); {len(later):,} differ{'s' if len(later) == 1 else ''}. Where none is shown to differ, that "
        "does not say that they are equal."
    )
    few = len(compared) - tested
    about += f" {few:,} more have fewer than {LEAST} samples on one side and were not tested." if few else ""
    if diff.times.probes:
        old, new = diff.times.probes
        about += f" The median of all answered probes was {_s(old)} in the old run, {_s(new)} in the new one."
    about += " Times tell of the machine as much as of the product; they never decide the exit code."
    if not later:
        return [Section("Response times", about)]
    kinds = {each.of for each in later}
    items = tuple(Item(f"{kind}: {text}") for kind, text in KINDS.items() if kind in kinds)
    head = ("what (old, new)", "n", "p50", "p95", "shift (95 % interval)", "p")
    return [Section("Response times", about, items, Table(head, tuple(map(_later, later))))]


def _later(each: Compared) -> tuple[str, ...]:
    old, new = each.old, each.new

    def say(value: float) -> str:
        return _s(value) if each.unit == "s" else f"{value:.2f} {each.unit}"

    low, shift, high = (f"{'+' if value > 0 else ''}{say(value)}" for value in (each.low, each.shift, each.high))
    return (
        f"{each.of}: {each.what}",
        f"{len(old.samples)}, {len(new.samples)}",
        f"{say(old.quantile(0.5))}, {say(new.quantile(0.5))}",
        f"{say(old.quantile(0.95))}, {say(new.quantile(0.95))}",
        f"{shift} ({low} to {high})",
        f"{each.adjusted:.2g}",
    )


def _s(seconds: float) -> str:
    return f"{seconds:.2f} s" if abs(seconds) >= 1 else f"{1000 * seconds:.1f} ms"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


# ------------------------------------------------------------------------------------------------------------ JSON
def _run(diff: Diff, which: int) -> dict[str, Any]:
    run = (diff.old, diff.new)[which]
    told = {name: run.header.get(name) for name in ("run", "lane", "context", "suite", "at")}
    said = run.conclusion
    concluded = {"result": said.result, "exit_code": int(said.exit_code), "why": said.why}
    return told | {"rows": len(run.checks), "whole": run.whole, "trouble": run.trouble, "conclusion": concluded}


def _check(each: Change) -> dict[str, Any]:
    return {
        "id": each.id,
        "kind": each.kind.value,
        "level": each.level.value,
        "aspect": each.aspect,
        "before": each.before,
        "after": each.after,
        "old": _verdict(each.old),
        "new": _verdict(each.new),
    }


def _verdict(told: Verdict | None) -> dict[str, Any] | None:
    if told is None:
        return None
    return {"status": told.status.value, "observed": told.observed, "reason": told.reason, "likely": told.likely}


def _time(each: Compared) -> dict[str, Any]:
    told = {
        "of": each.of,
        "what": each.what,
        "unit": each.unit,
        "old": _summary(each.old),
        "new": _summary(each.new),
        "tested": each.enough,
        "differs": each.differs,
    }
    if each.enough:
        told |= {"p": each.p, "p_adjusted": each.adjusted, "shift": each.shift, "shift_95": [each.low, each.high]}
    return told


def _summary(of: Distribution) -> dict[str, Any]:
    """Its size and quantiles in seconds; the samples themselves are in the ledgers."""
    return {name: value for name, value in of.as_json().items() if name != "samples"}
