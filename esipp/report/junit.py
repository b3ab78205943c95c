"""JUnit XML, for CI: one testsuite a profile and suite, one testcase a row; red exactly where the exit code is not 0.

What a consumer of JUnit sees of a verdict:

- ``<failure>``: the product does not do what binds it (``fail``, ``flaky``; ``--fail-on`` says what binds).
- ``<error>``: ours (``error``), or what binds could not be decided (``inconclusive``).
- ``<skipped>`` with the reason: ``unsupported``; ``known``, as pytest does with an expected failure: it must not turn
  anything red, and did not do what the row says either; what differs, or could not be decided, and does not bind; and
  rows that were never judged.

Nothing below a testcase is ``pass``, or ``recorded``: nothing is required of an informational row, and its property
``verdict`` says so. A known defect or finding of a core row is a ``<failure>``, unless the run accepts known defects.
Rows about our own reference load balancer are in testsuites of their own, and turn nothing red.

Whatever concerns the run as a whole (a ledger that is not whole, an interrupt, a fault of ours) is an ``<error>`` of a
testcase of its own, ``esipp.run``. JUnit has no place for a count of probes, two witnesses or flakiness: it is
rendered from the ledger, and never read back.
"""

import contextlib
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from esipp.base.errors import EsippError, ExitCode, PreflightError
from esipp.base.plural import counted
from esipp.checks.check import Profile, Status
from esipp.checks.observation import Verdict
from esipp.checks.reference import titles, with_urls
from esipp.ledger.conclusion import FINE
from esipp.ledger.reading import RecordedRun
from esipp.ledger.recorded_checks import RecordedCheck

FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 has no way to say; observed text may hold it."""

NO_TIME = "0.000"
"""The seconds of a testcase: checks are observed side by side, so that times of their own would add up to many runs."""

INSTRUMENT = "our own reference load balancer"
"""What stands for the profile of checks that are about our instrument."""

NOT_ENDED = "The run did not come to its end: no check was asked, or it was killed."


# ------------------------------------------------------------------------------------------------------ from a ledger
def render(run: RecordedRun) -> str:
    """The run as JUnit XML."""
    began = float(run.header["at"])
    times = [began, *(phase.at for phase in run.phases), *([float(run.end["at"])] if run.end else [])]
    root = Element("testsuites", {"name": f"esipp {_clean(run.header['lane'])}"})
    order = [profile.value for profile in Profile]
    groups: dict[tuple[str, str], list[RecordedCheck]] = {}
    beside = {check.id for check in run.instruments}
    for check in run.checks:
        groups.setdefault((INSTRUMENT if check.id in beside else check.profile, check.suite), []).append(check)
    for profile, suite in sorted(groups, key=lambda group: order.index(group[0]) if group[0] in order else len(order)):
        _add_suite(root, f"{profile} / {suite}", run, groups[profile, suite])
    said = run.conclusion
    red = any(case.find("failure") is not None or case.find("error") is not None for case in root.iter("testcase"))
    told_by_checks = said.exit_code in (ExitCode.CONFORMANT, ExitCode.NOT_CONFORMANT)
    if not run.whole or not told_by_checks or (said.exit_code is not ExitCode.CONFORMANT and not red):
        unjudged = sum(1 for check in run.checks if check.id not in run.verdicts)
        open_ = [f"{counted(unjudged, 'check has', 'checks have')} no verdict"] if unjudged else []
        body = [said.sentence, *run.trouble, *open_]
        _run_case(_suite(root, "run", run), said.sentence, body, said.result)
    return _finish(root, max(times) - began)


def _add_suite(root: Element, name: str, run: RecordedRun, checks: list[RecordedCheck]) -> None:
    suite = _suite(root, name, run)
    for check in checks:
        case = _case(suite, f"esipp.{check.suite}.{check.profile}", check.id)
        verdict = run.verdicts.get(check.id)
        properties = SubElement(case, "properties")
        for label, value in _told(run, check, verdict).items():
            if value:
                SubElement(properties, "property", {"name": label, "value": _clean(value)})
        if verdict is None:
            SubElement(case, "skipped", {"message": "not judged: the run ended before"})
        else:
            _say(case, run, check, verdict)


def _suite(root: Element, name: str, run: RecordedRun) -> Element:
    """A testsuite, with what the whole run said: who looks at one suite only must see that it is a part."""
    began = datetime.fromtimestamp(int(run.header["at"]), UTC).isoformat()
    suite = SubElement(root, "testsuite", {"name": _clean(name), "timestamp": began})
    suite.set("hostname", _clean(run.header["context"]))  # the cluster that was asked, and not whoever asked
    properties = SubElement(suite, "properties")
    facts = {
        name: run.facts[name].value for name in ("kubernetes", "proxy-mode", "network-add-on") if name in run.facts
    }
    head = {"run": run.header["run"], "result": run.conclusion.result, "conclusion": run.conclusion.sentence}
    for label, value in (head | {"repeat": run.command} | facts).items():
        SubElement(properties, "property", {"name": label, "value": _clean(value)})
    return suite


def _told(run: RecordedRun, check: RecordedCheck, verdict: Verdict | None) -> dict[str, str]:
    """What is said of a check, by label; the evidence is told relative to the run's folder."""
    evidence = f"rows/{check.id}" if verdict and verdict.status is not Status.PASS and run.files(check.id) else ""
    told = {"level": check.level.value, "requirement": check.requirement, "expected": check.expect}
    if verdict is not None:
        told |= {"verdict": verdict.status.value, "expected": verdict.expected, "observed": verdict.observed}
        told |= {"sees": verdict.sees, "reason": verdict.reason, "likely": verdict.likely}
        told |= {"nature": verdict.nature, "difference": with_urls(verdict.references)}
    return told | {"reference": with_urls(check.references), "evidence": evidence}


