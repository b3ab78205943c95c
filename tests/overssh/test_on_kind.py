"""Clients outside over ssh, against a real cluster: seen by their own addresses, and nothing of ours stays there."""

from itertools import product
from pathlib import Path

import pytest

from esipp.base.errors import ExitCode
from esipp.checks.check import Status
from esipp.checks.model import Family
from esipp.judging.topology import parse_address
from tests.hosts.bridged import EAST, LOCKED, PYTHONLESS, WEST, routes
from tests.overssh.kind import RUN_SECONDS, Ended, Kind, left_on, secrets_of

OUTSIDE_1, OUTSIDE_2 = "outside-1", "outside-2"
BOTH = f"ssh:root@{EAST},ssh:{WEST}:22"
HEARD = (Status.PASS, Status.KNOWN)

pytestmark = pytest.mark.timeout(RUN_SECONDS + 300)


def local(family: Family, client: str, protocol: str = "tcp") -> list[str]:
    """Ids of checks by which a pod must see the client's own address."""
    start = f"{protocol}.{family.value.lower()}.{client}-to"
    return [f"nodeport.local.{start}-endpoint-node", f"loadbalancer.local.{start}-vip"]


def other(family: Family, client: str, protocol: str = "tcp") -> list[str]:
    """Checks of the bare node, which is silent under Local, and of Cluster."""
    start = f"{protocol}.{family.value.lower()}.{client}-to"
    nodes = [f"nodeport.cluster.{start}-endpoint-node", f"nodeport.cluster.{start}-bare-node"]
    return [f"nodeport.local.{start}-bare-node", *nodes, f"loadbalancer.cluster.{start}-vip"]


def sticky(family: Family, client: str) -> list[str]:
    """Checks of several clients at one service with affinity: each keeps a backend, and is seen by its own address."""
    start = f"tcp.{family.value.lower()}.{client}-to"
    return [f"nodeport.local.pair.affinity.{start}-endpoint-node", f"loadbalancer.local.pair.affinity.{start}-vip"]


def ranged(family: Family, client: str) -> str:
    """A check of a VIP whose source ranges admit one of the clients, and not the other."""
    return f"loadbalancer.local.source-ranges.tcp.{family.value.lower()}.{client}-to-vip"


def seen(ended: Ended, check: str) -> set[str]:
    """The addresses that backends saw on the path of a check."""
    return {str(parse_address(probe.seen[0])) for probe in ended.run.probes.get(check, []) if probe.seen}


def wrong(ended: Ended, *fine: Status) -> list[str]:
    """The checks that came out otherwise, and what was said of each."""
    return [
        f"{check}: {each.status} {each.reason}" for check, each in ended.run.verdicts.items() if each.status not in fine
    ]


def test_two_hosts_over_ssh_are_seen_by_their_own_addresses(kind: Kind, tmp_path: Path) -> None:
    by_client = {OUTSIDE_1: kind.hosts.east, OUTSIDE_2: kind.hosts.west}
    for host in by_client.values():
        assert not [line for line in routes(host) if line.startswith("default") or " via " in line]
    axes = list(product(kind.families, by_client))
    checks = [check for family, client in axes for proto in ("tcp", "udp") for check in local(family, client, proto)]
    checks += [check for family, client in axes for proto in ("tcp", "udp") for check in other(family, client, proto)]
    checks += [check for family, client in axes for check in (*sticky(family, client), ranged(family, client))]

    ended = kind.run(tmp_path / "run", "--outside", BOTH, "--redact-cloud-ids", *checks)
    assert ended.code == ExitCode.CONFORMANT, ended.text[-4000:]
    assert "PARTIAL" in ended.text
    run = ended.run
    assert run.whole, run.trouble
    assert wrong(ended, *HEARD) == []
    assert set(checks) <= run.verdicts.keys()
    assert sum(each.status is Status.PASS for each in run.verdicts.values()) > len(checks) // 2

    for client, host in by_client.items():
        assert set(run.topology["clients"][client]["addresses"]) == set(host.addresses.values())
        for family, address in host.addresses.items():
            fact = run.facts[f"vantage.{client}.{family.value.lower()}"]
            assert fact.value == f"direct: {address}"
            assert f"with its own address {address}" in fact.decided
            for check in (*local(family, client), *local(family, client, "udp"), *sticky(family, client)):
                assert seen(ended, check) == {address}, check
            admitted = {address} if client == OUTSIDE_1 else set()
            assert seen(ended, ranged(family, client)) == admitted

    for host in by_client.values():
        assert left_on(host) == []
    assert ended.naming(secrets_of(kind.hosts)) == []
    assert kind.namespaces() == []


