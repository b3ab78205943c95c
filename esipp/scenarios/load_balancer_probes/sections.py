"""The section on health checks of load balancers: what packets show beside what the profile says."""

from collections import Counter
from collections.abc import Iterator

from esipp.base.document import Block, Section, Table
from esipp.judging.scenario import Sections
from esipp.judging.showing import attempted
from esipp.ledger.reading import RecordedRun
from esipp.scenarios.load_balancer_probes.evidence import Figures, ProbeEvidence
from esipp.scenarios.load_balancer_probes.judge import shown
from esipp.scenarios.load_balancer_probes.subject import What

ID = "load-balancer-probes"
TITLE = "Load balancers and their profiles"
HEAD = ("load balancer", "policy", "figure", "profiles say", "packets show")


def section(run: RecordedRun) -> Section:
    """The section; empty if nothing was observed."""
    found = run.evidence_of(ProbeEvidence)
    if found is None or not found.observed:
        return Section(TITLE)
    return attempted(ID, TITLE, {"What packets show": lambda: list(_tables(found))})


def _tables(found: ProbeEvidence) -> Iterator[Block]:
    rows = []
    for key, observed in found.observed.items():
        for what in What:
            said = Counter(_said(each, what) for each in found.figures.get(key, ()))
            packets = observed.obstacle or shown(what, observed)
            rows.append((key[0].value, key[1].value, what.value, "; ".join(said) or "-", packets))
    yield Table.of(HEAD, rows)


def _said(figures: Figures, what: What) -> str:
    """What a profile says of a figure, with the profile's name."""
    values = {
        What.PORT: figures.target.words if figures.target else "off by default",
        What.PATH: figures.path or "-",
        What.SOURCE: ", ".join(figures.sources) or "in words only",
        What.PERIOD: f"{figures.period:g} s" if figures.period else "-",
        What.DESTINATION: figures.destination.value,
    }
    return f"{values[what]} ({figures.profile})"


SECTIONS = Sections(section=section)
