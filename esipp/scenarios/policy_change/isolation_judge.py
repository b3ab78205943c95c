"""The judge of isolation checks: unchanged Services while others change their policy. Pure."""

from collections import Counter
from dataclasses import replace

from esipp.checks.check import Status
from esipp.checks.policy_change import IsolationCheck, IsolationHealthCheck, PolicyChangeCheck
from esipp.judging.frame import Decision, ours_failed, undecided
from esipp.scenarios.health.judge import all_of
from esipp.scenarios.paths.judge import decide, say_observed
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


def decide_path(check: IsolationCheck, seen: Seen) -> Decision:
    """The path judge's decision, if other policies really changed meanwhile."""
    window = seen.window
    if window is None:
        return undecided(check, "its path was never dialled")
    if window.doubt():
        return undecided(check, window.doubt())
    decided = decide(check.with_subject(check.subject.on_path), window.evidence)
    if decided.status not in (Status.FAIL, Status.FLAKY):
        return decided
    reason = "; ".join(filter(None, (decided.reason, _when(check, window))))
    return replace(decided, reason=reason, environment=decided.environment or None)


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
