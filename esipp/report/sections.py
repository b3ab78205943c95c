"""What the scenarios show of a run: evidence that belongs to no single check."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from esipp.base.document import Pairs, Section, Text, plain
from esipp.judging.scenario import Scenario, scenarios
from esipp.judging.showing import attempt
from esipp.ledger.reading import RecordedRun

INCOMPLETE = Text("The ledger of this run is incomplete: this section shows only the recorded part.")


def sections(run: RecordedRun) -> list[Section]:
    """The sections of report.html, in the order of a run; none without evidence."""
    found = _of(lambda scenario: scenario.section(run))
    return found if run.whole else [replace(each, blocks=(INCOMPLETE, *each.blocks)) for each in found]


def summaries(run: RecordedRun) -> list[Section]:
    """The sections of the summary."""
    return _of(lambda scenario: scenario.summary(run))


def briefs(run: RecordedRun) -> list[Section]:
    """The sections of report.md."""
    return _of(lambda scenario: scenario.brief(run))


def key_figures(run: RecordedRun) -> Iterator[tuple[str, str]]:
    """The figures at the end of a run's output: each a label and words."""
    for scenario in scenarios():
        for block in attempt(scenario.name, lambda s=scenario: [Pairs.of(s.key_figures(run))]):  # type: ignore[misc]  # mypy infers no type of a lambda with a default
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


def _of(show: Callable[[Scenario], Section | None]) -> list[Section]:
    made = []
    for scenario in scenarios():
        blocks = attempt(scenario.name, lambda scenario=scenario: filter(None, [show(scenario)]))  # type: ignore[misc]  # mypy infers no type of a lambda with a default
        made += [each if isinstance(each, Section) else Section(scenario.name, (each,)) for each in blocks]
    return [each for each in made if each.blocks]
