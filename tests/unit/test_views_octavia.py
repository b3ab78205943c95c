"""OpenStack's view, from recorded-shape answers of openstack."""

from pathlib import Path

import pytest

from esipp.judging.health_view import State, Unavailable, Why
from esipp.loadbalancers.views.octavia import TOOL, OctaviaView
from tests.unit.views_world import OPENSTACK, Fake, Given, asked, names, places, recorded, refused

VIP, FLOATING = "10.0.10.21", "203.0.113.50"
IDENTITY = "5f0f3f3e-0000-4000-8000-00000000000"


@pytest.fixture
def openstack(tmp_path: Path) -> Fake:
    fake = Fake(tmp_path, "openstack").when("loadbalancer list", recorded("openstack-balancers"))
    fake.when("floating ip list", Given("[]"))
    fake.when("floating ip list", recorded("openstack-floating"), also=[FLOATING])
    fake.when(f"loadbalancer show {IDENTITY}2", recorded("openstack-show-2"))
    return fake.when(f"loadbalancer show {IDENTITY}3", recorded("openstack-show-3"))


def view(fake: Fake) -> OctaviaView:
    return OctaviaView(places(OPENSTACK), fake.cli(TOOL))


def test_under_cluster_all_nodes_are_healthy_and_under_local_those_with_endpoints(openstack: Fake) -> None:
    openstack.when("loadbalancer status show", recorded("openstack-status-cluster"), recorded("openstack-status-local"))
    octavia = view(openstack)
    assert str(octavia.ask(asked(FLOATING)).share(names(OPENSTACK))) == "3 of 3 (100 %)"
    local = octavia.ask(asked(FLOATING))
    assert str(local.share(names(OPENSTACK))) == "1 of 3 (33 %)"
    assert local.healthy == {"node-1"}
    assert [each.word for each in local.members] == ["ONLINE", "ERROR", "ERROR"]
    assert local.members[2].reason.endswith("PENDING_UPDATE")


def test_of_two_with_one_address_it_is_the_one_at_the_floating_ips_port(openstack: Fake) -> None:
    openstack.when("loadbalancer status show", recorded("openstack-status-local"))
    assert view(openstack).ask(asked(FLOATING)).balancer == "kube_service_shop_web (amphora)"
    assert [argv[3] for argv in openstack.asked if argv[:2] == ["loadbalancer", "status"]] == [f"{IDENTITY}2"]


def test_the_status_command_has_no_format_and_the_others_have_one(openstack: Fake) -> None:
    openstack.when("loadbalancer status show", recorded("openstack-status-local"))
    view(openstack).ask(asked("10.0.10.20"))
    assert [("-f" in argv, argv[1]) for argv in openstack.asked] == [(True, "list"), (False, "status")]


def test_members_at_other_ports_are_other_services(openstack: Fake) -> None:
    openstack.when("loadbalancer status show", recorded("openstack-status-local"))
    result = view(openstack).ask(asked("10.0.10.20"))
    assert [each.target for each in result.members] == [f"10.0.0.{n}:31080" for n in (1, 2, 3)]
    assert result.states["node-1"] is State.HEALTHY


def test_without_a_monitor_nobody_knows_and_that_is_said(openstack: Fake) -> None:
    openstack.when("loadbalancer status show", recorded("openstack-status-unmonitored"))
    result = view(openstack).ask(asked("10.0.10.20"))
    assert set(result.states.values()) == {State.UNKNOWN}
    assert result.healthy == frozenset()
    assert "no health monitor" in result.notes[0]


def test_an_address_of_nobody_is_reported(openstack: Fake) -> None:
    with pytest.raises(Unavailable) as raised:
        view(openstack).ask(asked("192.0.2.7"))
    assert raised.value.why is Why.NOT_FOUND
    assert openstack.times("floating ip list") == 1


def test_a_cloud_without_octavia_is_unsupported(openstack: Fake) -> None:
    openstack.when(
        "loadbalancer list", refused("public endpoint for load-balancer service in RegionOne region not found")
    )
    with pytest.raises(Unavailable) as raised:
        view(openstack).ask(asked(FLOATING))
    assert raised.value.why is Why.UNSUPPORTED
    assert raised.value.lasting


@pytest.mark.parametrize("said", ["[]", "{}", '{"loadbalancer": {"pools": [{}]}}', '{"loadbalancer": []}'])
def test_another_form_is_reported_and_is_no_crash(openstack: Fake, said: str) -> None:
    openstack.when("loadbalancer status show", Given(said))
    with pytest.raises(Unavailable) as raised:
        view(openstack).ask(asked("10.0.10.20"))
    assert raised.value.why is Why.GARBLED
