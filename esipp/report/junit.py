"""junit.xml, for CI: one testsuite per profile and suite, one testcase per check; red if the exit code is not 0.

Verdicts map to JUnit as follows:

- ``<failure>``: a binding check fails (``fail``, ``flaky``; ``--fail-on`` selects the binding levels).
- ``<error>``: a suite error (``error``), or a binding check that is ``inconclusive``.
- ``<skipped>`` with the reason: ``unsupported``; ``known``, like an expected failure of pytest; checks that do not bind
  and fail or are inconclusive; and checks without a verdict.

The time of a testcase is its share of the phases that it needed: checks are observed side by side, so times of their
own would add up to many runs. These add up to the run's phases. A check that this version no longer has is given none.

A testcase without any of these is ``pass`` or ``recorded``; its property ``verdict`` says which. A known defect or
finding of a core check is a ``<failure>`` unless the run accepts known defects. Checks of the reference load balancer
have testsuites of their own and turn nothing red.

An ``<error>`` of the separate testcase ``esipp.run`` reports what concerns the whole run: an incomplete ledger, an
interrupt, a suite error. JUnit has no place for counts of probes, two witnesses or flakiness: no program reads
it back.
"""

import contextlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from esipp.base.errors import EsippError, ExitCode, PreflightError
from esipp.base.plural import counted
from esipp.checks.catalog import all_checks
from esipp.checks.check import Profile, Status
from esipp.checks.observation import Verdict
from esipp.checks.reference import titles, with_urls
from esipp.judging.durations import shares
from esipp.ledger.conclusion import FINE
from esipp.ledger.reading import RecordedRun
from esipp.ledger.recorded_checks import RecordedCheck

FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold; observed text may contain them."""

INSTRUMENT = "reference load balancer"
"""Replaces the profile for checks of the reference load balancer."""

NOT_ENDED = "The run did not finish: it tested no check, or it was killed."


# ------------------------------------------------------------------------------------------------------ from a ledger
def render(run: RecordedRun) -> str:
    """The run as JUnit XML."""
    began = float(run.header["at"])
    times = [began, *(phase.at for phase in run.phases), *([float(run.end["at"])] if run.end else [])]
    root = Element("testsuites", {"name": f"esipp {_clean(run.header['lane'])}"})
    order = [profile.value for profile in Profile]
    groups: dict[tuple[str, str], list[RecordedCheck]] = {}
    instruments = {check.id for check in run.instruments}
    spent = _shares(run)
    for check in run.checks:
        groups.setdefault((INSTRUMENT if check.id in instruments else check.profile, check.suite), []).append(check)
    for profile, suite in sorted(groups, key=lambda group: order.index(group[0]) if group[0] in order else len(order)):
        _add_suite(root, f"{profile} / {suite}", run, groups[profile, suite], spent)
    said = run.conclusion
    red = any(case.find("failure") is not None or case.find("error") is not None for case in root.iter("testcase"))
    checks_show_it = said.exit_code in (ExitCode.CONFORMANT, ExitCode.NOT_CONFORMANT)
    if not run.whole or not checks_show_it or (said.exit_code is not ExitCode.CONFORMANT and not red):
        unjudged = sum(1 for check in run.checks if check.id not in run.verdicts)
        without_verdict = [f"{counted(unjudged, 'check has', 'checks have')} no verdict"] if unjudged else []
        body = [said.sentence, *run.trouble, *without_verdict]
        _run_case(_suite(root, "run", run), said.sentence, body, said.result)
    return _finish(root, max(times) - began)


def _shares(run: RecordedRun) -> dict[str, float]:
    """The seconds that each judged check accounts for; only those of today's checks are known."""
    judged = {each for each, verdict in run.verdicts.items() if verdict.status is not Status.UNSUPPORTED}
    asked = [check for check in all_checks() if check.id in judged]
    seconds: dict[str, float] = {}
    for phase in run.phases:
        seconds[phase.name] = seconds.get(phase.name, 0.0) + phase.seconds
    events = {(event.phase, event.name): event.seconds for event in run.events}
    return shares(asked, seconds, events) if asked else {}


def _add_suite(
    root: Element, name: str, run: RecordedRun, checks: list[RecordedCheck], seconds: Mapping[str, float]
) -> None:
    suite = _suite(root, name, run)
    for check in checks:
        case = _case(suite, f"esipp.{check.suite}.{check.profile}", check.id, seconds.get(check.id, 0.0))
        verdict = run.verdicts.get(check.id)
        properties = SubElement(case, "properties")
        for label, value in _labelled(run, check, verdict).items():
            if value:
                SubElement(properties, "property", {"name": label, "value": _clean(value)})
        if verdict is None:
            SubElement(case, "skipped", {"message": "no verdict: the run ended early"})
        else:
            _add_outcome(case, run, check, verdict)


def _suite(root: Element, name: str, run: RecordedRun) -> Element:
    """A testsuite with the conclusion of the whole run, so that a reader of one testsuite knows it."""
    began = datetime.fromtimestamp(int(run.header["at"]), UTC).isoformat()
    suite = SubElement(root, "testsuite", {"name": _clean(name), "timestamp": began})
    suite.set("hostname", _clean(run.header["context"]))  # the tested cluster, not the machine that tests
    properties = SubElement(suite, "properties")
    facts = {
        name: run.facts[name].value for name in ("kubernetes", "proxy-mode", "network-add-on") if name in run.facts
    }
    head = {"run": run.header["run"], "result": run.conclusion.result, "conclusion": run.conclusion.sentence}
    for label, value in (head | {"repeat": run.command} | facts).items():
        SubElement(properties, "property", {"name": label, "value": _clean(value)})
    return suite


