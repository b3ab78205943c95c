"""Kind dressed as a cloud: what the reference load balancer is given for a profile, and what a lane may say of it."""

import pytest

from ci import emulation, lane, lane_file, loadbalancer
from ci.step import SetupError
from esipp.checks.check import HEALTH_VIEW, ONE_NODE
from esipp.loadbalancers.profiles.loading import provider
from images.loadbalancer.balancer import settings

AS = sorted(path.stem for path in lane_file.LANES.glob("as-*.yaml"))
WORN = {
    "as-gke": ("reference-ecmp", 32.0),
    "as-aks": ("reference-ecmp", 15.0),
    "as-eks-nlb": ("reference-nat", 30.0),
    "as-eks-clb": ("reference-proxy", 70.0),
    "as-octavia": ("reference-proxy", 20.0),
    "as-kube-vip": ("reference-leader", 3.0),
    "as-kube-vip-election": ("reference-forward", 3.0),
    "as-klipper": ("reference-nodes", 3.0),
}
"""The class and the bound in seconds of some lanes' load balancers."""


@pytest.mark.parametrize("name", WORN)
def test_the_reference_has_the_class_and_the_bound_of_a_cloud(name: str) -> None:
    given = settings.parse(["--server", "https://x", *lane_file.load(name).balancer_options])
    assert given.default is not None
    assert (given.default.value, (given.unhealthy + 1) * given.period) == WORN[name]


@pytest.mark.parametrize("name", AS)
def test_the_reference_takes_over_the_bound_of_the_profile(name: str) -> None:
    worn = lane_file.load(name)
    given = settings.parse(["--server", "https://x", *worn.balancer_options])
    check = provider(worn.emulates).local
    assert not check.there or (given.unhealthy + 1) * given.period == check.bound
    command = lane.suite_command(worn, "echo:1")
    assert command[command.index("--provider") + 1] == worn.emulates
    assert worn.moves is None or command[command.index("--moves") + 1] == str(worn.moves)
    for feature in (HEALTH_VIEW, ONE_NODE):
        assert (f"--without={feature}" in command) is not check.there


@pytest.mark.parametrize("name", AS)
def test_what_a_cloud_announces_by_a_hostname_is_announced_by_one(name: str) -> None:
    worn = lane_file.load(name)
    given = settings.parse(["--server", "https://x", *worn.balancer_options])
    assert given.hostnames is (provider(worn.emulates).status.form.value == "hostname")


@pytest.mark.parametrize("name", AS)
def test_what_fails_open_is_emulated_by_one_that_does(name: str) -> None:
    worn = lane_file.load(name)
    given = settings.parse(["--server", "https://x", *worn.balancer_options])
    opened = provider(worn.emulates).steering.fail_open
    assert given.fail_open is bool(opened and opened.value)
    assert given.fail_open is (name in ("as-eks-nlb", "as-gke"))


def test_a_lane_of_several_zones_announces_an_address_in_each() -> None:
    given = {name: settings.parse(["--server", "https://x", *lane_file.load(name).balancer_options]) for name in AS}
    assert {name for name, each in given.items() if each.addresses > 1} == {"as-eks-nlb"}


def test_what_a_proxy_of_ours_cannot_carry_is_left_out() -> None:
    assert emulation.left_out("gke-legacy") == emulation.left_out("aws-clb") == []
    left = [f"--without=load-balancer.carries.{each}" for each in ("sctp", "udp")]
    assert emulation.left_out("octavia-amphora-monitor") == left
    assert lane.suite_command(lane_file.load("as-octavia"), "echo:1").count(left[0]) == 1
    with pytest.raises(SetupError, match="nobody"):
        emulation.left_out("nobody")


def test_one_that_is_not_dressed_is_patient_with_a_busy_machine() -> None:
    given = settings.parse(["--server", "https://x", *lane_file.load("kind-iptables").balancer_options])
    assert (given.default, given.timeout, given.period, given.unhealthy) == (None, lane_file.PATIENCE, 1.0, 2)


def test_a_profile_that_sends_a_proxy_header_is_worn_with_it() -> None:
    assert emulation.class_of(provider("aws-clb-proxy")) == "reference-proxy-v1"
    assert emulation.class_of(provider("haproxy-proxy-v2")) == "reference-proxy-v2"


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ("metallb-l2", "it is not known to use one node at a time"),
        ("octavia-amphora", "its health checks under Local are off"),
        ("nobody", "nobody"),
    ],
)
def test_what_cannot_be_worn_is_reported(profile: str, expected: str) -> None:
    with pytest.raises(SetupError, match=expected):
        emulation.options(profile)


def test_faults_come_after_what_the_lane_gives_and_both_are_kept_apart() -> None:
    from tests.ci.test_load_balancer import options_of, there

    command = loadbalancer.container(there(), "lb:1", ["--period", "80"], own=["--default", "reference-ecmp"])
    assert command[-4:] == ["--default", "reference-ecmp", "--period", "80"]
    labels = options_of(command, "--label")
    assert 'esipp.dev/options=["--period", "80"]' in labels
    assert 'esipp.dev/own-options=["--default", "reference-ecmp"]' in labels
