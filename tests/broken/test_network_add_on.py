"""What must not fail: a network add-on that masquerades pods on their way out of the pod network, as kindnet does."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from esipp.errors import ExitCode
from tests.broken.nodes import Nodes

pytestmark = pytest.mark.timeout(300)

THROUGH_ANOTHER_NODE = "nodeport.local.tcp.{family}.pod-on-other-node-to-endpoint-node"


def test_masquerading_pods_towards_nodes_is_known(nodes: Nodes, tmp_path: Path) -> None:
    with ExitStack() as changed:
        for program, cidr in nodes.pod_cidrs.items():
            rule = ("--source", cidr, "!", "--destination", cidr, "--jump", "MASQUERADE")
            changed.enter_context(nodes.rule(program, "POSTROUTING", *rule))
        result = nodes.qualify(tmp_path / "run")
    known = {THROUGH_ANOTHER_NODE.format(family=family): "known" for family in ("ipv4", "ipv6")}
    assert result.not_passed() == known, result.text
    assert result.exit_code == ExitCode.CONFORMANT
