"""Addresses, rules and routes in a network namespace of their own."""

import subprocess
import sys
from pathlib import Path

from tests.tools import needs_root, needs_tool

ROOT = Path(__file__).parents[2]

pytestmark = [needs_root, needs_tool("ip", "unshare")]

PREPARE = """
ip link set lo up && ip link add eth0 type veth peer name other && ip link set other up && ip link set eth0 up
ip address add 192.0.2.1/24 dev eth0 && ip -6 address add 2001:db8::1/64 dev eth0 nodad
"""
STATE = "ip rule; ip -6 rule; ip address show eth0; ip route show table all; ip -6 route show table all"
HEAD = """
import subprocess
from balancer.kernel import Kernel
def shown(command): return subprocess.run(command, shell=True, capture_output=True, text=True).stdout
def routes(family=""): return " ".join(shown(f"ip {family} route show table 3665").replace("dev lo", "").split())
def state(): return "\\n".join(x for x in shown(STATE).splitlines() if "valid_lft" not in x and "fe80" not in x)
"""


def in_a_namespace(script: str) -> None:
    program = f"STATE = {STATE!r}\n{HEAD}\n{script}"
    command = ["unshare", "--net", "sh", "-ec", f'{PREPARE}exec "$0" -B -c "$1"', sys.executable, program]
    folder = ROOT / "images" / "loadbalancer"
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr + done.stdout


def test_a_vip_is_steered_to_none_one_and_many_and_back() -> None:
    in_a_namespace("""
kernel = Kernel("eth0")
kernel.set_up()
for vip, family, one, two in (
    ("192.0.2.10", "", "192.0.2.2", "192.0.2.3"), ("2001:db8::10", "-6", "2001:db8::2", "2001:db8::3")
):
    for via, expected in (
        ({}, ["blackhole"]), ({one: 1}, [f"via {one}"]), ({one: 1, two: 1}, [f"via {one}", f"via {two}"]),
        ({one: 49, two: 1}, [f"via {one} dev eth0 weight 49", f"via {two} dev eth0 weight 1"]),
        ({two: 1}, [f"via {two}"]), ({}, ["blackhole"]), ({one: 1, two: 1}, ["weight 1"]),
    ):
        kernel.steer(vip, via)
        found = routes(family)
        assert all(part in found for part in expected), (via, found)
        assert found.count(vip) == 1 and found.count("via") == len(via), (via, found)
    kernel.forget(vip)
    assert not routes(family), routes(family)
""")


def test_vips_are_addresses_that_nobody_speaks_from() -> None:
    in_a_namespace("""
kernel = Kernel("eth0")
kernel.set_up()
kernel.assign({"192.0.2.10", "2001:db8::10"})
assert kernel.own_addresses() == {"IPv4": "192.0.2.1", "IPv6": "2001:db8::1"}
shows = shown("ip address show eth0")
assert "192.0.2.10/32" in shows and "2001:db8::10/128 scope global nodad deprecated" in shows, shows
assert "src 2001:db8::1 " in shown("ip -6 route get 2001:db8::99"), shown("ip -6 route get 2001:db8::99")
assert "src 192.0.2.1 " in shown("ip route get 192.0.2.99")
kernel.assign({"192.0.2.11"})
shows = shown("ip address show eth0")
assert "192.0.2.11/32" in shows and "192.0.2.10/32" not in shows and "db8::10" not in shows, shows
""")


def test_what_is_carried_comes_before_local_delivery_and_all_else_after() -> None:
    in_a_namespace("""
kernel = Kernel("eth0")
kernel.set_up()
kernel.assign({"192.0.2.10"})
kernel.steer("192.0.2.10", {"192.0.2.2": 1})
for family in ("", "-6"):
    rules = shown(f"ip {family} rule").splitlines()
    assert [x.split(":")[0] for x in rules][:4] == ["100", "100", "100", "32000"], rules
shown("sysctl -w net.ipv4.ip_forward=1")
asked = "ip route get 192.0.2.10 from 192.0.2.50 iif eth0"
assert "via 192.0.2.2" in shown(asked + " ipproto 6 dport 80"), shown(asked + " ipproto 6 dport 80")
assert shown(asked + " ipproto 1").startswith("local 192.0.2.10")
assert shown("ip route get 192.0.2.1 from 192.0.2.50 iif eth0 ipproto 6 dport 9000").startswith("local")
""")


def test_nothing_is_left_at_the_end_and_a_killed_predecessor_s_are_cleared_away() -> None:
    in_a_namespace("""
before = state()
def busy(kernel):
    kernel.set_up()
    kernel.assign({"192.0.2.10", "2001:db8::10"})
    kernel.steer("192.0.2.10", {"192.0.2.2": 1, "192.0.2.3": 1})
    kernel.steer("2001:db8::10", {})
    kernel.reach_pods({"10.244.1.0/24": "192.0.2.2", "fd00:1::/64": "2001:db8::2"})
killed = Kernel("eth0")
busy(killed)
assert state() != before
next_one = Kernel("eth0")
busy(next_one)
next_one.tear_down()
assert state() == before, (before, state())
""")


def test_pod_networks_follow_their_nodes() -> None:
    in_a_namespace("""
kernel = Kernel("eth0")
kernel.set_up()
kernel.reach_pods({"10.244.1.0/24": "192.0.2.2", "10.244.2.0/24": "192.0.2.3"})
kernel.reach_pods({"10.244.1.0/24": "192.0.2.4"})
routes = shown("ip route")
assert "10.244.1.0/24 via 192.0.2.4" in routes and "10.244.2.0" not in routes, routes
""")