def _say(case: Element, run: RecordedRun, check: RecordedCheck, verdict: Verdict) -> None:
    """The testcase's outcome; nothing for one that passed."""
    status, seen = verdict.status, f"expected {verdict.expected}; observed {verdict.observed}"
    seen += f" ({verdict.reason})" if verdict.reason else ""
    if status in FINE:
        return
    if run.scale.spoils(verdict):
        kind = "error" if status in (Status.ERROR, Status.INCONCLUSIVE) else "failure"
        outcome = SubElement(case, kind, {"message": _clean(f"{status.value}: {seen}"), "type": status.value})
        told = _told(run, check, verdict) | {"packets": verdict.change, "ports": verdict.ports}
        told |= {"rests on": verdict.witnesses, "repeat": f"{run.header['command']} {check.id}"}
        outcome.text = _clean("\n".join(f"{label}: {text}" for label, text in told.items() if text))
        return
    why = {
        Status.KNOWN: f"known difference, {verdict.nature}: {verdict.reason} [{titles(verdict.references)}]",
        Status.UNSUPPORTED: f"not tested: {verdict.reason}",
        Status.INCONCLUSIVE: f"{check.level.value} check could not be decided: {verdict.reason}",
        Status.FLAKY: f"{check.level.value} check is flaky: {seen}",
    }.get(status, f"{check.level.value} check differs: {seen}")
    if not run.scale.concerns(verdict):
        why = f"outside of the verdict: {why}"
    SubElement(case, "skipped", {"message": _clean(why), "type": status.value})


# ------------------------------------------------------------------------------------------------- whatever happens
@contextlib.contextmanager
def promised(file: str | None) -> Iterator[None]:
    """Have a file beside the run's folder, for CI: it is there, and red, from before anything is created.

    Whatever ends the body early leaves it red; an error of ours is told in it. ``write`` puts the run there.

    Args:
        file: where to; None for none.

    Raises:
        PreflightError: it cannot be written.
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
    """Say in the file why there is no run."""
    if file is not None:
        with contextlib.suppress(OSError):  # it could be written a moment ago; the error itself is worth more
            Path(file).write_text(_alone(error.sentence, error.hint), encoding="utf-8")


def write(run: RecordedRun, file: str | None) -> list[str]:
    """Put a run into the file; what hindered that is returned, in a line."""
    if file is None:
        return []
    try:
        Path(file).write_text(render(run), encoding="utf-8")
    except OSError as broken:
        return [f"no JUnit file {file}: {broken.strerror}"]
    return []


def _alone(sentence: str, hint: str) -> str:
    """JUnit XML of a run that has no ledger."""
    root = Element("testsuites", {"name": "esipp"})
    suite = SubElement(root, "testsuite", {"name": "run"})
    _run_case(suite, sentence, [sentence, *([f"hint: {hint}"] if hint else [])], "error")
    return _finish(root, 0.0)


# ------------------------------------------------------------------------------------------------------------- the XML
def _case(suite: Element, classname: str, name: str) -> Element:
    return SubElement(suite, "testcase", {"classname": _clean(classname), "name": _clean(name), "time": NO_TIME})


def _run_case(suite: Element, message: str, body: list[str], kind: str) -> None:
    """The testcase that stands for the run as a whole."""
    outcome = SubElement(_case(suite, "esipp", "esipp.run"), "error", {"message": _clean(message), "type": kind})
    outcome.text = _clean("\n".join(body))


def _finish(root: Element, seconds: float) -> str:
    """Count, and write."""
    total: Counter[str] = Counter()
    for suite in root:
        kinds = {"tests": "testcase", "failures": "failure", "errors": "error", "skipped": "skipped"}
        counts = {label: sum(1 for _ in suite.iter(tag)) for label, tag in kinds.items()}
        for label, number in counts.items():
            suite.set(label, str(number))
        suite.set("time", NO_TIME)
        total.update(counts)
    for label in ("tests", "failures", "errors"):  # no 'skipped': strict readers know none at this place
        root.set(label, str(total[label]))
    root.set("time", f"{seconds:.3f}")
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _clean(text: object) -> str:
    """The text without what XML cannot hold; the rest is escaped as it is written."""
    return FORBIDDEN.sub("", str(text))
