"""The sections of a run's scenarios: evidence that belongs to no single check."""

from esipp.base.document import Section, Text
from esipp.judging.scenario import Scenario, scenarios
from esipp.judging.showing import attempt
from esipp.ledger.reading import RecordedRun

INCOMPLETE = "The ledger of this run is incomplete: this section shows only the recorded part."


def sections(run: RecordedRun) -> list[Section]:
    """The sections with evidence, in the order of a run."""
    return [section for scenario in scenarios() if (section := _section(scenario, run)).blocks]


def _section(scenario: Scenario, run: RecordedRun) -> Section:
    found = attempt(scenario.name, lambda: filter(None, [scenario.section(run)]))
    blocks = found[0].blocks if found and isinstance(found[0], Section) else tuple(found)
    section = found[0] if found and isinstance(found[0], Section) else Section(scenario.name, blocks)
    if not blocks or run.whole:
        return section
    return Section(section.title, (Text(INCOMPLETE), *blocks), section.id)
