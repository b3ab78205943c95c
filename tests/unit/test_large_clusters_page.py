"""The figures of docs/large-clusters.md are those of the code, and what was measured is as it tells."""

from ci import records
from esipp.checks.catalog import HOUSE
from esipp.ledger.run import DEFAULT_NODES
from esipp.scenarios.endpoint_change import other_nodes as everywhere
from esipp.scenarios.endpoint_change.run import MOST_NODES
from esipp.testbed.sampling import MOST_NODES as MOST_AGENTS
from tests.large.page import MEASURED, table

FOUND = records.read(MEASURED)


def test_calls_do_not_follow_the_number_of_nodes() -> None:
    """What was kept is held to what the page says of it: a page of pods more, and one wait more or less."""
    calls = [sum(each["calls"].values()) for each in FOUND]
    assert FOUND[-1]["nodes"] == 30 * FOUND[0]["nodes"]
    assert max(calls) - min(calls) <= 3
    assert {each["calls_while_polling"] for each in FOUND} == {0}
    assert [each["followed"] for each in FOUND] == [each["nodes"] for each in FOUND]


def test_a_line_a_size() -> None:
    assert [line.split(" | ")[0] for line in table(FOUND)[2:]] == [f"| {each['nodes']}" for each in FOUND]


def test_its_figures_are_the_codes() -> None:
    text = " ".join((HOUSE / "docs" / "large-clusters.md").read_text().split())
    assert (DEFAULT_NODES, MOST_NODES) == (10, 6)
    assert "is ten nodes" in text
    assert "every 20 ms | six:" in text
    assert f"`--sample-nodes N` (3 to {MOST_AGENTS})" in text
    assert f"probes at most {everywhere.MOST_A_SECOND:.0f} nodes per second" in text
    assert "each round of five health checks" in text
    assert (everywhere.PROBES, everywhere.SPACING) == (5, 1.0)
