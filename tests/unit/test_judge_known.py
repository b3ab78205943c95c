"""What cannot be asked on a cluster, and what differs there for a known reason."""

from dataclasses import replace

import pytest

from esipp.collisions import Ports
from esipp.model import AddressClass, EntryKind
from esipp.observation import Observation, Outcome
from esipp.rows import Feature, Status
from tests.unit.world import (
    CELLS,
    FEATURES,
    by_id,
    show,
    topology,
    verdict,
)

OUTSIDE_LOCAL = "nodeport.local.tcp.ipv4.outside-1-to-endpoint-node"
OUTSIDE_BARE = "nodeport.local.tcp.ipv4.outside-1-to-bare-node"


def test_a_missing_feature_is_unsupported_by_name() -> None:
    said = verdict(by_id(OUTSIDE_LOCAL), features={**FEATURES, "family.ipv4": Feature(False, "single-stack IPv6")})
    assert said.status is Status.UNSUPPORTED
    assert "single-stack IPv6" in said.reason
    assert not said.left_out


def test_a_feature_that_we_lack_makes_a_row_left_out() -> None:
    ours = {**FEATURES, "vantage.outside": Feature(False, "no client outside", ours=True)}
    said = verdict(by_id(OUTSIDE_LOCAL), features=ours)
    assert said.status is Status.UNSUPPORTED
    assert said.left_out


def test_a_feature_nobody_looked_for_is_missing() -> None:
    assert verdict(by_id(OUTSIDE_LOCAL), features={}).status is Status.UNSUPPORTED


def test_an_obstacle_makes_a_row_and_those_it_controls_inconclusive() -> None:
    cell = by_id("loadbalancer.local.source-ranges.tcp.ipv4.outside-1-to-vip")
    said = verdict(cell, obstacles={cell.path.key: "no VIP within 45 s"})
    assert (said.status, said.reason) == (Status.INCONCLUSIVE, "no VIP within 45 s")
    leaning = [each for each in CELLS if cell.path in {control.path for control in each.controls}]
    assert leaning
    for each in leaning:
        assert verdict(each, obstacles={cell.path.key: "no VIP"}).status is Status.INCONCLUSIVE


def test_an_override_makes_a_difference_known_only_where_its_fact_holds() -> None:
    cell = by_id("nodeport.local.tcp.ipv4.pod-on-other-node-to-endpoint-node")
    listener = cell.controls[-1].path
    instead, also = show(cell.path, AddressClass.NODE), [show(listener, AddressClass.NODE)]
    assert verdict(cell, instead, also=also).status is Status.FAIL
    said = verdict(cell, instead, also=also, facts={"pod-to-node.ipv4": "masqueraded"})
    assert said.status is Status.KNOWN
    assert said.reason
    assert said.reference


@pytest.mark.parametrize("ingress", ["Proxy", "hostname"])
@pytest.mark.parametrize(
    "name",
    [
        "loadbalancer.local.tcp.ipv4.outside-1-to-vip",
        "loadbalancer.local.tcp.ipv4.backend-to-vip",
        "loadbalancer.cluster.tcp.ipv4.backend-to-vip",
        "loadbalancer.local.source-ranges.tcp.ipv4.outside-2-to-vip",
    ],
)
def test_behind_a_proxy_every_row_of_the_clusters_own_balancer_is_known(name: str, ingress: str) -> None:
    cell = by_id(name)
    shown = show(cell.path, AddressClass.LOAD_BALANCER)
    also = [show(control.path, AddressClass.CLIENT) for control in cell.controls]
    assert verdict(cell, shown, also=also).status is Status.FAIL
    assert verdict(cell, shown, also=also, facts={"load-balancer.ingress": ingress}).status is Status.KNOWN


def test_behind_a_proxy_a_backend_that_reaches_itself_unmasqueraded_is_red() -> None:
    cell = by_id("loadbalancer.local.tcp.ipv4.backend-to-vip")
    said = verdict(cell, show(cell.path, AddressClass.CLIENT), facts={"load-balancer.ingress": "Proxy"})
    assert said.status is Status.FAIL


