"""junit.xml, for CI: one testsuite per profile and suite, one testcase per check, red like the run: see cases.py.

An ``<error>`` of the separate testcase ``esipp.run`` reports what concerns the whole run. JUnit has no place for counts
of probes, two witnesses or flakiness: no program reads it back.
"""

import contextlib
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from esipp.base.errors import EsippError, if_not_writable
from esipp.checks.check import PROXY_VERSION
from esipp.ledger.reading import RecordedRun
from esipp.report.cases import WHOLE_RUN, Case, Outcome, cases, of_run, times

FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold; observed text may contain them."""

NOT_ENDED = "The run did not finish: it tested no check, or it was killed."


# ------------------------------------------------------------------------------------------------------ from a ledger
def render(run: RecordedRun) -> str:
    """The run as JUnit XML."""
    root = Element("testsuites", {"name": f"esipp {_clean(run.header['lane'])}"})
    made, began = cases(run), float(run.header["at"])
    for name, group in made.items():
        suite = _suite(root, name, run)
        for case in group:
            _add_case(suite, case)
    if outcome := of_run(run, made):
        _run_case(_suite(root, "run", run), outcome)
    return _finish(root, max(times(run)) - began)


def _add_case(suite: Element, made: Case) -> None:
    case = _case(suite, f"esipp.{made.check.suite}.{made.check.profile}", made.check.id, made.seconds)
    properties = SubElement(case, "properties")
    for label, value in made.labels.items():
        SubElement(properties, "property", {"name": label, "value": _clean(value)})
    if made.outcome is not None:
        _add_outcome(case, made.outcome)


def _add_outcome(case: Element, outcome: Outcome) -> None:
    given = {"message": outcome.message, "type": outcome.type}
    made = SubElement(case, outcome.kind, {name: _clean(text) for name, text in given.items() if text})
    if outcome.text:
        made.text = _clean(outcome.text)


def _suite(root: Element, name: str, run: RecordedRun) -> Element:
    """A testsuite with the conclusion of the whole run, so that a reader of one testsuite knows it."""
    began = datetime.fromtimestamp(int(run.header["at"]), UTC).isoformat()
    suite = SubElement(root, "testsuite", {"name": _clean(name), "timestamp": began})
    suite.set("hostname", _clean(run.header["context"]))  # the tested cluster, not the machine that tests
    properties = SubElement(suite, "properties")
    shown = ("kubernetes", PROXY_VERSION, "proxy-mode", "network-add-on")
    facts = {name: run.facts[name].value for name in shown if name in run.facts}
    head = {"run": run.header["run"], "result": run.conclusion.result, "conclusion": run.conclusion.sentence}
    for label, value in (head | {"repeat": run.command} | facts).items():
        SubElement(properties, "property", {"name": label, "value": _clean(value)})
    return suite


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
    with if_not_writable(f"The JUnit file {file} cannot be written", "name another with --junit."):
        Path(file).absolute().parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_text(_alone(NOT_ENDED, ""), encoding="utf-8")
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
    text = f"{sentence}\nhint: {hint}" if hint else sentence
    _run_case(suite, Outcome("error", "error", sentence, text))
    return _finish(root, 0.0)


# ------------------------------------------------------------------------------------------------------------- the XML
def _case(suite: Element, classname: str, name: str, seconds: float = 0.0) -> Element:
    time = f"{seconds:.3f}"
    return SubElement(suite, "testcase", {"classname": _clean(classname), "name": _clean(name), "time": time})


def _run_case(suite: Element, outcome: Outcome) -> None:
    """Add the testcase of the whole run."""
    _add_outcome(_case(suite, "esipp", WHOLE_RUN), outcome)


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
