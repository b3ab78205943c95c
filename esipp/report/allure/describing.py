"""A check in Allure: labels, links, parameters, description, evidence. The same during a run and after it."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import allure
import allure_commons
import pytest
from allure_commons.types import AttachmentType, ParameterMode

from esipp.checks.check import Level, Status
from esipp.checks.observation import Verdict
from esipp.checks.reference import titles
from esipp.ledger.reading import RecordedRun
from esipp.ledger.recorded_checks import RecordedCheck
from esipp.report.allure.links import links

SEVERITIES = {
    Level.CORE: allure.severity_level.CRITICAL,
    Level.EXTENDED: allure.severity_level.NORMAL,
    Level.RECORD: allure.severity_level.TRIVIAL,
}

MOST_BYTES = 64 * 1024
"""The size of the observations that are attached to a check, at most; the ledger has them all."""

KINDS = {".pcap": AttachmentType.PCAP, ".json": AttachmentType.JSON}
TOLD_ALREADY = ("verdict.json", "observations.jsonl")
"""Files of a check that say what its other attachments say."""


@dataclass(frozen=True)
class Word:
    """A parameter that is shown as it is: the plugin shows a parameter's repr, and strings would stand in quotes."""

    text: str

    def __repr__(self) -> str:
        return self.text


class Describer:
    """Hooks of pytest and of allure-pytest alike, that describe each check as its test goes on.

    What differs between a run and its replay is asked of the four methods below.
    """

    def __init__(self) -> None:
        self._now: Verdict | None = None

    def check(self, item: pytest.Item) -> RecordedCheck | None:
        """The check that a test stands for; None for any other test."""
        raise NotImplementedError

    def verdict(self, check: RecordedCheck) -> Verdict | None:
        """What was said of it, as far as is known."""
        raise NotImplementedError

    def recorded(self, check: RecordedCheck) -> RecordedRun:
        """The run as its ledger tells it, at least as far as this check needs it."""
        raise NotImplementedError

    def finish(self, result: Any) -> None:
        """The last word on a result, before it is written."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Say what is asked; it is said of checks that no verdict is made of, too."""
        self._now = None
        if check := self.check(item):
            begin(check)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """Say what was seen."""
        check = self.check(item)
        if check and (verdict := self.verdict(check)):
            self._now = verdict
            complete(check, verdict, self.recorded(check))

    @allure_commons.hookimpl(tryfirst=True)
    def report_result(self, result: Any) -> None:
        """Before a result is written: say what allure-pytest has no word for, and nothing of this machine."""
        result.labels[:] = [each for each in result.labels if each.name not in ("host", "thread")]
        if self._now is not None and result.statusDetails is not None:
            result.statusDetails.trace = None  # it would show where our own code stands
            result.statusDetails.flaky = True if self._now.status is Status.FLAKY else None
            result.statusDetails.known = True if self._now.status is Status.KNOWN else None
        self.finish(result)


def begin(check: RecordedCheck) -> None:
    """Labels, links and parameters of the test that is being set up."""
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
    # only the id makes the history: a check whose words were improved is still the same one
    say.parameter("row", Word(check.id), mode=ParameterMode.HIDDEN)
    say.parameter("check", Word(check.id), excluded=True, mode=ParameterMode.HIDDEN)
    for name, value in _parameters(check):
        say.parameter(name, Word(value), excluded=True)


def story_of(check: RecordedCheck) -> str:
    """The policy of a path's Service; of another check, the group that its id names."""
    if check.place is None:
        return ".".join(check.id.split(".")[:2])
    external, internal = check.data.get("policy"), check.data.get("internal_policy")
    told = [f"externalTrafficPolicy {external}"] * bool(external) + [f"internalTrafficPolicy {internal}"] * bool(
        internal
    )
    return ", ".join(told) or "no policy"


def _parameters(check: RecordedCheck) -> Iterator[tuple[str, str]]:
    yield "level", check.level.value
    if check.place:
        yield "service", check.place.service
        yield "entry", check.place.entry or str(check.data.get("entry", ""))
        yield "client", check.place.client
        yield "protocol", check.place.protocol
        yield "family", check.place.family


def complete(check: RecordedCheck, verdict: Verdict, run: RecordedRun) -> None:
    """Title, description and evidence of the test that is being torn down."""
    allure.dynamic.title(check.id)
    allure.dynamic.description(description(check, verdict))
    text = json.dumps(verdict.as_json(), indent=1, ensure_ascii=False)
    allure.attach(text, name="verdict.json", attachment_type=AttachmentType.JSON)
    if check.path in run.probes:
        allure.attach(observations(run, check.path), name="observations.jsonl", attachment_type=AttachmentType.TEXT)
    if words := "\n".join(each.words for each in run.witnesses.get(check.path, []) if each.words):
        allure.attach(words[:MOST_BYTES], name="packets.txt", attachment_type=AttachmentType.TEXT)
    for file in run.files(check.id):
        if file.name not in TOLD_ALREADY:
            kind = KINDS.get(file.suffix, AttachmentType.TEXT)
            allure.attach.file(str(run.folder / file), name=str(file), attachment_type=kind)


def description(check: RecordedCheck, verdict: Verdict) -> str:
    """What is required, expected and seen, in Markdown."""
    told = {
        "expected": verdict.expected,
        "observed": verdict.observed,
        "reason": verdict.reason,
        "known difference": titles(verdict.references),
        "packets": verdict.change,
        "source ports": verdict.ports,
        "rests on": verdict.witnesses,
        "likely": verdict.likely,
        "asked": check.asked,
        "fails if": check.fails_if,
        "because": titles(check.references),
    }
    lines = [f"- **{label}**: {_plain(text)}" for label, text in told.items() if text]
    return "\n".join([_plain(check.requirement), "", *lines])


def observations(run: RecordedRun, path: str) -> str:
    """The probes of a path as JSON lines; of too many, the first ones, and how many are left out."""
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
    """Text that Markdown shows as it is; it may come from whatever answered."""
    return re.sub(r"([\\`*_\[\]<>|~#])", r"\\\1", text.replace("\n", " ")).encode(errors="replace").decode()
