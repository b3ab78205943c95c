"""A node's addresses in a network namespace: others in place of its own, and all of them after it has booted."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from esipp.checks.disruption import Disruption
from esipp.disruption import shell
from esipp.probing import node_machines
from tests.tools import needs_root, needs_tool

pytestmark = [needs_root, needs_tool("ip", "unshare")]

PREPARE = """
cp -a /etc/alternatives {folder}; mount -t tmpfs none /etc; cp -a {folder}/alternatives /etc
mount -t tmpfs none /var/lib; mkdir /var/lib/kubelet
echo 'KUBELET_KUBEADM_ARGS="--node-ip=192.0.2.4,2001:db8::4 --node-labels="' >{flags}
export PATH={folder}:$PATH ESIPP_MARKS={folder}/marks; mkdir {folder}/marks
ip link set lo up; ip link add eth0 type veth peer name other; ip link set other up; ip link set eth0 up
further() {{
  ip address add 192.0.2.104/24 dev eth0
  ip address add 2001:db8::104/64 dev eth0 nodad valid_lft forever preferred_lft 0
}}
ip address add 192.0.2.4/24 brd + dev eth0; ip address add 2001:db8::4/64 dev eth0 nodad; further
ip route add default via 192.0.2.1; ip -6 route add default via 2001:db8::1
ip route add 10.244.1.0/24 via 192.0.2.2
state() {{
  ip -o address show dev eth0 scope global | sed 's/.*inet6* \\([^ ]*\\).*/\\1/'
  ip route show; sed 's/.*node-ip=\\([^ ]*\\).*/\\1/' {flags}; cat {promotes}; cat {folder}/put 2>/dev/null || true
}}
"""
NOTHING = "#!/bin/sh"
PROMOTES = "/proc/sys/net/ipv4/conf/eth0/promote_secondaries"

KUBECTL = """#!/bin/sh
case "$*" in
  *"get --raw"*) echo "{}" ;;
  *"patch --local"*) cat >/dev/null; for each; do case $each in *addresses*) echo "$each" ;; esac; done ;;
  *"replace --raw"*) cat >"$(dirname "$0")/put" ;;
esac"""


def in_a_namespace(folder: Path, script: str) -> str:
    """What a script prints on a node whose kubectl, kubelet and name are ours."""
    for name, text in {
        "kubectl": KUBECTL,
        "systemctl": NOTHING,
        "systemd-run": NOTHING,
        "hostname": "#!/bin/sh\necho a",
    }.items():
        (folder / name).write_text(f"{text}\n")
        (folder / name).chmod(0o755)
    prepared = PREPARE.format(folder=folder, flags=shell.FLAGS, promotes=PROMOTES) + script
    command = ["unshare", "--net", "--mount", "sh", "-ec", prepared]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr + done.stdout
    return done.stdout


def state(four: str, six: str, put: str = "") -> Sequence[str]:
    """What a node shows with these own addresses."""
    own = [f"{four}/24", "192.0.2.104/24", f"{six}/64", "2001:db8::104/64"]
    routes = [
        "default via 192.0.2.1 dev eth0",
        "10.244.1.0/24 via 192.0.2.2 dev eth0",
        f"192.0.2.0/24 dev eth0 proto kernel scope link src {four}",
    ]
    return sorted([*own, *routes, f"{four},{six}", "0", *([put] if put else [])])


def test_a_node_gets_other_addresses_and_its_own_back_and_keeps_all_others(tmp_path: Path) -> None:
    pairs = [("192.0.2.4", "192.0.2.36"), ("2001:db8::4", "2001:db8::24")]
    before = [{"type": "InternalIP", "address": "192.0.2.4"}]
    after = [{"type": "InternalIP", "address": "192.0.2.36"}]
    note = shell.note_readdressing(pairs, before, after)
    readdressed = shell.SERVICES[Disruption.NODE_READDRESSED]
    shown = in_a_namespace(
        tmp_path,
        f"""state; echo ==
{note}
! ({readdressed.is_stopped}) >/dev/null || echo so already
sh "$ESIPP_MARKS/readdress"; sh "$ESIPP_MARKS/readdress"
({readdressed.is_stopped}) >/dev/null || echo not so
state; echo ==
{readdressed.go_on}
state; echo ==; ls $ESIPP_MARKS""",
    )
    first, meanwhile, again, left = (sorted(filter(None, part.splitlines())) for part in shown.split("==\n"))
    assert [line.rstrip() for line in first] == state("192.0.2.4", "2001:db8::4")
    named = '{"status": {"addresses": [{"type": "InternalIP", "address": "%s"}]}}'
    assert [line.rstrip() for line in meanwhile] == state("192.0.2.36", "2001:db8::24", named % "192.0.2.36")
    assert [line.rstrip() for line in again] == state("192.0.2.4", "2001:db8::4", named % "192.0.2.4")
    assert left == []


def test_a_node_that_boots_gives_itself_the_addresses_that_docker_does_not_know(tmp_path: Path) -> None:
    shown = in_a_namespace(
        tmp_path,
        f"""mkdir -p /etc/systemd/system
{node_machines.KEEP}
ip -o address show dev eth0 scope global | sort >{tmp_path}/before
ip address delete 192.0.2.104/24 dev eth0; ip address delete 2001:db8::104/64 dev eth0
sed -n 's/^ExecStart=//p' /etc/systemd/system/multi-user.target.wants/*.service >{tmp_path}/boots
sh {tmp_path}/boots
ip -o address show dev eth0 scope global | sort | diff {tmp_path}/before -
find /etc -name 'esipp*'""",
    )
    assert shown == ""