def test_this_machine_is_seen_by_its_own_address_and_is_one_client_only(kind: Kind, tmp_path: Path) -> None:
    checks = [check for family in kind.families for check in (*local(family, OUTSIDE_1), *other(family, OUTSIDE_1))]
    second = [check for family in kind.families for check in local(family, OUTSIDE_2)]
    lonely = "only one outside client: this machine; add more with --outside"

    code, said = kind.doctor("--outside", "machine", *checks, *second)
    assert code == ExitCode.CONFORMANT, said["checks"]
    (check,) = (each for each in said["checks"] if each["name"] == "outside")
    assert (check["grade"], check["sentence"].partition(";")[0]) == ("warn", "this machine")
    assert lonely in check["sentence"]
    (group,) = (each for each in said["work"]["unsupported"] if lonely in each["why"])
    assert set(group["rows"]) == set(second)

    ended = kind.run(tmp_path / "run", "--outside", "machine", *checks, *second)
    assert ended.code == ExitCode.CONFORMANT, ended.text[-4000:]
    assert "PARTIAL" in ended.text
    assert wrong(ended, *HEARD, Status.UNSUPPORTED) == []
    left_out = {check: each.reason for check, each in ended.run.verdicts.items() if each.status is Status.UNSUPPORTED}
    assert left_out.keys() == set(second)
    assert all(lonely in reason for reason in left_out.values())
    for family, address in kind.own_addresses().items():
        fact = ended.run.facts[f"vantage.{OUTSIDE_1}.{family.value.lower()}"]
        assert fact.value == f"direct: {address}"
        assert fact.decided.endswith("nothing rewrites it on the way")
        for check in local(family, OUTSIDE_1):
            assert seen(ended, check) == {address}, check
    assert kind.namespaces() == []


def test_a_doctor_is_content_with_both_hosts_and_leaves_nothing_there(kind: Kind) -> None:
    code, said = kind.doctor("--outside", BOTH, *local(kind.families[0], OUTSIDE_2))
    assert (code, said["fit"]) == (ExitCode.CONFORMANT, True), said["checks"]
    (check,) = (each for each in said["checks"] if each["name"] == "outside")
    assert check["grade"] == "ok"
    assert f"host root@{EAST} over ssh" in check["sentence"]
    assert f"host {WEST}:22 over ssh" in check["sentence"]
    assert said["work"]["unsupported"] == []
    assert left_on(kind.hosts.east) == left_on(kind.hosts.west) == []


CANNOT_BE_HAD = [(LOCKED, f"{LOCKED} denies access"), (PYTHONLESS, f"There is no python3 on {PYTHONLESS}.")]


@pytest.mark.parametrize(("host", "sentence"), CANNOT_BE_HAD)
def test_a_host_that_cannot_be_had_makes_it_unfit(kind: Kind, host: str, sentence: str) -> None:
    inside = f"clusterip.tcp.{kind.families[0].value.lower()}"  # else there were nothing left to be asked, either
    code, said = kind.doctor("--outside", f"ssh:{host}", inside)
    assert (code, said["fit"]) == (ExitCode.USAGE, False)
    (unfit,) = (each for each in said["checks"] if each["grade"] == "no")
    assert unfit["name"] == "outside"
    assert unfit["sentence"].startswith(sentence)
    assert unfit["hint"]


