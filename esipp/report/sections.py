"""What the scenarios show of a run: evidence that belongs to no single check."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from esipp.base.document import Block, Pairs, Section, Text, plain
from esipp.judging.scenario import Scenario, Sections, scenarios
from esipp.judging.showing import attempt
from esipp.ledger.reading import RecordedRun

INCOMPLETE = Text("The ledger of this run is incomplete: this section shows only the recorded part.")


def shown_of(scenario: Scenario) -> Sections:
    """What reports show of a scenario."""
    found: Sections | None = scenario.part("sections", "SECTIONS")
    return found or Sections()


def sections(run: RecordedRun) -> list[Section]:
    """The sections of report.html, in the order of a run; none without evidence."""
    found = _of(lambda shown: shown.section(run))
    return found if run.whole else [replace(each, blocks=(INCOMPLETE, *each.blocks)) for each in found]


def summaries(run: RecordedRun) -> list[Section]:
    """The sections of the summary."""
    return _of(lambda shown: shown.summary(run))


def briefs(run: RecordedRun) -> list[Section]:
    """The sections of report.md."""
    return _of(lambda shown: shown.brief(run))


def key_figures(run: RecordedRun) -> Iterator[tuple[str, str]]:
    """The figures at the end of a run's output: each a label and words."""
    for scenario in scenarios():

        def shown(of: Scenario = scenario) -> list[Block]:
            return [Pairs.of(shown_of(of).key_figures(run))]

        for block in attempt(scenario.name, shown):
            if isinstance(block, Pairs):
                yield from ((label, plain(words)) for label, words in block.pairs)
            else:
                yield scenario.name, "the evidence is malformed"


def figures(run: RecordedRun) -> list[tuple[str, str]]:
    """The same, with one line a label: scenarios that share one have a part of its line each.

    A run with a baseline has what that one had beside it.
    """
    found: dict[str, list[str]] = {}
    for label, words in key_figures(run):
        found.setdefault(label, []).append(words)
    before = dict(figures(run.baseline)) if run.baseline else {}
    return [
        (label, "; ".join(words) + (f" [before: {before[label]}]" if label in before else ""))
        for label, words in found.items()
    ]


def _of(show: Callable[[Sections], Section | None]) -> list[Section]:
    made = []
    for scenario in scenarios():

        def shown(of: Scenario = scenario) -> Iterable[Block]:
            return filter(None, [show(shown_of(of))])

        blocks = attempt(scenario.name, shown)
        made += [each if isinstance(each, Section) else Section(scenario.name, (each,)) for each in blocks]
    return [each for each in made if each.blocks]
