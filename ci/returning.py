"""Routing of nodes' answers through the reference load balancer, where it translates destinations.

A client that dialled a VIP accepts no answer from a node's own address: the load balancer must translate it back. In a
cloud the network routes the answers there. Here each node recognises packets from the load balancer to its own
addresses by the sender's link address, marks the connection, and routes its answers to the load balancer.
"""

import ipaddress
import shlex
from collections.abc import Sequence

from ci import network
from ci.access import ClusterAccess
from ci.containers import docker

MARK = "0x1000000/0x1000000"  # no bit of kube-proxy's
TABLE, PREFERENCE = 3665, 100
NOTE = "esipp-returning"
PROGRAMS = {4: ("iptables", "ip -4"), 6: ("ip6tables", "ip -6")}


def script(balancer: str, mac: str) -> str:
    """The commands for one node and one family; a node that has the rules gets them anew.

    Args:
        balancer: the load balancer's own address, which is of that family.
        mac: its link address.
    """
    program, ip = PROGRAMS[ipaddress.ip_address(balancer).version]
    answers = f"--match conntrack --ctdir REPLY --match connmark --mark {MARK} --jump MARK --set-xmark {MARK}"
    came = f"--match mac --mac-source {mac} --match addrtype --dst-type LOCAL --match conntrack --ctstate NEW"
    rules = [
        f"PREROUTING {came} --jump CONNMARK --set-xmark {MARK}",
        f"PREROUTING {answers}",
        f"OUTPUT {answers}",
    ]
    noted = [f"{rule} --match comment --comment {NOTE}" for rule in rules]
    lines = [f"--append {rule}" for rule in noted]
    restore = f"{program}-restore --noflush --wait"
    return " && ".join(
        [
            f"{{ {taking_away(program, ip)}; }}",
            f"printf '*mangle\\n%s\\nCOMMIT\\n' {shlex.quote(chr(10).join(lines))} | {restore}",
            f"{ip} rule add fwmark {MARK} lookup {TABLE} preference {PREFERENCE}",
            f"{ip} route replace default via {balancer} dev {network.INTERFACE} table {TABLE}",
        ]
    )


def taking_away(program: str, ip: str) -> str:
    """The commands that take all of it away, where it is."""
    found = f"{program} --wait -t mangle -S | grep -- {NOTE} | sed s/^-A/-D/"
    away = f"printf '*mangle\\n%s\\nCOMMIT\\n' \"$found\" | {program}-restore --noflush --wait"
    rule = f"while {ip} rule del preference {PREFERENCE} 2>/dev/null; do :; done"
    return f'found=$({found}); [ -z "$found" ] || {away}; {rule}; {ip} route flush table {TABLE} 2>/dev/null || true'


def give(there: ClusterAccess, balancer: Sequence[str], mac: str) -> None:
    """Make every node answer through the load balancer what arrived from it."""
    for node, own in network.node_addresses(there).items():
        families = {ipaddress.ip_address(each).version for each in own}
        commands = [script(each, mac) for each in balancer if ipaddress.ip_address(each).version in families]
        docker(there, "exec", node, "sh", "-c", " && ".join(commands))


def take_away(there: ClusterAccess) -> None:
    """Have every node answer by itself again."""
    for node in network.node_addresses(there):
        docker(there, "exec", node, "sh", "-c", "; ".join(taking_away(*each) for each in PROGRAMS.values()))