@pytest.mark.parametrize(
    ("version", "status"),
    [
        ("v1.32.13", Status.KNOWN),
        ("v1.33.5", Status.KNOWN),
        ("v1.33.6", Status.FAIL),
        ("v1.33.13", Status.FAIL),
        ("v1.9.0", Status.KNOWN),
        ("v1.34.0", Status.FAIL),
        ("v1.36.3", Status.FAIL),
        ("v2.0.0", Status.FAIL),
        ("v1.33.1-gke.100+x", Status.KNOWN),
        ("", Status.FAIL),
        ("unknown", Status.FAIL),
    ],
)
def test_an_override_ends_with_the_version_that_mended_it(version: str, status: Status) -> None:
    cell = by_id("loadbalancer.local.tcp.ipv4.pod-on-other-node-to-vip")
    facts = {"proxy-mode": "nftables", "kubernetes": version}
    assert verdict(cell, show(cell.path, AddressClass.DROPPED), facts=facts).status is status


def test_a_known_difference_is_no_licence_for_anything_else() -> None:
    cell = by_id("loadbalancer.local.tcp.ipv4.pod-on-other-node-to-vip")
    facts = {"proxy-mode": "nftables", "kubernetes": "v1.33.0"}
    assert verdict(cell, show(cell.path, AddressClass.OTHER), facts=facts).status is Status.FAIL


# -------------------------------------------------------------------------------------------- differences, one by one
def test_ipvs_falls_back_at_cluster_ips_and_nowhere_else() -> None:
    facts = {"proxy-mode": "ipvs"}
    for client in ("pod-on-other-node", "host-on-other-node"):
        cell = by_id(f"clusterip.itp-local.tcp.ipv4.{client}-to-clusterip")
        assert verdict(cell, show(cell.path, AddressClass.CLIENT)).status is Status.FAIL
        assert verdict(cell, show(cell.path, AddressClass.CLIENT), facts=facts).status is Status.KNOWN
    cell = by_id("nodeport.local.itp-local.tcp.ipv4.outside-1-to-bare-node")
    for shown in (AddressClass.CLIENT, AddressClass.NODE):
        assert verdict(cell, show(cell.path, shown), facts=facts).status is Status.FAIL


def test_no_silent_row_at_a_node_port_may_answer_in_ipvs_mode() -> None:
    node_ports = [cell for cell in CELLS if cell.is_negative and cell.path.entry.kind is EntryKind.NODE_PORT]
    assert node_ports
    for cell in node_ports:
        shown = show(cell.path, AddressClass.CLIENT)
        assert verdict(cell, shown, facts={"proxy-mode": "ipvs"}).status is Status.FAIL, cell.id


def test_without_a_way_to_detect_local_traffic_pods_have_no_short_circuit() -> None:
    facts = {"detect-local": "none"}
    pod, host = (by_id(f"loadbalancer.local.tcp.ipv4.{who}-on-other-node-to-vip") for who in ("pod", "host"))
    assert verdict(pod, show(pod.path, AddressClass.DROPPED), facts=facts).status is Status.KNOWN
    assert verdict(pod, show(pod.path, AddressClass.NODE), facts=facts).status is Status.FAIL
    assert verdict(host, show(host.path, AddressClass.DROPPED), facts=facts).status is Status.FAIL
    near = by_id("loadbalancer.local.tcp.ipv4.pod-on-endpoint-node-to-vip")
    assert verdict(near, show(near.path, AddressClass.DROPPED), facts=facts).status is Status.FAIL


