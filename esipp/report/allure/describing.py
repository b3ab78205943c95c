"""What Allure shows of a row: labels, links, parameters, description, evidence. The same during a run and after it."""

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
from esipp.ledger.recorded_checks import ToldRow
from esipp.report.allure.links import links

SEVERITIES = {
    Level.CORE: allure.severity_level.CRITICAL,
    Level.EXTENDED: allure.severity_level.NORMAL,
    Level.RECORD: allure.severity_level.TRIVIAL,
}

MOST_BYTES = 64 * 1024
"""The size of the observations that are attached to a row, at most; the ledger has them all."""

KINDS = {".pcap": AttachmentType.PCAP, ".json": AttachmentType.JSON}
TOLD_ALREADY = ("verdict.json", "observations.jsonl")
"""Files of a row that say what its other attachments say."""


@dataclass(frozen=True)
class Word:
    """A parameter that is shown as it is: the plugin shows a parameter's repr, and strings would stand in quotes."""

    text: str

    def __repr__(self) -> str:
        return self.text


class Describer:
    """Hooks of pytest and of allure-pytest alike, that describe each row as its test goes on.

    What differs between a run and its replay is asked of the four methods below.
    """

    def __init__(self) -> None:
        self._now: Verdict | None = None

    def row(self, item: pytest.Item) -> ToldRow | None:
        """The row that a test stands for; None for any other test."""
        raise NotImplementedError

    def verdict(self, row: ToldRow) -> Verdict | None:
        """What was said of it, as far as is known."""
        raise NotImplementedError

    def recorded(self, row: ToldRow) -> RecordedRun:
        """The run as its ledger tells it, at least as far as this row needs it."""
        raise NotImplementedError

    def finish(self, result: Any) -> None:
        """The last word on a result, before it is written."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Say what is asked; it is said of rows that no verdict is made of, too."""
        self._now = None
        if row := self.row(item):
            begin(row)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """Say what was seen."""
        row = self.row(item)
        if row and (verdict := self.verdict(row)):
            self._now = verdict
            complete(row, verdict, self.recorded(row))

    @allure_commons.hookimpl(tryfirst=True)
    def report_result(self, result: Any) -> None:
        """Before a result is written: say what allure-pytest has no word for, and nothing of this machine."""
        result.labels[:] = [each for each in result.labels if each.name not in ("host", "thread")]
        if self._now is not None and result.statusDetails is not None:
            result.statusDetails.trace = None  # it would show where our own code stands
            result.statusDetails.flaky = True if self._now.status is Status.FLAKY else None
            result.statusDetails.known = True if self._now.status is Status.KNOWN else None
        self.finish(result)


def begin(row: ToldRow) -> None:
    """Labels, links and parameters of the test that is being set up."""
    say, story = allure.dynamic, story_of(row)
    say.epic(row.profile)
    say.feature(row.suite)
    say.story(story)
    say.severity(SEVERITIES[row.level])
    say.parent_suite(row.suite)
    say.suite(row.profile)
    say.sub_suite(row.way_in if row.place else story)
    say.tag(row.level.value)
    for kind, address, name in links(row.references):
        say.link(address, link_type=kind, name=name)
    # only the id makes the history: a row whose words were improved is still the same one
    say.parameter("row", Word(row.id), mode=ParameterMode.HIDDEN)
    say.parameter("cell", Word(row.id), excluded=True, mode=ParameterMode.HIDDEN)
    for name, value in _parameters(row):
        say.parameter(name, Word(value), excluded=True)


def story_of(row: ToldRow) -> str:
    """The policy of a path's Service; of another row, the group that its id names."""
    if row.place is None:
        return ".".join(row.id.split(".")[:2])
    external, internal = row.data.get("policy"), row.data.get("internal_policy")
    told = [f"externalTrafficPolicy {external}"] * bool(external) + [f"internalTrafficPolicy {internal}"] * bool(
        internal
    )
    return ", ".join(told) or "no policy"


def _parameters(row: ToldRow) -> Iterator[tuple[str, str]]:
    yield "level", row.level.value
    if row.place:
        yield "service", row.place.service
        yield "entry", row.place.entry or str(row.data.get("entry", ""))
        yield "client", row.place.client
        yield "protocol", row.place.protocol
        yield "family", row.place.family


def complete(row: ToldRow, verdict: Verdict, run: RecordedRun) -> None:
    """Title, description and evidence of the test that is being torn down."""
    allure.dynamic.title(row.id)
    allure.dynamic.description(description(row, verdict))
    text = json.dumps(verdict.as_json(), indent=1, ensure_ascii=False)
    allure.attach(text, name="verdict.json", attachment_type=AttachmentType.JSON)
    if row.path in run.probes:
        allure.attach(observations(run, row.path), name="observations.jsonl", attachment_type=AttachmentType.TEXT)
    if words := "\n".join(each.words for each in run.witnesses.get(row.path, []) if each.words):
        allure.attach(words[:MOST_BYTES], name="packets.txt", attachment_type=AttachmentType.TEXT)
    for file in run.files(row.id):
        if file.name not in TOLD_ALREADY:
            kind = KINDS.get(file.suffix, AttachmentType.TEXT)
            allure.attach.file(str(run.folder / file), name=str(file), attachment_type=kind)


def description(row: ToldRow, verdict: Verdict) -> str:
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
        "asked": row.asked,
        "fails if": row.fails_if,
        "because": titles(row.references),
    }
    lines = [f"- **{label}**: {_plain(text)}" for label, text in told.items() if text]
    return "\n".join([_plain(row.requirement), "", *lines])


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
