"""(row, what was seen of steady services while neighbours flipped) -> verdict. Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from esipp.checks.check import Feature, Status, surrounded
from esipp.checks.observation import Verdict
from esipp.checks.policy_change import BesideHealthRow, BesideRow, FlipRow
from esipp.judging.frame import Decision, give_verdict, ours_failed, undecided
from esipp.judging.health.judge import all_of
from esipp.judging.paths import judge as judge_path
from esipp.judging.paths import say_observed
from esipp.judging.policy_change.evidence import Seen, Window

BESIDE = "beside"
"""The trial of the steady services."""


def cut_short(row: FlipRow, trial: str, seen: Seen) -> Decision | None:
    """The decision on a row whose trial broke off."""
    if trial in seen.broken:
        return ours_failed(row, "nothing", f"esipp itself failed: {seen.broken[trial]}")
    if trial in seen.trouble:
        return undecided(row, seen.trouble[trial])
    return None


def judge_steady(row: BesideRow, seen: Seen, features: Mapping[str, Feature], facts: Mapping[str, str]) -> Verdict:
    """The source IP judge's word on the path, if neighbours really flipped meanwhile."""
    broken = cut_short(row, BESIDE, seen)
    window = seen.window
    if broken is None and window is not None and window.doubt():
        broken = undecided(row, window.doubt())
    if broken is not None or window is None:
        said = broken or undecided(row, "its path was never dialled")
        return give_verdict(row, features, facts, lambda: said)
    verdict = judge_path(row.cell, window.evidence)
    if verdict.status not in (Status.FAIL, Status.FLAKY):
        return verdict
    if why := surrounded(row, facts):
        return replace(verdict, status=Status.INCONCLUSIVE, reason=f"{why} (seen: {verdict.observed})")
    when = _when(row, window)
    return replace(verdict, reason="; ".join(each for each in (verdict.reason, when) if each))


def _when(row: BesideRow, window: Window) -> str:
    """When the first answers that were not as they must be came, by the neighbours' flips."""
    path, evidence = row.cell.path, window.evidence
    clock = window.clocks.get(path.client.name)
    pairs = zip(evidence.observations[path.key], evidence.readings(path), strict=True)
    wrong = [each for each, read in pairs if read.product_fault or not read.classes & row.cell.accept]
    if clock is None or not wrong:
        return ""
    said = [window.after(clock.ours(each.started)) for each in sorted(wrong, key=lambda each: each.started)[:3]]
    return f"the first of them {'; '.join(said)}"


def decide_health(row: BesideHealthRow, seen: Seen) -> Decision:
    """Every answer of one node's health check, while neighbours flipped."""
    window = seen.window
    found = Counter(window.health.get((row.place, row.family), {})) if window else Counter[str]()
    if window is None or not found:
        return undecided(row, "its health check was never asked")
    if found["error"]:
        return ours_failed(row, say_observed(found), "the prober failed")
    if window.doubt():
        return undecided(row, window.doubt(), say_observed(found))
    return all_of(row, row.expected, found)
