"""Who has which part of the kind network, and what is done to give the nodes their second addresses."""

import ipaddress
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ci import network
from ci.access import ClusterAccess
from ci.step import Journal, SetupError, Step

RECORDED = Path(__file__).parents[1] / "hosts" / "kind-network.json"  # as docker network inspect prints it
KIND = ["172.18.0.0/16", "fc00:f853:ccd:e793::/64"]
SUBNETS = ["172.18.0.0/16", "10.0.0.0/24", "192.168.5.64/26", "fc00:f853:ccd:e793::/64", "fd00::/120"]


def ends(pool: str) -> tuple[int, int]:
    first, last = pool.split("-")
    return int(ipaddress.ip_address(first)), int(ipaddress.ip_address(last))


@pytest.mark.parametrize("subnet", SUBNETS)
def test_a_pool_is_inside_the_subnet_at_its_high_end(subnet: str) -> None:
    first, last = ends(network.pools([subnet])[0])
    whole = ipaddress.ip_network(subnet)
    middle = int(whole.network_address) + whole.num_addresses // 2
    assert middle < first <= last < int(whole.broadcast_address)
    assert last - first + 1 == min(network.POOL_SIZE, whole.num_addresses // 8 - 1)
    _, below = ends(network.reference_pools([subnet])[0])
    assert below == first - 1


@pytest.mark.parametrize("subnet", SUBNETS)
def test_further_addresses_are_distinct_and_between_what_docker_and_the_load_balancer_hand_out(subnet: str) -> None:
    whole = ipaddress.ip_network(subnet)
    low = min(whole.num_addresses // 4 - 1, 300)  # docker counts from the low end; a quarter is room for every node
    firsts = [str(ipaddress.ip_address(int(whole.network_address) + offset)) for offset in range(2, low)]
    seconds = [ipaddress.ip_interface(network.second_address(first, [subnet])) for first in firsts]
    externals = [ipaddress.ip_interface(network.external_address(first, [subnet])) for first in firsts]
    assert len({*seconds, *externals}) == 2 * len(firsts)
    pool, _ = ends(network.reference_pools([subnet])[0])
    middle = int(whole.network_address) + whole.num_addresses // 2
    assert all(second.network == whole and middle < int(second) < pool for second in seconds)
    last = int(ipaddress.ip_address(firsts[-1]))
    assert all(each.network == whole and last < int(each) < middle for each in externals)


def test_a_second_address_is_of_the_first_one_s_family_and_readable() -> None:
    assert network.second_address("172.18.0.5", KIND) == "172.18.128.5/16"
    assert network.second_address("fc00:f853:ccd:e793::5", KIND) == "fc00:f853:ccd:e793:8000::5/64"


@pytest.mark.parametrize("subnet", SUBNETS)
def test_spare_addresses_are_between_the_nodes_second_ones_and_the_load_balancers(subnet: str) -> None:
    whole = ipaddress.ip_network(subnet)
    last = whole.network_address + (whole.num_addresses // 4 - 2)  # the last first address that has a second one
    second = ipaddress.ip_interface(network.second_address(str(last), [subnet])).ip
    pool, _ = ends(network.reference_pools([subnet])[0])
    found = [ipaddress.ip_interface(each) for each in network.spare_addresses(subnet, 2, ())]
    assert len(set(found)) == 2
    assert all(each.network == whole and int(second) < int(each.ip) < pool for each in found)


def test_a_spare_address_is_none_that_docker_has_given() -> None:
    inspected = json.loads(RECORDED.read_text())[0]
    taken = network.held(inspected)
    assert {"172.18.0.1", "172.18.0.6", "172.18.255.54", "fc00:f853:ccd:e793::1"} <= set(map(str, taken))
    assert [network.spare_addresses(net, 2, taken) for net in network.subnets_of(inspected)] == [
        ["172.18.255.53/16", "172.18.255.52/16"],  # 54 is a container's
        ["fc00:f853:ccd:e793:ffff:ffff:ffff:ff36/64", "fc00:f853:ccd:e793:ffff:ffff:ffff:ff35/64"],
    ]


def test_where_all_spare_addresses_are_taken_that_is_said() -> None:
    taken = [ipaddress.ip_address("192.168.5.48")]
    with pytest.raises(SetupError, match=r"192\.168\.5\.0/26 has no 2 unassigned addresses"):
        network.spare_addresses("192.168.5.0/26", 2, taken)


def test_addresses_that_are_set_aside_are_docker_s() -> None:
    entry = {"Subnet": "10.0.0.0/24", "AuxiliaryAddresses": {"printer": "10.0.0.9"}}
    assert set(map(str, network.held({"IPAM": {"Config": [entry]}}))) == {"10.0.0.9"}


def test_a_bridge_has_the_name_it_was_given_or_one_of_the_network_s_id() -> None:
    inspected = json.loads(RECORDED.read_text())[0]
    assert network.bridge_of(inspected) == "br-5f2d0c1b9a7e"
    assert network.bridge_of({"Id": "0" * 64, "Options": {"com.docker.network.bridge.name": "mine"}}) == "mine"


@pytest.mark.parametrize(
    ("first", "nets", "said"),
    [("10.1.2.3", KIND, "not in the kind network"), ("192.168.5.5", ["192.168.5.0/28"], "too small")],
)
def test_where_no_second_address_can_be_had_that_is_said(first: str, nets: list[str], said: str) -> None:
    with pytest.raises(SetupError, match=said):
        network.second_address(first, nets)


@pytest.mark.parametrize(
    ("addresses", "kept"),
    [
        (["172.18.0.2"], KIND[:1]),
        (["fc00:f853:ccd:e793::2"], KIND[1:]),
        (["172.18.0.2", "fc00:f853:ccd:e793::2"], KIND),
    ],
)
def test_subnets_of_a_family_that_the_cluster_lacks_are_left_out(addresses: list[str], kept: list[str]) -> None:
    assert network.of_the_cluster(KIND, addresses) == kept


@dataclass(frozen=True)
class Scripted(ClusterAccess):
    """A cluster in which nothing is there but what the API and docker say; what is run is written down."""

    firsts: dict[str, list[str]] = field(default_factory=dict)
    ran: list[tuple[tuple[object, ...], bytes | None]] = field(default_factory=list)

    def ask(self, *command: str | Path, timeout: float = 30) -> str | None:
        if command[0] == "docker":
            return json.dumps([{"IPAM": {"Config": [{"Subnet": net} for net in KIND]}}])
        hostname = {"type": "Hostname", "address": "name"}
        items = [
            {
                "metadata": {"name": node},
                "status": {"addresses": [*({"type": "InternalIP", "address": one} for one in firsts), hostname]},
            }
            for node, firsts in self.firsts.items()
        ]
        return json.dumps({"items": items})

    def run(self, step: Step, *command: str | Path, stdin: bytes | None = None, hint: str = "") -> None:
        self.ran.append((command, stdin))
        step.run([sys.executable, "-c", ""])


def test_a_node_gets_further_addresses_of_each_family_it_has_in_the_cluster(tmp_path: Path) -> None:
    firsts = {"one": ["172.18.0.2", "fc00:f853:ccd:e793::2"], "six": ["fc00:f853:ccd:e793::3"]}
    there = Scripted("hermetic", "lane", "v1", "node:1", firsts=firsts)
    network.give_further_addresses(there, Journal(tmp_path))
    result = {command[3]: stdin.decode().splitlines() for command, stdin in there.ran if stdin}
    six = "nodad valid_lft forever preferred_lft 0"  # else a node would speak from its second address
    assert result == {
        "one": [
            "address replace 172.18.128.2/16 dev eth0",
            f"address replace fc00:f853:ccd:e793:8000::2/64 dev eth0 {six}",
            "address replace 172.18.64.2/16 dev eth0",
            f"address replace fc00:f853:ccd:e793:4000::2/64 dev eth0 {six}",
        ],
        "six": [
            f"address replace fc00:f853:ccd:e793:8000::3/64 dev eth0 {six}",
            f"address replace fc00:f853:ccd:e793:4000::3/64 dev eth0 {six}",
        ],
    }


def test_node_objects_name_external_ips_once_kubelets_leave_addresses_alone(tmp_path: Path) -> None:
    there = Scripted("hermetic", "lane", "v1", "node:1", firsts={"one": ["172.18.0.2", "fc00:f853:ccd:e793::2"]})
    network.give_further_addresses(there, Journal(tmp_path))
    *_, (kubelet, _), (patch, _) = there.ran
    assert kubelet == ("docker", "exec", "one", "sh", "-c", network.ADDRESSES_ARE_THE_PROVIDERS)
    assert patch[3:6] == ("patch", "node", "one")
    assert json.loads(str(patch[-1])) == {
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": "172.18.0.2"},
                {"type": "InternalIP", "address": "fc00:f853:ccd:e793::2"},
                {"type": "ExternalIP", "address": "172.18.64.2"},
                {"type": "ExternalIP", "address": "fc00:f853:ccd:e793:4000::2"},
                {"type": "Hostname", "address": "one"},
            ]
        }
    }
