"""Allure data of a check: labels, links, parameters, description, evidence. Equal during a run and after it."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import allure
import allure_commons
import pytest
from allure_commons.types import AttachmentType, ParameterMode

from esipp.checks.check import Level, Status, Verdict
from esipp.checks.reference import Reference, titles
from esipp.ledger.codec import record_of
from esipp.ledger.reading import RecordedRun
from esipp.ledger.recorded_checks import RecordedCheck

ISSUE = re.compile(r"https://github\.com/(?!kubernetes/enhancements/)[^/]+/[^/]+/issues/\d+")


def links(references: Iterable[Reference]) -> Iterator[tuple[str, str, str]]:
    """Kind (``issue``, or ``tms`` for other documents), address and title of each reference with an address."""
    for each in references:
        if each.link:
            yield "issue" if ISSUE.fullmatch(each.link) else "tms", each.link, each.title


SEVERITIES = {
    Level.CORE: allure.severity_level.CRITICAL,
    Level.EXTENDED: allure.severity_level.NORMAL,
    Level.RECORD: allure.severity_level.TRIVIAL,
}

MOST_BYTES = 64 * 1024
"""Maximum size of the observations attached to a check; the ledger has all."""

KINDS = {".pcap": AttachmentType.PCAP, ".json": AttachmentType.JSON}
DUPLICATES = ("verdict.json", "observations.jsonl")
"""Files of a check with the content of its other attachments."""


@dataclass(frozen=True)
class Plain:
    """A parameter without quotes: the plugin shows a parameter's repr."""

    text: str

    def __repr__(self) -> str:
        return self.text


class Describer:
    """Hooks of pytest and allure-pytest that describe each check during its test.

    A run and its replay differ in the four methods below.
    """

    def __init__(self) -> None:
        self._now: Verdict | None = None

    def check(self, item: pytest.Item) -> RecordedCheck | None:
        """The check of a test; None for any other test."""
        raise NotImplementedError

    def verdict(self, check: RecordedCheck) -> Verdict | None:
        """The verdict on the check, if there is one."""
        raise NotImplementedError

    def recorded(self, check: RecordedCheck) -> RecordedRun:
        """The run from its ledger, at least the part that this check needs."""
        raise NotImplementedError

    def finish(self, result: Any) -> None:
        """Change a result before it is written."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Describe the check, also one that gets no verdict."""
        self._now = None
        if check := self.check(item):
            begin(check)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """Add the verdict and the evidence."""
        check = self.check(item)
        if check and (verdict := self.verdict(check)):
            self._now = verdict
            complete(check, verdict, self.recorded(check))

    @allure_commons.hookimpl(tryfirst=True)
    def report_result(self, result: Any) -> None:
        """Before a result is written: add what allure-pytest cannot express, and remove facts about this machine."""
        result.labels[:] = [each for each in result.labels if each.name not in ("host", "thread")]
        if self._now is not None and result.statusDetails is not None:
            result.statusDetails.trace = None  # it would show paths of this machine
            result.statusDetails.flaky = True if self._now.status is Status.FLAKY else None
            result.statusDetails.known = True if self._now.status is Status.KNOWN else None
        self.finish(result)


def begin(check: RecordedCheck) -> None:
    """Add labels, links and parameters to the test in set-up."""
    say, story = allure.dynamic, story_of(check)
    say.epic(check.profile)
    say.feature(check.suite)
    say.story(story)
    say.severity(SEVERITIES[check.level])
    say.parent_suite(check.suite)
    say.suite(check.profile)
    say.sub_suite(check.way_in if check.place else story)
    say.tag(check.level.value)
    for kind, address, name in links(check.references):
        say.link(address, link_type=kind, name=name)
    # only the id identifies the history: a check with new words is still the same
    say.parameter("row", Plain(check.id), mode=ParameterMode.HIDDEN)
    say.parameter("check", Plain(check.id), excluded=True, mode=ParameterMode.HIDDEN)
    for name, value in _parameters(check):
        say.parameter(name, Plain(value), excluded=True)


def story_of(check: RecordedCheck) -> str:
    """The traffic policies of a path check's Service; for other checks, the group in its id."""
    if check.place is None:
        return ".".join(check.id.split(".")[:2])
    external, internal = check.data.get("policy"), check.data.get("internal_policy")
    policies = [f"externalTrafficPolicy {external}"] * bool(external) + [f"internalTrafficPolicy {internal}"] * bool(
        internal
    )
    return ", ".join(policies) or "no policy"


def _parameters(check: RecordedCheck) -> Iterator[tuple[str, str]]:
    yield "level", check.level.value
    if check.place:
        yield "service", check.place.service
        yield "entry", check.place.entry or str(check.data.get("entry", ""))
        yield "client", check.place.client
        yield "protocol", check.place.protocol
        yield "family", check.place.family


def complete(check: RecordedCheck, verdict: Verdict, run: RecordedRun) -> None:
    """Add title, description and evidence to the test in teardown."""
    allure.dynamic.title(check.id)
    allure.dynamic.description(description(check, verdict))
    text = json.dumps(record_of(verdict), indent=1, ensure_ascii=False)
    allure.attach(text, name="verdict.json", attachment_type=AttachmentType.JSON)
    if check.path in run.probes:
        allure.attach(observations(run, check.path), name="observations.jsonl", attachment_type=AttachmentType.TEXT)
    if words := "\n".join(each.words for each in run.witnesses.get(check.path, []) if each.words):
        allure.attach(words[:MOST_BYTES], name="packets.txt", attachment_type=AttachmentType.TEXT)
    for file in run.files(check.id):
        if file.name not in DUPLICATES:
            kind = KINDS.get(file.suffix, AttachmentType.TEXT)
            allure.attach.file(str(run.folder / file), name=str(file), attachment_type=kind)


def description(check: RecordedCheck, verdict: Verdict) -> str:
    """Requirement, expectation and observation in Markdown."""
    texts = {
        "expected": verdict.expected,
        "observed": verdict.observed,
        "reason": verdict.reason,
        "known difference": titles(verdict.references),
        "packets": verdict.change,
        "source ports": verdict.ports,
        "based on": verdict.witnesses,
        "likely": verdict.likely,
        "method": check.asked,
        "fails if": check.fails_if,
        "references": titles(check.references),
    }
    lines = [f"- **{label}**: {_plain(text)}" for label, text in texts.items() if text]
    return "\n".join([_plain(check.requirement), "", *lines])


def observations(run: RecordedRun, path: str) -> str:
    """The probes of a path as JSON lines; the first ones if there are too many, and the number left out."""
    lines: list[str] = []
    size, probes = 0, run.probes[path]
    for probe in probes:
        line = json.dumps(probe._asdict(), ensure_ascii=False)
        size += len(line.encode(errors="replace")) + 1
        if size > MOST_BYTES:
            lines.append(json.dumps({"left out": len(probes) - len(lines)}))
            break
        lines.append(line)
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """Text escaped for Markdown; it may come from any server that answered."""
    return re.sub(r"([\\`*_\[\]<>|~#])", r"\\\1", text.replace("\n", " ")).encode(errors="replace").decode()