@pytest.mark.parametrize(("host", "sentence"), CANNOT_BE_HAD)
def test_a_run_with_such_a_host_ends_before_anything_is_made(
    kind: Kind, tmp_path: Path, host: str, sentence: str
) -> None:
    check = local(kind.families[0], OUTSIDE_1)[0]
    ended = kind.run(tmp_path / "run", "--outside", f"machine,ssh:{host}", check)
    assert ended.code == ExitCode.USAGE, ended.text[-2000:]
    assert sentence in ended.text
    assert "hint: " in ended.text
    assert "Traceback" not in ended.text
    assert kind.namespaces() == []


def test_checks_of_a_host_without_a_route_to_the_nodes_are_unsupported(kind: Kind, tmp_path: Path) -> None:
    checks = {family: local(family, OUTSIDE_1)[0] for family in kind.families}
    with kind.hosts.west.cut_off_from(address for own in kind.nodes.values() for address in own.values()):
        ended = kind.run(tmp_path / "run", "--outside", f"ssh:{WEST}", *checks.values())
    assert ended.code == ExitCode.CONFORMANT, ended.text[-4000:]
    assert "PARTIAL" in ended.text
    assert wrong(ended, Status.UNSUPPORTED) == []
    for family, check in checks.items():
        said = f"vantage.outside.{family.value.lower()}: outside-1 reaches no control listener over {family} (dialled: "
        assert said in ended.run.verdicts[check].reason
    assert left_on(kind.hosts.west) == []
    assert kind.namespaces() == []


OWN = {Family.IPV4: "198.18.77.7", Family.IPV6: "2001:2:0:77::7"}
"""The addresses of a host's sockets behind NAT; nothing routes to them."""


@pytest.mark.parametrize(("beside", "finding"), [("", "given"), (",docker:kind", "nat")])
def test_a_host_behind_nat_that_reaches_no_node_is_seen_by_the_address_that_is_given(
    kind: Kind, tmp_path: Path, beside: str, finding: str
) -> None:
    west = kind.hosts.west
    shown = {family: west.addresses[family] for family in kind.families}
    given = "+".join(shown.values())
    nodes = [address for own in kind.nodes.values() for address in own.values()]
    vips = [f"loadbalancer.local.{protocol}.{family.value.lower()}.{OUTSIDE_1}-to-vip"
            for family in shown for protocol in ("tcp", "udp")]  # fmt: skip
    at_nodes = {family: local(family, OUTSIDE_1)[0] for family in shown}
    # A neighbour of the nodes is a witness if a check needs it.
    neighbour = [local(family, OUTSIDE_2)[0] for family in shown if beside]
    with west.behind_nat({family: OWN[family] for family in shown}), west.cut_off_from(nodes):
        outside = f"ssh:{WEST}={given}{beside}"
        ended = kind.run(tmp_path / "run", "--outside", outside, *vips, *at_nodes.values(), *neighbour)
    assert ended.code == ExitCode.CONFORMANT, ended.text[-4000:]
    assert wrong(ended, *HEARD, Status.UNSUPPORTED) == []
    for family, address in shown.items():
        assert ended.run.facts[f"vantage.{OUTSIDE_1}.{family.value.lower()}"].value == f"{finding}: {address}"
        assert ended.run.verdicts[at_nodes[family]].status is Status.UNSUPPORTED
        assert f"vantage.outside.nodes.{family.value.lower()}" in ended.run.verdicts[at_nodes[family]].reason
    for check in vips:
        assert ended.run.verdicts[check].status is Status.PASS, check
        assert seen(ended, check) <= set(shown.values()), "the NAT's address, and not that of the host's sockets"
    assert left_on(west) == []
    assert kind.namespaces() == []


def test_a_wrong_address_of_this_machine_is_not_believed(kind: Kind, tmp_path: Path) -> None:
    family = kind.families[0]
    wrong_one = {Family.IPV4: "203.0.113.9", Family.IPV6: "2001:db8::9"}[family]
    check = local(family, OUTSIDE_1)[0]
    ended = kind.run(tmp_path / "run", "--outside", f"machine={wrong_one}", check)
    assert ended.run.verdicts[check].status is Status.UNSUPPORTED
    assert f"--outside says that {OUTSIDE_1} is seen as {wrong_one}, but " in ended.run.verdicts[check].reason
