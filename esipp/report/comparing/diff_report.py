"""The output of ``esipp diff``: a document for people, and JSON."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from esipp.base.document import Document, Item, Items, Pairs, Section, Table, Text
from esipp.base.plural import counted, form
from esipp.checks.check import Level, Status, Verdict
from esipp.checks.patterns import patterns
from esipp.judging.statistics import Distribution
from esipp.report.comparing.checks import DEFINITIONS, SEEN, TITLES, Change, Kind
from esipp.report.comparing.diff import Diff
from esipp.report.comparing.environment import name_of
from esipp.report.comparing.times import ALPHA, LEAST, Compared, kinds
from esipp.report.comparing.words import ranges

MOST_OBSERVED = 15
"""How many groups of different observations text and Markdown list."""

MOST_SHOWN = 3
"""How many pairs of observations are listed for checks with one reason."""


def report(diff: Diff) -> Document:
    """All changes, the worse ones first."""
    sections = [_runs(diff)]
    for kind in Kind:
        own = [each for each in diff.changes if each.kind is kind]
        if own:
            sections.append(_of_kind(kind, own))
    sections += [*_redefined(diff), *_environment(diff), *_times(diff)]
    lanes = [str(run.header.get("lane", "?")) for run in (diff.old, diff.new)]
    title = f"esipp diff: {lanes[0]} and {lanes[1]}" if lanes[0] != lanes[1] else f"esipp diff: two runs of {lanes[0]}"
    return Document(title, diff.sentence, tuple(diff.incomplete), tuple(sections))


def as_json(diff: Diff) -> str:
    """The JSON: each changed check with both verdicts, and each compared distribution."""
    content = {
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
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


# ------------------------------------------------------------------------------------------------------------ checks
def _of_kind(kind: Kind, changes: Sequence[Change]) -> Section:
    groups: dict[tuple[object, ...], list[Change]] = {}
    for change in changes:
        groups.setdefault(_alike(change), []).append(change)
    ordered = sorted(groups.values(), key=lambda group: (min(_rank(each) for each in group), -len(group)))
    title = f"{TITLES[kind]}: {_levels(changes)}"
    most = MOST_OBSERVED if kind is Kind.OBSERVED else 1000
    items = Items(tuple(_item(group) for group in ordered), most)
    definition = DEFINITIONS[kind]
    return Section(title, (Text(f"{definition[0].upper()}{definition[1:]}."), items))


def _alike(change: Change) -> tuple[object, ...]:
    """The key of changes that share an item: their reasons, else their observations."""
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
        pairs: dict[tuple[str, str], list[Change]] = {}
        for each in group if first.aspect != "reason" else ():
            pairs.setdefault((each.before, each.after), []).append(each)
        for own in sorted(pairs.values(), key=len, reverse=True)[:MOST_SHOWN]:
            many = f" ({counted(len(own), 'check')})" if len(pairs) > 1 else ""
            label, text = _observations(own)
            details.append((label, f"{text}{many}"))
        if len(pairs) > MOST_SHOWN:
            details.append(("", f"and {len(pairs) - MOST_SHOWN} more"))
        same = first.why_before == first.why_after
        reasons = [("why", first.why_after)] if same else [("before", first.why_before), ("now", first.why_after)]
        details += [(label, text) for label, text in reasons if text]
        worst = first.new if first.new and first.new.likely else first.old
        if worst and worst.likely:
            details.append(("likely", worst.likely))
    return Item(_head(group), tuple(details), tuple(patterns([each.id for each in group])))


def _observations(changes: Sequence[Change]) -> tuple[str, str]:
    """A label, and the old and the new observation of changes that have both in common but for the numbers."""
    first = changes[0]
    before = ranges([each.measured_before or each.before for each in changes]) or "nothing"
    after = ranges([each.measured_after or each.after for each in changes]) or "nothing"
    if first.why_before and not first.why_after and first.old and first.old.status is not Status.KNOWN:
        return "now", after
    if first.why_after and first.new and first.new.status is not Status.KNOWN:
        return "before", before
    if first.aspect in ("", SEEN):
        return "observed", f"{before} -> {after}"
    return "", f"{first.aspect}: {before} -> {after}"


def _head(group: Sequence[Change]) -> str:
    first = group[0]
    statuses = [each.status.value for each in (first.old, first.new) if each]
    if first.kind is Kind.NO_VERDICT:
        statuses = [each.status.value if each else "no verdict" for each in (first.old, first.new)]
    same = len(set(statuses)) == 1
    return f"{_levels(group)}, {statuses[0] if same else ' -> '.join(statuses) or 'no verdict'}"


def _levels(changes: Sequence[Change]) -> str:
    counted = Counter(each.level for each in changes)
    *others, last = [f"{counted[level]:,} {level.words}" for level in Level if level in counted]
    levels = f"{', '.join(others)} and {last}" if others else last
    return f"{levels} {form(len(changes), 'check')}"


def _redefined(diff: Diff) -> list[Section]:
    groups: dict[tuple[str, str, str], list[str]] = {}
    for each in diff.redefined:
        groups.setdefault((each.what, each.old, each.new), []).append(each.id)
    items = tuple(
        Item(f"{what}, {counted(len(ids), 'check')}", (("before", old or "nothing"), ("now", new or "nothing")),
             tuple(patterns(ids)))
        for (what, old, new), ids in groups.items()
    )  # fmt: skip
    about = "The two versions of the suite define these checks differently, which may change their verdicts."
    return [Section("Checks with a different definition", (Text(about), Items(items)))] if items else []


# ---------------------------------------------------------------------------------------------------------- beside
def _runs(diff: Diff) -> Section:
    checks = tuple(
        (name, name_of(run), run.conclusion.sentence) for name, run in (("OLD", diff.old), ("NEW", diff.new))
    )
    return Section("The runs", (Table(("", "run", "conclusion"), checks),))


def _environment(diff: Diff) -> list[Section]:
    checks = tuple((each.group, each.name, *each.short) for each in diff.environment)
    table = Table(("kind", "name", "old", "new"), checks)
    about = Text("Facts, features, components and options.")
    return [Section("Differences of the environment", (about, table))] * bool(checks)


def _times(diff: Diff) -> list[Section]:
    compared, later = diff.times.compared, diff.later
    if not compared:
        return []
    tested = sum(1 for each in compared if each.enough)
    about = (
        f"{tested:,} {form(tested, 'distribution was', 'distributions were')} tested (Mann-Whitney U, Holm's "
        f"correction over all tests, {ALPHA:.0%}); {len(later):,} {form(len(later), 'differs', 'differ')}. A "
        "distribution without a proven difference need not be equal."
    )
    few = len(compared) - tested
    if few:
        about += f" {few:,} more {form(few, 'was', 'were')} not tested: one side has fewer than {LEAST} samples."
    if diff.times.probes:
        old, new = diff.times.probes
        about += f" The median of all answered probes was {_s(old)} in the old run and {_s(new)} in the new run."
    about += " Times depend on the machine as much as on the product. They never change the exit code."
    if not later:
        return [Section("Response times", (Text(about),))]
    meaning = Pairs(tuple((kind, text) for kind, text in kinds().items() if kind in {each.of for each in later}))
    head = ("measure (old, new)", "n", "p50", "p95", "shift (95 % interval)", "p")
    return [Section("Response times", (Text(about), meaning, Table(head, tuple(map(_later, later)))))]


def _later(each: Compared) -> tuple[str, ...]:
    old, new = each.old, each.new

    def say(value: float) -> str:
        return _s(value) if each.unit == "s" else f"{value:.2f} {each.unit}"

    low, shift, high = (f"{'+' if value > 0 else ''}{say(value)}" for value in (each.low, each.shift, each.high))
    return (
        f"{each.of}: {each.what}",
        f"{len(old.samples)}, {len(new.samples)}",
        f"{say(old.p50)}, {say(new.p50)}",
        f"{say(old.p95)}, {say(new.p95)}",
        f"{shift} ({low} to {high})",
        f"{each.adjusted:.2g}",
    )


def _s(seconds: float) -> str:
    return f"{seconds:.2f} s" if abs(seconds) >= 1 else f"{1000 * seconds:.1f} ms"


# ------------------------------------------------------------------------------------------------------------ JSON
def _run(diff: Diff, which: int) -> dict[str, Any]:
    run = (diff.old, diff.new)[which]
    fields = {name: run.header.get(name) for name in ("run", "lane", "context", "suite", "at")}
    said = run.conclusion
    concluded = {"result": said.result, "exit_code": int(said.exit_code), "why": said.why}
    return fields | {"rows": len(run.checks), "whole": run.whole, "trouble": run.trouble, "conclusion": concluded}


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


def _verdict(verdict: Verdict | None) -> dict[str, Any] | None:
    if verdict is None:
        return None
    return {
        "status": verdict.status.value,
        "observed": verdict.observed,
        "reason": verdict.reason,
        "likely": verdict.likely,
    }


def _time(each: Compared) -> dict[str, Any]:
    fields = {
        "of": each.of,
        "what": each.what,
        "unit": each.unit,
        "old": _summary(each.old),
        "new": _summary(each.new),
        "tested": each.enough,
        "differs": each.differs,
    }
    if each.enough:
        fields |= {"p": each.p, "p_adjusted": each.adjusted, "shift": each.shift, "shift_95": [each.low, each.high]}
    return fields


def _summary(of: Distribution) -> dict[str, Any]:
    """The size and quantiles of a distribution in seconds; the ledgers have the samples."""
    if not of.samples:
        return {"n": 0}
    figures = {"p50": of.p50, "p95": of.p95, "max": of.most}
    return {"n": len(of.samples), **{name: round(each, 4) for name, each in figures.items()}}
