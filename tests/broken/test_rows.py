"""Each way in which a cluster is broken turns the rows red that must notice it, and no other."""

from pathlib import Path

import pytest

from esipp.catalog import all_rows
from esipp.errors import ExitCode
from tests.broken.health import HEALTH_BREAKS
from tests.broken.nodes import Nodes, Result
from tests.broken.rowbreaks import RowBreak

pytestmark = pytest.mark.timeout(600)  # whole runs of the suite

BREAKS = HEALTH_BREAKS
TABLE = [pytest.param(each, id=each.name, marks=[pytest.mark.by_hand] if each.by_hand else []) for each in BREAKS]


@pytest.fixture(scope="module")
def healthy(request: pytest.FixtureRequest, nodes: Nodes, tmp_path_factory: pytest.TempPathFactory) -> Result:
    """The cluster as it is, where any of the breaks that are tried now will look: nothing goes wrong."""
    params = [item.callspec.params.get("broken") for item in request.session.items if hasattr(item, "callspec")]
    tried = [each for each in params if isinstance(each, RowBreak)]
    result = nodes.qualify(
        tmp_path_factory.mktemp("healthy") / "run",
        suites=sorted({each.suite for each in tried}),
        rows=sorted({part for each in tried for part in each.rows}),
        binding="extended",
    )
    assert result.worse() == {}, result.text
    assert result.exit_code == ExitCode.CONFORMANT
    return result


@pytest.mark.parametrize("broken", TABLE)
def test_the_right_rows_notice(broken: RowBreak, healthy: Result, nodes: Nodes, tmp_path: Path) -> None:
    with broken.apply(nodes) as placed:
        result = nodes.qualify(tmp_path / "run", suites=[broken.suite], rows=broken.rows, binding="extended")
    assert placed.at > 0, "the cluster was never broken"
    assert not broken.at_once or placed.at < result.settled, "the cluster was not broken before it was observed"
    expected = {name: healthy.statuses[name] for name in result.statuses}
    asked = [row for row in all_rows() if expected.get(row.id, "unsupported") != "unsupported"]
    expected |= {row.id: "inconclusive" for row in asked if broken.opens(row)}
    expected |= {row.id: "fail" for row in asked if broken.notices(row)}
    said = {name: "fail" if status == "flaky" else status for name, status in result.statuses.items()}
    told = {name: (said[name], expected[name]) for name in said if said[name] != expected[name]}
    assert told == {}, f"{result.text}\n(said, expected): {told}"
    assert "fail" in expected.values()
    assert result.exit_code == ExitCode.NOT_CONFORMANT
