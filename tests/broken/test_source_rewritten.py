"""A node that masquerades what comes from outside the pod network: Local rows of clients there must see it, alone."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from esipp.catalog import all_cells
from esipp.errors import ExitCode
from esipp.model import EntryKind, Family, Role, TrafficPolicy, Vantage
from tests.broken.nodes import Nodes

pytestmark = pytest.mark.timeout(300)  # whole runs of the suite

FAMILIES = {"iptables": Family.IPV4, "ip6tables": Family.IPV6}


def rows_that_must_notice(families: set[Family]) -> set[str]:
    """Local policy, through the endpoint's node, from clients outside the pod network."""
    return {
        cell.id
        for cell in all_cells()
        if cell.path.service
        and cell.path.service.policy is TrafficPolicy.LOCAL
        and cell.path.client.vantage is not Vantage.POD
        and (cell.path.entry.kind is EntryKind.VIP or cell.path.entry.role is Role.ENDPOINT_NODE)
        and cell.path.family in families
    }


def test_a_whole_cluster_is_green(nodes: Nodes, tmp_path: Path) -> None:
    result = nodes.qualify(tmp_path / "run")
    assert result.not_passed() == {}, result.text
    assert result.exit_code == ExitCode.CONFORMANT


@pytest.mark.parametrize("programs", [("iptables", "ip6tables"), ("ip6tables",)], ids=["both-families", "ipv6-only"])
def test_masquerading_into_the_pod_network(nodes: Nodes, programs: tuple[str, ...], tmp_path: Path) -> None:
    with ExitStack() as broken:
        for program in programs:
            cidr = nodes.pod_cidrs[program]
            rule = ("--destination", cidr, "!", "--source", cidr, "--jump", "MASQUERADE")
            broken.enter_context(nodes.rule(program, "POSTROUTING", *rule))
        result = nodes.qualify(tmp_path / "broken")
    families = {FAMILIES[program] for program in programs}
    assert result.not_passed() == dict.fromkeys(rows_that_must_notice(families), "fail"), result.text
    assert result.exit_code == ExitCode.NOT_CONFORMANT
    culprit = next(line for line in result.text.splitlines() if line.startswith("  observed"))
    assert any(f"node {name}" in culprit for name in nodes.containers), culprit
    healed = nodes.qualify(tmp_path / "healed")
    assert healed.not_passed() == {}, healed.text
