"""Sections of the HTML report with figures and tables: evidence that belongs to no single check."""

from collections.abc import Callable

from esipp.ledger.reading import RecordedRun
from esipp.report.drawings import api, continuity, endpoint_change, health, interoperability, policy_change
from esipp.report.drawings.markup import Html, Section, attempt, joined, paragraph

__all__ = ["Section", "sections"]

PARTS = (health, endpoint_change, policy_change, continuity, api, interoperability)
"""Modules in the order of the report, each with ``ID``, ``TITLE`` and ``draw(run)``."""


def sections(run: RecordedRun) -> list[Section]:
    """The sections with evidence, in the order of the report."""
    made = []
    for part in PARTS:
        body = attempt(part.TITLE, _drawn(part.draw, run))
        if body:
            made.append(Section(f"seen-{part.ID}", part.TITLE, str(body)))
    return made


def _drawn(draw: Callable[[RecordedRun], Html], run: RecordedRun) -> Callable[[], Html]:
    def make() -> Html:
        body = draw(run)
        if not body or run.whole:
            return body
        broken = "The ledger of this run is incomplete: this section shows only the recorded part."
        return joined([paragraph(broken), body])

    return make
