"""Which VIPs Services get, keep and lose, and what their status is made to say."""

from collections.abc import Iterator

import pytest

from images.loadbalancer.balancer import pools
from images.loadbalancer.balancer.objects import Mode
from images.loadbalancer.balancer.settings import parse
from tests.loadbalancer.objects import World, node_object, service_object, settings, with_status


@pytest.fixture
def world() -> Iterator[World]:
    made = World(settings())
    made.tell("nodes", "all", node_object("one", "127.0.0.1"))
    yield made
    made.close()


def vip(address: str, mode: str = "VIP") -> dict[str, str]:
    return {"ip": address, "ipMode": mode}


@pytest.mark.parametrize("text", ["192.0.2.9-192.0.2.3", "192.0.2.1-2001:db8::1", "192.0.2.1/24", "host"])
def test_what_is_no_pool_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - it is the address library that says why
        pools.parse(text)


def test_addresses_come_in_turn_over_all_pools_of_a_family_and_end() -> None:
    some = pools.Pools(["192.0.2.4/31", "2001:db8::/127", "192.0.2.9-192.0.2.9"])
    assert [some.take("IPv4") for _ in range(4)] == ["192.0.2.4", "192.0.2.5", "192.0.2.9", None]
    some.free("192.0.2.9")
    some.free("192.0.2.4")
    assert some.take("IPv4") == "192.0.2.4"
    assert some.take("IPv6") == "2001:db8::"
    assert some.claim("2001:DB8:0::1") == "2001:db8::1"
    assert some.take("IPv6") is None


def test_a_pool_that_takes_the_place_of_the_others_of_its_family() -> None:
    given = parse(
        ["--server", "x", "--pool", "192.0.2.0/28", "--pool", "2001:db8::/126", "--only-pool", "192.0.2.64/28"]
    )
    assert given.pools == ("192.0.2.64/28", "2001:db8::/126")


def test_a_freed_address_is_the_last_to_come_again() -> None:
    some = pools.Pools(["192.0.2.4-192.0.2.6"])
    some.free(some.take("IPv4") or "")
    assert [some.take("IPv4") for _ in range(3)] == ["192.0.2.5", "192.0.2.6", "192.0.2.4"]


def test_a_service_gets_a_vip_of_each_of_its_families_in_their_order(world: World) -> None:
    world.tell("services", "all", service_object(ipFamilies=["IPv6", "IPv4"]))
    assert world.writer.wrote == [("web", [vip("2001:db8::10"), vip("192.0.2.10")])]
    assert world.kernel.vips == {"2001:db8::10", "192.0.2.10"}


VIPS_OF_ITS_OWN = [mode for mode in Mode if mode.has_vips]


@pytest.mark.parametrize("mode", VIPS_OF_ITS_OWN)
def test_the_status_says_how_the_vip_is_served(world: World, mode: Mode) -> None:
    world.tell("services", "all", service_object(mode=mode.value))
    assert world.writer.wrote == [("web", [vip("192.0.2.10", "VIP" if mode.forwards else "Proxy")])]
    assert (world.proxies.served == {}) is mode.forwards
    assert (world.kernel.ways == {}) is not mode.forwards


@pytest.mark.parametrize(
    "spec", [{"type": "NodePort"}, {"loadBalancerClass": None}, {"loadBalancerClass": "esipp.dev/other"}]
)
def test_others_services_are_none_of_its_business(world: World, spec: dict[str, str]) -> None:
    world.tell("services", "all", with_status(service_object(**spec), "198.51.100.1"))
    assert (world.writer.wrote, world.kernel.vips) == ([], set())


@pytest.mark.parametrize("mode", VIPS_OF_ITS_OWN)
def test_what_names_no_class_is_of_the_default_one_if_there_is_one(mode: Mode) -> None:
    made = World(settings(default=mode))
    made.tell("nodes", "all", node_object("one", "127.0.0.1"))
    made.tell("services", "all", service_object("plain", loadBalancerClass=None), service_object("named"))
    found = dict(made.writer.wrote)
    assert [each["ipMode"] for each in found["plain"]] == [mode.ip_mode]
    assert [each["ipMode"] for each in found["named"]] == ["VIP"], "what it names counts"
    made.tell("services", "all", service_object("other", loadBalancerClass="example.com/other"))
    assert "other" not in dict(made.writer.wrote)
    made.close()


def test_what_stands_in_a_status_is_kept_after_a_restart_before_anybody_new_gets_one(world: World) -> None:
    older = service_object("a-new-one")
    world.tell("services", "all", older, with_status(service_object("kept"), "192.0.2.10"))
    assert world.writer.wrote == [("a-new-one", [vip("192.0.2.11")])]
    assert [one["why"] for one in world.decided("vip")] == ["kept: it stands in the status", "assigned"]


def test_a_status_that_names_another_s_vip_or_none_of_ours_is_put_right(world: World) -> None:
    documents = [
        with_status(service_object(name), address)
        for name, address in [("a", "192.0.2.10"), ("b", "192.0.2.10"), ("c", "198.51.100.7")]
    ]
    world.tell("services", "all", *documents)
    assert world.writer.wrote == [("b", [vip("192.0.2.11")]), ("c", [vip("192.0.2.12")])]


