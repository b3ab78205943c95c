"""What must not fail: a network add-on that masquerades pods on their way out of the pod network, as kindnet does."""

from pathlib import Path

import pytest

from esipp.catalog import all_cells
from esipp.errors import ExitCode
from esipp.model import AddressClass, Backends, EntryKind, Role, Vantage
from tests.broken.nodes import Nodes, Rule

pytestmark = [pytest.mark.timeout(600), pytest.mark.by_hand]

CLIENT = frozenset({AddressClass.CLIENT})


def rows_that_know() -> set[str]:
    """Pods whose packets go to another node's own address, dialled or a backend's, with their source to be kept."""
    node_ports = (EntryKind.NODE_PORT, EntryKind.SECOND_ADDRESS)
    return {
        cell.id
        for cell in all_cells()
        if cell.accept == CLIENT
        and cell.path.client.vantage is Vantage.POD
        and cell.path.client.role is Role.OTHER_NODE
        and (
            (cell.path.entry.kind in node_ports and cell.path.entry.role is Role.ENDPOINT_NODE)
            or (cell.path.service is not None and cell.path.service.backends is Backends.HOST_NETWORK)
        )
    }


def test_masquerading_pods_towards_nodes_is_known(nodes: Nodes, tmp_path: Path) -> None:
    out = [
        Rule(family, "POSTROUTING", ("--source", cidr, "!", "--destination", cidr, "--jump", "MASQUERADE"))
        for family, cidr in nodes.pod_cidrs.items()
    ]
    with nodes.rules(*out):
        result = nodes.qualify(tmp_path / "run")
    assert result.worse() == {}, result.text
    known = {row for row, status in result.statuses.items() if status == "known"}
    assert known == rows_that_know(), result.text
    assert result.exit_code == ExitCode.CONFORMANT
