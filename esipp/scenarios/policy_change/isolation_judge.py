"""The judge of isolation checks: unchanged Services while others change their policy. Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from esipp.checks.check import Feature, Status, surrounded
from esipp.checks.observation import Verdict
from esipp.checks.policy_change import IsolationCheck, IsolationHealthCheck, PolicyChangeCheck
from esipp.judging.frame import Decision, give_verdict, ours_failed, undecided
from esipp.scenarios.health.judge import all_of
from esipp.scenarios.paths.judge import judge as judge_path
from esipp.scenarios.paths.judge import say_observed
from esipp.scenarios.policy_change.evidence import Seen, Window

BESIDE = "beside"
"""The key of the isolation scenario."""


def cut_short(check: PolicyChangeCheck, trial: str, seen: Seen) -> Decision | None:
    """The decision on a check whose scenario broke off; None if it did not."""
    if trial in seen.broken:
        return ours_failed(check, "nothing", f"esipp itself failed: {seen.broken[trial]}")
    if trial in seen.trouble:
        return undecided(check, seen.trouble[trial])
    return None


def judge_steady(
    check: IsolationCheck, seen: Seen, features: Mapping[str, Feature], facts: Mapping[str, str]
) -> Verdict:
    """The path judge's verdict, if other policies really changed meanwhile."""
    broken = cut_short(check, BESIDE, seen)
    window = seen.window
    if broken is None and window is not None and window.doubt():
        broken = undecided(check, window.doubt())
    if broken is not None or window is None:
        said = broken or undecided(check, "its path was never dialled")
        return give_verdict(check, features, facts, lambda: said)
    verdict = judge_path(check.with_subject(check.subject.on_path), window.evidence)
    if verdict.status not in (Status.FAIL, Status.FLAKY):
        return verdict
    if why := surrounded(check, facts):
        return replace(verdict, status=Status.INCONCLUSIVE, reason=f"{why} (observed: {verdict.observed})")
    when = _when(check, window)
    return replace(verdict, reason="; ".join(each for each in (verdict.reason, when) if each))


def _when(check: IsolationCheck, window: Window) -> str:
    """When the first wrong answers came, relative to the policy changes, as text."""
    path, evidence = check.subject.on_path.path, window.evidence
    clock = window.clocks.get(path.client.name)
    pairs = zip(evidence.observations[path.key], evidence.readings(path), strict=True)
    wrong = [each for each, read in pairs if read.product_fault or not read.classes & check.subject.on_path.accept]
    if clock is None or not wrong:
        return ""
    said = [window.after(clock.ours(each.started)) for each in sorted(wrong, key=lambda each: each.started)[:3]]
    return f"the first wrong results: {'; '.join(said)}"


def decide_health(check: IsolationHealthCheck, seen: Seen) -> Decision:
    """The decision on all answers of one node's health check while other policies changed."""
    window = seen.window
    found = Counter(window.health.get((check.subject.place, check.subject.family), {})) if window else Counter[str]()
    if window is None or not found:
        return undecided(check, "its health check was never probed")
    if found["error"]:
        return ours_failed(check, say_observed(found), "the prober failed")
    if window.doubt():
        return undecided(check, window.doubt(), say_observed(found))
    return all_of(check, check.expected, found)
