"""Clients behind a router and behind NAT: what is run where, and what is left when it fails or a run is killed."""

import json
from types import SimpleNamespace

import pytest

from esipp.base.client_places import BEHIND_NAT, BEHIND_ROUTER, Kind, Place
from esipp.base.errors import HarnessError
from esipp.base.json import Json
from esipp.checks.model import Family
from esipp.judging.client_addresses import Finding
from esipp.probing import behind, outside
from esipp.probing.outside import OutsideContainers
from esipp.probing.vantages import Outside

FOUR = behind.Link("172.18.0.9", "172.18.0.0/16", "172.18.0.1")
SIX = behind.Link("fc00:f853::9", "fc00:f853::/64", "fc00:f853::1")
ATTACHED = {
    "IPAddress": FOUR.address, "IPPrefixLen": 16, "Gateway": FOUR.gateway,
    "GlobalIPv6Address": SIX.address, "GlobalIPv6PrefixLen": 64, "IPv6Gateway": SIX.gateway,
}  # fmt: skip


class FakeDocker:
    """Records commands; containers exist until they are removed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fails: str = "nothing") -> None:
        self.commands: list[tuple[str, ...]] = []
        self.labels: dict[str, str] = {}
        self.fails = fails
        monkeypatch.setattr(outside, "docker", self)

    def __call__(self, *words: str) -> SimpleNamespace:
        self.commands.append(words)
        container: Json = {"NetworkSettings": {"Networks": {"kind": ATTACHED}}, "Config": {"Labels": self.labels}}
        if "--label" in words:
            self.labels |= dict(each.split("=", 1) for each in words if each.startswith("esipp.dev/"))
        failed = any(self.fails in word for word in words)
        said = json.dumps([container]) if words[0] == "inspect" else ""
        return SimpleNamespace(
            returncode=int(failed), stdout=said, stderr="Operation not permitted\n" if failed else ""
        )

    def scripts(self, namespace: str) -> list[str]:
        """The scripts that ran in a network namespace."""
        return [words[-1] for words in self.commands if words[:4] == ("run", "--rm", "--network", namespace)]


def containers() -> OutsideContainers:
    return OutsideContainers("r1", "kind", "echo", "https://x", tools="node-image")


def test_the_client_behind_a_router_dials_by_the_gateway_and_is_answered_that_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    docker = FakeDocker(monkeypatch)
    made = containers()
    own = behind.own_addresses(BEHIND_ROUTER, "r1")
    assert made.start(BEHIND_ROUTER) == [own[4], own[6]]
    (inside,) = docker.scripts("container:esipp-r1-outside-routed")
    assert f"ip address add {own[4]}/32 dev lo" in inside
    assert f"ip -6 address add {own[6]}/128 dev lo nodad" in inside
    assert f"ip route replace 172.18.0.0/16 via 172.18.0.1 dev eth0 src {own[4]}" in inside
    assert f"ip -6 route replace fc00:f853::/64 via fc00:f853::1 dev eth0 src {own[6]} metric 1" in inside
    assert "iptables" not in inside
    (back,) = docker.scripts("host")
    assert back.splitlines()[1:] == [
        f"ip route add {own[4]} via 172.18.0.9 proto 198 mtu lock 1300",
        f"ip -6 route add {own[6]} via fc00:f853::9 proto 198 mtu lock 1300",
    ]
    made.remove()
    assert docker.scripts("host")[1].splitlines() == [
        f"ip route del {own[4]} proto 198 || true",
        f"ip -6 route del {own[6]} proto 198 || true",
    ]
    assert docker.commands[-1] == ("rm", "--force", "--volumes", "esipp-r1-outside-routed")


def test_the_client_behind_nat_touches_nothing_but_its_container(monkeypatch: pytest.MonkeyPatch) -> None:
    docker = FakeDocker(monkeypatch)
    made = containers()
    own = behind.own_addresses(BEHIND_NAT, "r1")
    assert made.start(BEHIND_NAT) == [FOUR.address, SIX.address], "as nodes see it"
    (inside,) = docker.scripts("container:esipp-r1-outside-nat")
    assert f"iptables --wait -t nat -A POSTROUTING --source {own[4]} --jump SNAT --to-source 172.18.0.9" in inside
    assert f"ip6tables --wait -t nat -A POSTROUTING --source {own[6]} --jump SNAT --to-source fc00:f853::9" in inside
    made.remove()
    assert docker.scripts("host") == []


def test_neighbours_of_the_nodes_need_no_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    docker = FakeDocker(monkeypatch)
    assert containers().start("outside-1") == [FOUR.address, SIX.address]
    assert [words[0] for words in docker.commands] == ["run", "inspect"]


def test_a_run_that_was_killed_leaves_what_clean_needs_to_know(monkeypatch: pytest.MonkeyPatch) -> None:
    docker = FakeDocker(monkeypatch)
    containers().start(BEHIND_ROUTER)
    outside.sweep(["esipp-r1-outside-routed"])
    assert docker.scripts("host")[-1] == behind.no_way_back(behind.own_addresses(BEHIND_ROUTER, "r1").values())


def test_a_route_that_cannot_be_removed_keeps_its_container(monkeypatch: pytest.MonkeyPatch) -> None:
    docker = FakeDocker(monkeypatch)
    containers().start(BEHIND_ROUTER)
    docker.fails = "route del"
    with pytest.raises(HarnessError, match="Cannot remove the routes to 198"):
        outside.sweep(["esipp-r1-outside-routed"])
    assert docker.commands[-1][0] != "rm", "a later clean finds it"


@pytest.mark.parametrize("fails", ["route add", "address add"])
def test_a_client_whose_network_cannot_be_set_up_is_not_believed(monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    FakeDocker(monkeypatch, fails)
    made = containers()
    made.start(BEHIND_ROUTER)
    clients = Outside((Place(Kind.DOCKER, "kind"),), made, {})
    found = clients.learn([BEHIND_ROUTER, "outside-1"], {Family.IPV4: {"a": ("192.0.2.1", 1)}}, lambda address: "")
    assert [(each.client, each.finding) for each in found] == [(BEHIND_ROUTER, Finding.UNPROVEN)]
    assert found[0].said == "the network of outside-routed could not be set up: Operation not permitted"


def test_the_addresses_are_nobody_s_and_differ_between_runs() -> None:
    made = [
        behind.own_addresses(client, run)
        for client in behind.RANGES
        for run in ("1123-232713-2095", "1123-232713-2096")
    ]
    for version in (4, 6):
        assert len({each[version] for each in made}) == len(made)
    assert {each[4][:7] for each in made} == {"198.18.", "198.19."}
