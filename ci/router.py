"""A router next to the kind nodes: BIRD receives their routes by BGP, and the kernel does ECMP over the nodes.

Its address range is outside the kind network's subnet. The default gateway of that network is this machine, in the
docker engine's network namespace. One route there leads clients to the router, those in containers and those on this
machine. Nodes answer clients directly.
"""

import ipaddress
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ci import network
from ci.access import ClusterAccess
from ci.containers import Image, docker, forwarding, inspect, runs
from ci.loadbalancer import SYSCTLS
from ci.places import ROOT, Places, places
from ci.polling import until
from ci.step import Journal, SetupError

IMAGE = Image("localhost/esipp/router", ROOT / "images" / "router", "the router's")
NAME = "esipp-router"
ROUTED = "198.51.100.0/24"  # TEST-NET-2 (RFC 5737): nobody has it
POOL = "198.51.100.1-198.51.100.100"
AS = 64512  # of the nodes and of the router alike
HOLD_SECONDS = 9  # how long a silent node is believed; it speaks three times as often
READY_SECONDS = 60.0
HASHED = {name: value for name, value in SYSCTLS.items() if "nonlocal_bind" not in name and "unix" not in name}
"""Forwarding, hashing and redirects as in the reference load balancer, which documents these fields."""

CONFIG = """log stderr all;
protocol device {{}}
# A next hop that a node of the same AS announces is looked up, and found on this network.
protocol direct {{ ipv4; interface "{interface}"; }}
protocol kernel {{
  ipv4 {{ import none; export where source = RTS_BGP; }};
  merge paths on;
}}
template bgp node {{
  local as {number};
  passive on;
  hold time {hold};
  ipv4 {{ import where net ~ [ {routed}{{32,32}} ]; export none; }};
}}
"""


def config(nodes: Mapping[str, Sequence[str]]) -> str:
    """Write BIRD's configuration: one session a node, which the node's speaker opens.

    Args:
        nodes: the nodes' InternalIPs, by name.

    Raises:
        SetupError: a node has no IPv4 address; the range has no other.
    """
    text = CONFIG.format(interface=network.INTERFACE, number=AS, hold=HOLD_SECONDS, routed=ROUTED)
    for node, addresses in sorted(nodes.items()):
        four = [address for address in addresses if ipaddress.ip_address(address).version == 4]
        if not four:
            raise SetupError(f"Node {node} has no IPv4 address.", "the router's range is IPv4 only")
        text += f"protocol bgp {session(node)} from node {{ neighbor {four[0]} as {AS}; }}\n"
    return text


def session(node: str) -> str:
    """Name a node's session as BIRD's names are: letters, digits and underscores."""
    return "node_" + re.sub(r"\W", "_", node)


def start(there: ClusterAccess, image: str, journal: Journal) -> str:
    """Start the router, route the range to it, and return its address; the nodes open BGP sessions."""
    with journal.step("start the router", hint=f"ci/enter docker logs {NAME}") as step:
        remove(there)
        folder = settings(places())
        folder.mkdir(parents=True, exist_ok=True)
        text = config(network.node_addresses(there))
        (folder / "bird.conf").write_text(text)
        step.say(text)
        docker(there, *container(there, image, folder))

        def answers() -> bool:
            return there.ask("docker", "exec", NAME, "birdc", "-s", "/run/bird.ctl", "show", "status") is not None

        until(lambda: answers() or not runs(there, NAME), READY_SECONDS)
        if not answers():
            raise SetupError("The router did not start.", f"ci/enter docker logs {NAME}", step.log)
        address = _address(there)
        step.say(docker(there, *on_this_machine(image, "route", "replace", ROUTED, "via", address)))
        step.note = f"{ROUTED} via {address}"
    return address


def await_sessions(there: ClusterAccess, journal: Journal, selector: str = "") -> None:
    """Wait until the speaker of every node has opened its session, or that of every node with these labels."""
    hint = f"ci/enter docker exec {NAME} birdc -s /run/bird.ctl show protocols all"
    with journal.step("wait for the nodes' BGP sessions", hint=hint) as step:
        wanted = {session(node) for node in network.node_addresses(there, selector)}

        def missing() -> set[str]:
            return wanted - established(
                docker(there, "exec", NAME, "birdc", "-s", "/run/bird.ctl", "show", "protocols")
            )

        if not until(lambda: not missing(), READY_SECONDS, 0.5):
            raise SetupError(f"No BGP session of {', '.join(sorted(missing()))}.", hint, step.log)
        step.note = f"{len(wanted)} sessions"


def established(output: str) -> set[str]:
    """The established sessions in the output of ``birdc show protocols``."""
    checks = (line.split() for line in output.splitlines())
    return {check[0] for check in checks if len(check) > 5 and check[1] == "BGP" and check[-1] == "Established"}


def remove(there: ClusterAccess) -> None:
    """Take the route and the container away, where they are."""
    found = inspect(there, NAME)
    if not found:
        return
    taking = on_this_machine(found["Config"]["Image"], "route", "del", ROUTED)
    there.ask("docker", *taking)  # it may be gone with the network
    docker(there, "rm", "--force", NAME)


def settings(where: Places) -> Path:
    """The path of its configuration."""
    return where.run / "router"


def container(there: ClusterAccess, image: str, folder: Path) -> list[str]:
    """Say how docker runs it: it may set routes, open BGP's port, and nothing else."""
    on, sysctls = forwarding(there, HASHED)
    command = ["run", "--detach", "--name", NAME, "--hostname", NAME, "--network", on, "--restart", "no"]
    command += ["--read-only", "--tmpfs", "/run:mode=0755", "--security-opt", "no-new-privileges"]
    command += ["--cap-drop", "ALL", "--cap-add", "NET_ADMIN", "--cap-add", "NET_BIND_SERVICE", "--cap-add", "NET_RAW"]
    command += [part for each in sysctls for part in ("--sysctl", each)]
    return [*command, "--volume", f"{folder}:/router:ro", image]


def on_this_machine(image: str, *arguments: str) -> list[str]:
    """Say how `ip` is run where the engine is: that namespace has the bridge which is everybody's default gateway."""
    command = ["run", "--rm", "--network", "host", "--read-only", "--cap-drop", "ALL", "--cap-add", "NET_ADMIN"]
    return [*command, "--entrypoint", "ip", image, *arguments]


def _address(there: ClusterAccess) -> str:
    shown = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
    address = docker(there, "inspect", "--format", shown, NAME).strip()
    if not address:
        raise SetupError("The router has no IPv4 address on the kind network.", f"ci/enter docker inspect {NAME}")
    return address
