"""What reports show of changes to Services and pods: how long each stage took to show, stream by stream. Pure."""

from collections.abc import Iterator

from esipp.base.document import Block, Cell, Section, Table, Text
from esipp.judging.scenario import Sections
from esipp.judging.showing import attempted
from esipp.ledger.reading import RecordedRun
from esipp.scenarios.service_change.evidence import LEAST, ServiceChangeEvidence, Stages, steady, wanted

TITLE = "Changes of Services and pods"


def section(run: RecordedRun) -> Section:
    """The section of report.html; empty without observations."""
    return attempted("changes", TITLE, {TITLE: lambda: _blocks(run)})


def summary(run: RecordedRun) -> Section:
    """The section of the summary."""
    return Section(TITLE.lower(), tuple(_blocks(run)))


def _blocks(run: RecordedRun) -> list[Block]:
    seen = run.evidence_of(ServiceChangeEvidence) or ServiceChangeEvidence()
    rows = [(name, *row) for name, event in seen.events.items() for row in _rows(event)]
    about = "seconds until the last stream showed a change for good: it reaches the new pods, or no pod any more"
    return [Text(about), Table(("event", "the Service", "streams", "max", "never"), tuple(rows))] if rows else []


def _rows(event: Stages) -> Iterator[tuple[Cell, ...]]:
    if not event.streams:
        return
    several = {asked: event.of_stages(asked) for asked, each in event.streams.items() if len(each.samples) >= LEAST}
    for number, stage in enumerate(event.stages):
        seen = [(asked, stages[number]) for asked, stages in several.items()]
        runs = [
            steady(each, wanted(each.stage, kind))
            for (at, kind, _), each in seen
            if at not in each.stage.stuck and each.samples  # else the stream had not begun
        ]
        lags = [max(0.0, run.since - stage.accepted) for run in runs if run]
        never = sum(run is None for run in runs)
        yield stage.words, len(runs), max(lags, default=None), never or None


SECTIONS = Sections(section=section, summary=summary)