def test_connections_reset_while_an_ecmp_forwarder_was_steered_are_known_and_no_others() -> None:
    cell, many = by_id("loadbalancer.reference-ecmp.local.tcp.ipv4.outside-1-to-vip"), 20

    def status(resets: int, fact: str) -> Status:
        made = [show(cell.path, AddressClass.CLIENT, seq) for seq in range(many)]
        made[:resets] = [replace(each, outcome=Outcome.RESET, seen=None, echo=None) for each in made[:resets]]
        return verdict(cell, *made, facts={"load-balancer.steered": fact}).status

    assert status(1, "yes") is Status.KNOWN
    assert status(1, "no") is Status.FLAKY
    assert status(1, "unknown") is Status.FLAKY
    assert status(many // 2, "yes") is Status.FLAKY
    assert status(many, "yes") is Status.FAIL


def test_a_proxy_s_connection_that_cilium_took_for_another_is_known_where_few_hang() -> None:
    cell, many = by_id("loadbalancer.reference-proxy.local.several-ports.tcp.ipv4.outside-1-to-vip"), 40

    def status(hung: int, facts: dict[str, str], **how: object) -> Status:
        made = [show(cell.path, AddressClass.LOAD_BALANCER, seq) for seq in range(many)]
        silent = {"outcome": Outcome.TIMEOUT, "seen": None, "echo": None, "connected": 1.0} | how
        made[:hung] = [replace(each, **silent) for each in made[:hung]]  # type: ignore[arg-type]
        return verdict(cell, *made, facts=facts).status

    there = {"service-proxy": "cilium"}
    assert status(1, there) is Status.KNOWN
    assert status(1, {"service-proxy": "kube-proxy"}) is Status.FLAKY
    assert status(many // 4, there) is Status.FLAKY, "too many for an unlucky port"
    assert status(1, there, connected=None) is Status.FLAKY, "the proxy itself did not answer"
    assert status(many, there) is Status.FAIL


def test_answers_lost_to_connections_from_the_same_ports_are_known_where_a_node_s_snat_may_have_done_it() -> None:
    cell, many = by_id("nodeport.cluster.tcp.ipv4.outside-1-to-bare-node"), 40
    other = by_id("nodeport.local.tcp.ipv4.host-on-other-node-to-endpoint-node").path
    there = {"service-proxy": "cilium", "cilium.load-balancer-mode": "snat"}

    def status(lost: int, facts: dict[str, str], **how: object) -> Status:
        made = [show(cell.path, AddressClass.NODE, seq) for seq in range(many)]
        silent = {"outcome": Outcome.TIMEOUT, "seen": None, "echo": None} | how
        made[:lost] = [replace(each, **silent) for each in made[:lost]]  # type: ignore[arg-type]
        hosts = [show(other, AddressClass.CLIENT, seq) for seq in range(many)]  # from the same ports, as all are here
        hosts = [replace(each, echo={**(each.echo or {}), "protocol": "tcp"}) for each in hosts]
        return verdict(cell, *made, also=hosts, facts=facts).status

    assert status(2, there) is Status.KNOWN
    assert status(2, {**there, "cilium.load-balancer-mode": "dsr"}) is Status.FLAKY
    assert status(2, {"service-proxy": "kube-proxy"}) is Status.FLAKY
    assert status(2, there, outcome=Outcome.REFUSED) is Status.FLAKY
    assert status(many // 4, there) is Status.FLAKY


def test_two_connections_are_one_only_by_protocol_pod_address_and_port() -> None:
    lost_at = by_id("nodeport.cluster.tcp.ipv4.outside-1-to-bare-node").path
    held = show(by_id("nodeport.local.tcp.ipv4.host-on-other-node-to-endpoint-node").path, AddressClass.CLIENT)
    assert held.source
    assert held.seen
    held = replace(held, echo={**(held.echo or {}), "protocol": "tcp"})
    lost = replace(show(lost_at, AddressClass.NODE), outcome=Outcome.TIMEOUT, seen=None, echo=None)
    assert lost.source

    def collided(other: Observation, mine: Observation = lost) -> bool:
        return Ports([[other]]).collided(lost_at, mine, topology())

    assert collided(held)
    assert not collided(replace(held, seen=(held.seen[0], held.seen[1] + 1))), "another port"
    assert not collided(replace(held, seen=lost.source)), "no node's address"
    assert not collided(replace(held, source=("172.18.0.102", held.source[1]))), "no process of that node"
    assert not collided(replace(held, echo={**(held.echo or {}), "pod": "somebody-else"})), "another pod"
    assert not collided(replace(held, echo={**(held.echo or {}), "protocol": "udp"})), "another protocol"
    assert not collided(held, replace(lost, source=(held.source[0], lost.source[1]))), "the client's own"
    assert not collided(held, replace(lost, outcome=Outcome.RESET))
