"""Who may use the VIPs: on a cloud the run's own clients, on kind everybody, and whom the user names."""

import re
from collections.abc import Mapping
from typing import Any

import pytest

from esipp.base.errors import PreflightError
from esipp.base.json import Json
from esipp.checks.model import Family
from esipp.judging.topology import Node, Pod
from esipp.ledger.run import Settings
from esipp.testbed.sampling import sample
from esipp.testbed.source_ranges import NOBODY_THERE, SourceRanges, decide, is_open, limit, read
from tests.unit import objects_world as world

BOTH = (Family.IPV4, Family.IPV6)


@pytest.mark.parametrize(
    ("text", "provider", "clients"),
    [
        ("auto", "kind", False), ("auto", "aws", True), ("auto", "2 x kind; 1 x none", True), ("auto", "none", True),
        ("off", "aws", False), ("clients", "kind", True),
    ],
)  # fmt: skip
def test_where_they_are_set(text: str, provider: str, clients: bool) -> None:
    found = decide(text, {"provider": provider})
    assert (found.clients, found.given, found.wanted) == (clients, (), clients)
    assert text in found.why


def test_a_cluster_of_an_unknown_provider_is_closed() -> None:
    assert decide("auto", {}).wanted


def test_the_users_ranges_go_before() -> None:
    found = decide("198.51.100.7/24, 2001:db8:1::/48", {"provider": "kind"})
    assert found.wanted
    assert found.of(["192.0.2.1"], BOTH) == ("198.51.100.0/24", "2001:db8:1::/48")


@pytest.mark.parametrize("text", ["", "all", "300.1.1.1/8", "192.0.2.0/33", "192.0.2.0/24,"])
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(PreflightError, match="--source-ranges") as refused:
        read(text)
    assert "clients" in refused.value.hint


@pytest.mark.parametrize(
    ("addresses", "families", "ranges"),
    [
        (["192.0.2.9", "2001:db8::9"], BOTH, ("192.0.2.9/32", "2001:db8::9/128")),
        (["192.0.2.9", "192.0.2.9", "192.0.2.8"], BOTH[:1], ("192.0.2.8/32", "192.0.2.9/32")),
        (["fe80::1%eth0", "127.0.0.1", "::1"], BOTH[1:], ("fe80::1/128",)),
        (["192.0.2.9"], BOTH, ("192.0.2.9/32", NOBODY_THERE[Family.IPV6])),
        ([], BOTH, tuple(NOBODY_THERE.values())),
    ],
)
def test_no_family_is_left_open(addresses: list[str], families: tuple[Family, ...], ranges: tuple[str, ...]) -> None:
    assert SourceRanges(clients=True).of(addresses, families) == ranges


def test_only_services_that_are_served_and_open_are_limited() -> None:
    services = world.services()
    limited = {name: limit(each, ("192.0.2.9/32",)) for name, each in services.items()}
    ranges = {name: each["spec"].get("loadBalancerSourceRanges") for name, each in limited.items()}
    served = {name for name, each in services.items() if is_open(each)}
    assert {"moves-default", "continuity-default-local", "loadbalancer-local-tcp"} <= served, sorted(served)
    for name, each in services.items():
        own = each["spec"].get("loadBalancerSourceRanges")
        assert ranges[name] == (["192.0.2.9/32"] if name in served else own)
        if name not in served:
            nobody = each["spec"].get("loadBalancerClass") == "esipp.dev/nobody"
            assert own or nobody or each["spec"]["type"] != "LoadBalancer"


def admitted(testbed: Any) -> tuple[str, ...]:
    found: tuple[str, ...] = testbed._admitted()
    return found


def test_those_who_are_admitted() -> None:
    testbed = world.made_testbed(raw=False, ranges=SourceRanges(clients=True))
    testbed.pods = {"client": Pod("client", "node", {Family.IPV4: "10.244.9.9", Family.IPV6: "fd00:10::9"})}
    found = admitted(testbed)
    nodes = [str(address) for node in world.NODES.values() for address in node.internal.values()]
    wanted = ["10.244.9.9", "fd00:10::9", "192.0.2.11", "2001:db8::12", *nodes]
    assert {f"{each}/{128 if ':' in each else 32}" for each in wanted} <= set(found)
    assert not any(re.search(r"/(0|8|16|24|64)$", each) for each in found)


def test_of_a_large_cluster_those_are_admitted_where_we_stand_and_no_others() -> None:
    """Clouds bound the list, and nobody of ours dials from any other node."""
    testbed = world.made_testbed(raw=False, ranges=SourceRanges(clients=True))
    more = {f"z{n:03}": Node(f"z{n:03}", {Family.IPV4: f"198.51.100.{n}"}, frozenset()) for n in range(200)}
    testbed.nodes = {**world.NODES, **more}
    chosen = sample(testbed.nodes.values(), testbed.roles, seed=1)
    testbed.sampled = chosen.nodes
    assert chosen.partial
    found = [each for each in admitted(testbed) if each.startswith("198.51.100.")]
    assert sorted(found) == sorted(f"{more[name].internal[Family.IPV4]}/32" for name in chosen.nodes if name in more)


