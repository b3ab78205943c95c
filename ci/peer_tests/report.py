"""A reader of upstream's report: result, time and failure of each chosen spec."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ci.peer_tests.specs import spec_of
from esipp.base.json import Json

WHERE = Path("ginkgo") / "report.json"
"""In the folder that --report-dir names."""

LONGEST_WHY = 240


class Outcome(StrEnum):
    """The result of a spec."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"  # by itself, with a reason
    TIMED_OUT = "timed out"  # still waiting when the time limit of the run expired
    MISSING = "missing"  # it was asked for and is not in the report, or was never begun


OUTCOMES = {
    "passed": Outcome.PASSED,
    "failed": Outcome.FAILED,
    "panicked": Outcome.FAILED,
    "aborted": Outcome.FAILED,
    "skipped": Outcome.SKIPPED,
    "timedout": Outcome.TIMED_OUT,
    "interrupted": Outcome.TIMED_OUT,
}
"""Outcomes by ginkgo's states; a pending spec counts as missing."""

BAD = frozenset({Outcome.FAILED, Outcome.TIMED_OUT})


@dataclass(frozen=True)
class SpecResult:
    """The result of one spec.

    Args:
        name: as in the table of specs.
        outcome: what became of it.
        seconds: that it took, with making and removing what it needs.
        why: the message of a failure or the reason of a skip, on one line; empty for one that passed.
    """

    name: str
    outcome: Outcome
    seconds: float = 0.0
    why: str = ""

    @property
    def bad(self) -> bool:
        """Whether the spec is red."""
        return self.outcome in BAD


def read(folder: Path, wanted: list[str]) -> list[SpecResult]:
    """Return the results of the chosen specs, in their order.

    Args:
        folder: the folder of --report-dir.
        wanted: names of specs.

    Raises:
        OSError: there is no report, as the runner ended too early.
        ValueError: the file is not a ginkgo report.
    """
    suites = json.loads((folder / WHERE).read_text(encoding="utf-8"))
    if not isinstance(suites, list):
        raise ValueError(f"{folder / WHERE} is not a ginkgo report.")
    found = {result.name: result for suite in suites for result in _of(suite)}
    return [found.get(name, SpecResult(name, Outcome.MISSING)) for name in wanted]


def _of(suite: Json) -> Iterator[SpecResult]:
    for document in suite.get("SpecReports") or []:
        if document.get("LeafNodeType") != "It":
            continue
        spec = spec_of(" ".join([*(document.get("ContainerHierarchyTexts") or []), document["LeafNodeText"]]))
        if spec is None:
            continue
        outcome, why = OUTCOMES.get(document["State"], Outcome.MISSING), brief(_message(document))
        if outcome is Outcome.SKIPPED and not why:
            outcome = Outcome.MISSING  # ginkgo says skipped of all that was not selected, or not begun in time
        yield SpecResult(spec.name, outcome, round(document.get("RunTime", 0) / 1e9, 1), why)


def _message(document: Json) -> str:
    """The failure's message; after a timeout, the step of the spec."""
    message = str((document.get("Failure") or {}).get("Message") or "")
    if document["State"] in ("timedout", "interrupted"):
        steps = [event["Message"] for event in document.get("SpecEvents") or [] if event.get("SpecEventType") == "By"]
        return f"at: {steps[-1]}" if steps else message
    return message


def brief(message: str) -> str:
    """The message on one line, shortened, without parts that differ between runs."""
    line = " ".join(message.split())
    line = re.sub(r"\b([a-z-]+)-\d{3,}\b", r"\1-…", line)  # namespaces
    return line if len(line) <= LONGEST_WHY else line[: LONGEST_WHY - 1].rstrip() + "…"
