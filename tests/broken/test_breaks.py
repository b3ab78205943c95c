"""Each break turns the rows red that must notice it, and no other; healed, all are as they were."""

from pathlib import Path

import pytest

from esipp.catalog import all_cells
from esipp.errors import ExitCode
from tests.broken.breaks import BREAKS, Break
from tests.broken.nodes import Nodes, Result

pytestmark = pytest.mark.timeout(600)  # whole runs of the suite


@pytest.fixture(scope="module")
def healthy(nodes: Nodes, tmp_path_factory: pytest.TempPathFactory) -> Result:
    """The cluster as it is: some rows are not supported or known to differ, none goes wrong."""
    result = nodes.qualify(tmp_path_factory.mktemp("healthy") / "run")
    assert result.worse() == {}, result.text
    assert result.exit_code == ExitCode.CONFORMANT
    return result


TABLE = [pytest.param(each, id=each.name, marks=[pytest.mark.by_hand] if each.by_hand else []) for each in BREAKS]


@pytest.mark.parametrize("broken", TABLE)
def test_the_right_rows_notice(broken: Break, healthy: Result, nodes: Nodes, tmp_path: Path) -> None:
    asked = {row for row, status in healthy.statuses.items() if status != "unsupported"}
    must = {cell.id for cell in all_cells() if cell.id in asked and broken.notices(cell)}
    with broken.apply(nodes) as placed:
        result = nodes.qualify(tmp_path / "run", broken.samples)
    assert 0 < placed.at < result.settled, "the cluster was not broken before it was observed"
    noticed = {row: status for row, status in result.statuses.items() if status != healthy.statuses[row]}
    assert {row: status for row, status in noticed.items() if row not in must} == {}, result.text
    # a datagram is not sent again: on a busy machine one misdirected answer of twenty may get lost
    spoiled = {row: status for row, status in noticed.items() if status != broken.status}
    assert all(status == "flaky" and ".udp." in row for row, status in spoiled.items()), result.text
    assert len(spoiled) <= 0.1 * len(noticed), result.text
    assert len(noticed) >= broken.share * len(must), sorted(must - noticed.keys())
    assert result.exit_code == ExitCode.NOT_CONFORMANT


@pytest.mark.by_hand
def test_healed_it_is_as_before(healthy: Result, nodes: Nodes, tmp_path: Path) -> None:
    assert nodes.qualify(tmp_path / "run").statuses == healthy.statuses