def _labelled(run: RecordedRun, check: RecordedCheck, verdict: Verdict | None) -> dict[str, str]:
    """The texts of a check by label; the path of the evidence is relative to the run's folder."""
    evidence = f"rows/{check.id}" if verdict and verdict.status is not Status.PASS and run.files(check.id) else ""
    texts = {"level": check.level.value, "requirement": check.requirement, "expected": check.expect}
    if verdict is not None:
        texts |= {"verdict": verdict.status.value, "expected": verdict.expected, "observed": verdict.observed}
        texts |= {"sees": verdict.sees, "reason": verdict.reason, "likely": verdict.likely}
        texts |= {"nature": verdict.nature, "difference": with_urls(verdict.references)}
    return texts | {"reference": with_urls(check.references), "evidence": evidence}


def _add_outcome(case: Element, run: RecordedRun, check: RecordedCheck, verdict: Verdict) -> None:
    """Add the outcome to a testcase; nothing for a check that passed."""
    status, seen = verdict.status, f"expected {verdict.expected}; observed {verdict.observed}"
    seen += f" ({verdict.reason})" if verdict.reason else ""
    if status in FINE:
        return
    if run.scale.spoils(verdict):
        kind = "error" if status in (Status.ERROR, Status.INCONCLUSIVE) else "failure"
        outcome = SubElement(case, kind, {"message": _clean(f"{status.value}: {seen}"), "type": status.value})
        texts = _labelled(run, check, verdict) | {"packets": verdict.change, "ports": verdict.ports}
        texts |= {"based on": verdict.witnesses, "repeat": f"{run.header['command']} {check.id}"}
        outcome.text = _clean("\n".join(f"{label}: {text}" for label, text in texts.items() if text))
        return
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
    SubElement(case, "skipped", {"message": _clean(why), "type": status.value})


# ------------------------------------------------------------------------------------------------- whatever happens
@contextlib.contextmanager
def promised(file: str | None) -> Iterator[None]:
    """Keep a JUnit file for CI that exists, and is red, before the run creates anything.

    It stays red if the body ends early, and names an error of the suite. ``write`` puts the run into it.

    Args:
        file: the path; None for no file.

    Raises:
        PreflightError: the file cannot be written.
    """
    if file is None:
        yield
        return
    try:
        Path(file).absolute().parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_text(_alone(NOT_ENDED, ""), encoding="utf-8")
    except OSError as broken:
        raise PreflightError(
            f"The JUnit file {file} cannot be written: {broken.strerror}.", "name another with --junit."
        ) from None
    try:
        yield
    except EsippError as error:
        refuse(file, error)
        raise


def refuse(file: str | None, error: EsippError) -> None:
    """Write into the file why there is no run."""
    if file is not None:
        with contextlib.suppress(OSError):  # the file was writable before; the error itself matters more
            Path(file).write_text(_alone(error.sentence, error.hint), encoding="utf-8")


def write(run: RecordedRun, file: str | None) -> list[str]:
    """Write a run into the file; return an error as a line."""
    if file is None:
        return []
    try:
        Path(file).write_text(render(run), encoding="utf-8")
    except OSError as broken:
        return [f"no JUnit file {file}: {broken.strerror}"]
    return []


def _alone(sentence: str, hint: str) -> str:
    """JUnit XML for a run without a ledger."""
    root = Element("testsuites", {"name": "esipp"})
    suite = SubElement(root, "testsuite", {"name": "run"})
    _run_case(suite, sentence, [sentence, *([f"hint: {hint}"] if hint else [])], "error")
    return _finish(root, 0.0)


# ------------------------------------------------------------------------------------------------------------- the XML
def _case(suite: Element, classname: str, name: str, seconds: float = 0.0) -> Element:
    time = f"{seconds:.3f}"
    return SubElement(suite, "testcase", {"classname": _clean(classname), "name": _clean(name), "time": time})


def _run_case(suite: Element, message: str, body: list[str], kind: str) -> None:
    """Add the testcase of the whole run."""
    outcome = SubElement(_case(suite, "esipp", "esipp.run"), "error", {"message": _clean(message), "type": kind})
    outcome.text = _clean("\n".join(body))


def _finish(root: Element, seconds: float) -> str:
    """Add the counts, and return the XML."""
    total: Counter[str] = Counter()
    for suite in root:
        kinds = {"tests": "testcase", "failures": "failure", "errors": "error", "skipped": "skipped"}
        counts = {label: sum(1 for _ in suite.iter(tag)) for label, tag in kinds.items()}
        for label, number in counts.items():
            suite.set(label, str(number))
        suite.set("time", f"{sum(float(case.attrib['time']) for case in suite.iter('testcase')):.3f}")
        total.update(counts)
    for label in ("tests", "failures", "errors"):  # no 'skipped': strict readers reject it here
        root.set(label, str(total[label]))
    root.set("time", f"{seconds:.3f}")
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _clean(text: object) -> str:
    """The text without characters that XML cannot hold; ElementTree escapes the rest."""
    return FORBIDDEN.sub("", str(text))