@pytest.mark.parametrize("spec", [{"type": "ClusterIP"}, {"loadBalancerClass": "esipp.dev/other"}])
def test_a_service_that_asks_no_more_loses_vip_and_status(world: World, spec: dict[str, str]) -> None:
    world.tell("services", "all", service_object())
    world.tell("services", "changed", with_status(service_object(**spec), "192.0.2.10"))
    assert world.writer.wrote[-1] == ("web", [])
    assert world.kernel.vips == set()
    assert [one["why"] for one in world.decided("vip")] == ["assigned", "freed"]


def test_a_service_that_is_gone_or_missed_in_a_later_list_frees_its_vip(world: World) -> None:
    one, other = service_object("one"), service_object("other")
    world.tell("services", "all", one, other)
    world.tell("services", "gone", one)
    assert world.kernel.vips == {"192.0.2.11"}
    world.tell("services", "all")
    assert world.kernel.vips == set()
    assert world.balancer.view()["services"] == []


def test_a_family_that_is_dropped_is_freed_alone(world: World) -> None:
    world.tell("services", "all", service_object(ipFamilies=["IPv4", "IPv6"]))
    world.tell("services", "changed", with_status(service_object(), "192.0.2.10", "2001:db8::10"))
    assert world.kernel.vips == {"192.0.2.10"}
    assert world.writer.wrote[-1] == ("web", [vip("192.0.2.10")])


def test_when_a_pool_is_empty_the_others_are_served(world: World) -> None:
    world.tell("services", "all", *(service_object(f"s{number}") for number in range(6)))
    assert len(world.kernel.vips) == 4
    assert world.writer.wrote[4:] == []
    world.tell("services", "gone", service_object("s0"))
    assert len(world.kernel.vips) == 4


@pytest.mark.parametrize("mode", VIPS_OF_ITS_OWN)
def test_a_balancer_in_several_zones_gives_services_without_a_class_as_many_vips_and_all_lead_to_the_nodes(
    mode: Mode,
) -> None:
    made = World(settings(default=mode, addresses=2))
    made.tell("nodes", "all", node_object("one", "127.0.0.1"))
    made.tell("services", "all", service_object("plain", loadBalancerClass=None), service_object("named"))
    found = {name: [each["ip"] for each in ingress] for name, ingress in made.writer.wrote}
    assert found == {"named": ["192.0.2.10"], "plain": ["192.0.2.11", "192.0.2.12"]}
    if mode.forwards:
        assert made.kernel.ways["192.0.2.11"] == made.kernel.ways["192.0.2.12"]
    else:
        assert made.proxies.served["plain"] == {"IPv4": ["192.0.2.11", "192.0.2.12"]}
    made.tell("services", "gone", service_object("plain", loadBalancerClass=None))
    assert made.kernel.vips == {"192.0.2.10"}
    assert set(made.kernel.ways) <= {"192.0.2.10"}
    made.close()


def test_a_fault_leads_only_the_first_vip_anywhere() -> None:
    made = World(settings(faults=("one-address", "ignore-health"), default=Mode.ECMP, addresses=2))
    made.tell("nodes", "all", node_object("one", "127.0.0.1"))
    made.tell("services", "all", service_object(loadBalancerClass=None))
    first, second = made.writer.wrote[0][1]
    assert (made.kernel.ways[first["ip"]], made.kernel.ways[second["ip"]]) == ({"127.0.0.1": 1}, {})
    made.close()


def test_all_vips_of_a_status_survive_a_restart_and_one_that_is_missing_is_added() -> None:
    made = World(settings(default=Mode.ECMP, addresses=2))
    made.tell("nodes", "all", node_object("one", "127.0.0.1"))
    made.tell("services", "all", with_status(service_object(loadBalancerClass=None), "192.0.2.12"))
    assert made.writer.wrote == [("web", [vip("192.0.2.12"), vip("192.0.2.10")])]
    assert set(made.kernel.ways) == {"192.0.2.10", "192.0.2.12"}
    made.close()


def test_a_vip_leads_somewhere_before_it_is_there(world: World) -> None:
    world.tell("services", "all", service_object())
    assert world.kernel.log[-2:] == [("steer", "192.0.2.10"), ("assign", ["192.0.2.10"])]


def test_pods_are_reached_by_way_of_their_nodes(world: World) -> None:
    world.tell("services", "all")
    assert world.kernel.pods == {"10.244.1.0/24": "127.0.0.1"}


def test_a_vip_that_is_kept_on_purpose_outlives_its_service() -> None:
    world = World(settings(faults=("keep-vip",)))
    world.tell("nodes", "all")
    world.tell("services", "all", service_object())
    world.tell("services", "gone", service_object())
    assert world.kernel.vips == {"192.0.2.10"}
    assert world.balancer.view()["faults"] == ["keep-vip"]
    world.close()
