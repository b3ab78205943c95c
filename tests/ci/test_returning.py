"""How nodes answer by way of a load balancer that translates."""

import json

import pytest

from ci import loadbalancer, returning
from tests.ci.test_load_balancer import there


@pytest.mark.parametrize(
    ("balancer", "program", "ip"), [("172.18.0.6", "iptables", "ip -4"), ("fc00::6", "ip6tables", "ip -6")]
)
def test_what_came_from_it_for_the_node_itself_is_answered_by_way_of_it(balancer: str, program: str, ip: str) -> None:
    said = returning.script(balancer, "02:65:73:69:70:70")
    assert "--mac-source 02:65:73:69:70:70 --match addrtype --dst-type LOCAL" in said, "not what goes on unchanged"
    assert said.count("--ctdir REPLY") == 2
    assert f"{program}-restore" in said
    assert f"{ip} route replace default via {balancer} dev eth0 table 3665" in said
    assert said.index("--ctdir") > said.index("rule del"), "what was there goes first"


def test_the_marks_are_none_of_kube_proxys() -> None:
    mark, mask = (int(each, 16) for each in returning.MARK.split("/"))
    assert mark & 0xC000 == 0
    assert mark == mask


@pytest.mark.parametrize(("options", "given"), [(["--default", "reference-nat"], True), ([], False)])
def test_nodes_are_reported_only_where_it_translates(
    monkeypatch: pytest.MonkeyPatch, options: list[str], *, given: bool
) -> None:
    ran: list[str] = []
    container = {"Config": {"Labels": {}}, "State": {"Running": True}}
    container |= {"NetworkSettings": {"Networks": {"kind": {"IPAddress": "172.18.0.6", "GlobalIPv6Address": ""}}}}
    for module in (loadbalancer, returning):
        monkeypatch.setattr(module, "docker", lambda _, *words: ran.append(" ".join(words)) or "ready: 3 nodes")
    loadbalancer.run(there(container=container), "lb:1", own=options)
    scripts = [each for each in ran if each.startswith("exec one sh -c")]
    assert bool(scripts) is given
    assert all("172.18.0.6" in each for each in scripts)
    assert json.dumps(options) in " ".join(ran)
