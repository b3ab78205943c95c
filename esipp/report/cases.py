"""Test cases, for the formats that CI reads: a group per profile and suite, a case per check, red if the exit code is.

Verdicts map to outcomes as follows:

- ``failure``: a binding check fails (``fail``, ``flaky``; ``--fail-on`` selects the binding levels).
- ``error``: a suite error (``error``), or a binding check that is ``inconclusive``.
- ``skipped`` with the reason: ``unsupported``; ``known``, like an expected failure of pytest; checks that do not bind
  and fail or are inconclusive; and checks without a verdict.

A case without any of these is ``pass`` or ``recorded``; its label ``verdict`` says which. A known defect or finding of
a core check is a ``failure`` unless the run accepts known defects. Checks of the reference load balancer have groups of
their own and turn nothing red.

The time of a case is its share of the phases that it needed: checks are observed side by side, so times of their own
would add up to many runs. These add up to the run's phases. A check that this version no longer has is given none.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from esipp.base.errors import ExitCode
from esipp.base.plural import counted
from esipp.checks.catalog import all_checks
from esipp.checks.check import Profile, Status, Verdict
from esipp.checks.reference import titles, with_urls
from esipp.judging.durations import shares
from esipp.ledger.conclusion import FINE
from esipp.ledger.reading import RecordedRun
from esipp.ledger.recorded_checks import RecordedCheck

INSTRUMENT = "reference load balancer"
"""Replaces the profile for checks of the reference load balancer."""

WHOLE_RUN = "esipp.run"
"""The name of the case about what concerns the whole run."""


@dataclass(frozen=True)
class Outcome:
    """What a case came to.

    Args:
        kind: ``failure``, ``error`` or ``skipped``.
        type: the verdict, or the result of a run; empty for a check without a verdict.
        message: why, in one line.
        text: why, in full; empty if the message has all.
    """

    kind: str
    type: str
    message: str
    text: str = ""

    @property
    def red(self) -> bool:
        """Whether it makes a pipeline fail."""
        return self.kind != "skipped"


NO_VERDICT = Outcome("skipped", "", "no verdict: the run ended early")


@dataclass(frozen=True)
class Case:
    """A check as a test case.

    Args:
        check: the check.
        seconds: its time.
        labels: its texts by label.
        outcome: None if there is nothing to say.
    """

    check: RecordedCheck
    seconds: float
    labels: dict[str, str]
    outcome: Outcome | None


def cases(run: RecordedRun) -> dict[str, list[Case]]:
    """The cases of a run by the name of their group."""
    order = [profile.value for profile in Profile]
    instruments = {check.id for check in run.instruments}
    spent = _shares(run)
    groups: dict[tuple[str, str], list[Case]] = {}
    for check in run.checks:
        verdict = run.verdicts.get(check.id)
        labels = {label: text for label, text in _labelled(run, check, verdict).items() if text}
        outcome = _outcome(run, check, verdict) if verdict else NO_VERDICT
        group = INSTRUMENT if check.id in instruments else check.profile, check.suite
        groups.setdefault(group, []).append(Case(check, spent.get(check.id, 0.0), labels, outcome))
    names = sorted(groups, key=lambda group: order.index(group[0]) if group[0] in order else len(order))
    return {f"{profile} / {suite}": groups[profile, suite] for profile, suite in names}


def of_run(run: RecordedRun, made: dict[str, list[Case]]) -> Outcome | None:
    """The outcome of the whole run, if the cases do not show it: an incomplete ledger, an interrupt, a suite error."""
    said = run.conclusion
    red = any(case.outcome is not None and case.outcome.red for group in made.values() for case in group)
    checks_show_it = said.exit_code in (ExitCode.CONFORMANT, ExitCode.NOT_CONFORMANT)
    if run.whole and checks_show_it and (said.exit_code is ExitCode.CONFORMANT or red):
        return None
    unjudged = sum(1 for check in run.checks if check.id not in run.verdicts)
    without_verdict = [f"{counted(unjudged, 'check has', 'checks have')} no verdict"] if unjudged else []
    return Outcome("error", said.result, said.sentence, "\n".join([said.sentence, *run.trouble, *without_verdict]))


def times(run: RecordedRun) -> Iterator[float]:
    """The moments at which a run was at work; the first is its beginning."""
    yield float(run.header["at"])
    yield from (phase.at for phase in run.phases)
    if run.end:
        yield float(run.end["at"])


def _shares(run: RecordedRun) -> dict[str, float]:
    """The seconds that each judged check accounts for; only those of today's checks are known."""
    judged = {each for each, verdict in run.verdicts.items() if verdict.status is not Status.UNSUPPORTED}
    asked = [check for check in all_checks() if check.id in judged]
    seconds: dict[str, float] = {}
    for phase in run.phases:
        seconds[phase.name] = seconds.get(phase.name, 0.0) + phase.seconds
    events = {(event.phase, event.name): event.seconds for event in run.events}
    return shares(asked, seconds, events) if asked else {}


def _labelled(run: RecordedRun, check: RecordedCheck, verdict: Verdict | None) -> dict[str, str]:
    """The texts of a check by label; the path of the evidence is relative to the run's folder."""
    evidence = f"rows/{check.id}" if verdict and verdict.status is not Status.PASS and run.files(check.id) else ""
    texts = {"level": check.level.value, "requirement": check.requirement, "expected": check.expect}
    if verdict is not None:
        texts |= {"verdict": verdict.status.value, "expected": verdict.expected, "observed": verdict.observed}
        texts |= {"sees": verdict.sees, "reason": verdict.reason, "likely": verdict.likely}
        texts |= {"nature": verdict.nature, "difference": with_urls(verdict.references)}
    return texts | {"reference": with_urls(check.references), "evidence": evidence}


def _outcome(run: RecordedRun, check: RecordedCheck, verdict: Verdict) -> Outcome | None:
    status, seen = verdict.status, f"expected {verdict.expected}; observed {verdict.observed}"
    seen += f" ({verdict.reason})" if verdict.reason else ""
    if status in FINE:
        return None
    if run.scale.spoils(verdict):
        kind = "error" if status in (Status.ERROR, Status.INCONCLUSIVE) else "failure"
        texts = _labelled(run, check, verdict) | {"packets": verdict.change, "ports": verdict.ports}
        texts |= {"based on": verdict.witnesses, "repeat": f"{run.header['command']} {check.id}"}
        text = "\n".join(f"{label}: {text}" for label, text in texts.items() if text)
        return Outcome(kind, status.value, f"{status.value}: {seen}", text)
    waiver = run.scale.waivers.of(verdict.check_id) if run.scale.waives(verdict) else None
    why = {
        Status.KNOWN: f"known difference, {verdict.nature}: {verdict.reason} [{titles(verdict.references)}]",
        Status.UNSUPPORTED: f"not tested: {verdict.reason}",
        Status.INCONCLUSIVE: f"{check.level.value} check is inconclusive: {verdict.reason}",
        Status.FLAKY: f"{check.level.value} check is flaky: {seen}",
    }.get(status, f"{check.level.value} check differs: {seen}")
    why = f"waived: {waiver.words}: {seen}" if waiver else why
    if not run.scale.concerns(verdict):
        why = f"not part of the result: {why}"
    return Outcome("skipped", status.value, why)