class Recording:
    """An API server that takes everything, and keeps the order."""

    def __init__(self) -> None:
        self.made: list[Json] = []

    def create(self, collection: str, manifest: Json) -> Json:
        self.made.append(manifest)
        return manifest

    def list(self, collection: str, **_: str) -> list[Json]:
        assert collection == "/api/v1/namespaces", "other runs are looked for"
        return []

    def request(self, _method: str, _path: str, *, query: Mapping[str, str], body: Json) -> Json:
        assert query == {"dryRun": "All"}, "nothing else than what is tried passes here"
        return body


def arranged(
    monkeypatch: pytest.MonkeyPatch,
    ranges: SourceRanges,
    learn: Any = None,
    pull_secret: Json | None = None,
    placed: Any = None,
) -> tuple[list[Json], Any]:
    """What is created, in its order, where pods have addresses once they are waited for."""
    testbed: Any = world.made_testbed(raw=False, ranges=ranges)
    testbed.cluster, testbed.learn, testbed.pull_secret = Recording(), learn, pull_secret
    testbed.placed = placed
    asked, paths = world.checks(sctp=True)
    monkeypatch.setattr("esipp.testbed.testbed.wait_for_account", lambda *_: None)
    monkeypatch.setattr("esipp.testbed.testbed.network_policies.lift", lambda *_: [])
    for name in ("_wait_for_services", "_keep_identities", "_read_listeners"):
        monkeypatch.setattr(type(testbed), name, lambda *_: None)

    def wait(self: Any, _: set[str]) -> None:
        self.pods = {"backend": Pod("backend", "node", {Family.IPV4: "10.244.9.9"})}

    monkeypatch.setattr(type(testbed), "_wait_for_pods", wait)
    testbed.set_up(paths, world.props_of(asked))
    return testbed.cluster.made, testbed


@pytest.mark.parametrize("clients", [True, False])
def test_open_services_are_created_once_the_pods_addresses_are_known(
    monkeypatch: pytest.MonkeyPatch, clients: bool
) -> None:
    made, testbed = arranged(monkeypatch, SourceRanges(clients=clients))
    services: Mapping[str, Json] = {each["metadata"]["name"]: each for each in made if each["kind"] == "Service"}
    plain = world.services()
    assert set(services) == set(plain), "each is created, once"
    assert sum(each["kind"] == "Service" for each in made) == len(services)
    for name, each in services.items():
        wanted = limit(plain[name], testbed.admitted) if clients else plain[name]
        assert each == wanted
    assert bool(testbed.admitted) == clients
    assert ("10.244.9.9/32" in testbed.admitted) == clients


def test_services_are_created_once_the_outside_clients_have_their_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    before: list[Json] = []
    here: list[Any] = []
    create = Recording.create

    def keep(cluster: Recording, collection: str, manifest: Json) -> Json:
        here.append(cluster)
        return create(cluster, collection, manifest)

    def placed() -> Mapping[str, list[str]]:
        before.extend(each for each in here[0].made if each["kind"] == "Service")
        return {"outside-1": ["198.51.100.1"], "outside-2": []}

    monkeypatch.setattr(Recording, "create", keep)
    made, testbed = arranged(monkeypatch, SourceRanges(clients=True), placed=placed)
    assert not before
    services = {each["metadata"]["name"]: each for each in made if each["kind"] == "Service"}
    naming = [name for name, each in world.services().items() if "loadBalancerSourceRanges" in each["spec"]]
    assert naming
    for name in naming:
        assert services[name]["spec"]["loadBalancerSourceRanges"] == ["198.51.100.1/32", NOBODY_THERE[Family.IPV6]]
    assert "198.51.100.1/32" in testbed.admitted


@pytest.mark.parametrize("clients", [True, False])
def test_services_that_name_a_client_wait_until_its_address_is_learnt(
    monkeypatch: pytest.MonkeyPatch, clients: bool
) -> None:
    before: list[str] = []

    def learn(testbed: Any) -> Mapping[str, list[str]]:
        assert testbed.pods, "the listeners' pods stand by now"
        before.extend(each["metadata"]["name"] for each in testbed.cluster.made if each["kind"] == "Service")
        return {"outside-1": ["198.51.100.1"], "outside-2": []}

    made, testbed = arranged(monkeypatch, SourceRanges(clients=clients), learn)
    services = {each["metadata"]["name"]: each for each in made if each["kind"] == "Service"}
    naming = [name for name, each in world.services().items() if "loadBalancerSourceRanges" in each["spec"]]
    assert naming
    assert not set(naming) & set(before)
    for name in naming:  # in a family in which it is not believed nobody is let in, and not everybody
        assert services[name]["spec"]["loadBalancerSourceRanges"] == ["198.51.100.1/32", NOBODY_THERE[Family.IPV6]]
    assert set(services) == set(world.services()), "each is created, once"
    assert ("198.51.100.1/32" in testbed.admitted) == clients


@pytest.mark.parametrize("text", ["off", "clients", "192.0.2.0/24"])
def test_the_command_that_repeats_a_run_says_so(text: str) -> None:
    assert Settings("x", source_ranges=text).repeat.endswith(f"--source-ranges {text}")
    assert "--source-ranges" not in Settings("x").repeat
