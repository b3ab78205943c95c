"""Of equal nodes a connection has one, also when its SYN is sent again: the settings by which kind lanes run it."""

import json

import pytest

from ci.loadbalancer import SYSCTLS
from tests.loadbalancer.test_kernel import in_a_namespace, pytestmark  # noqa: F401 -- it skips what cannot be made here

HASHES = {name.replace(".", "/"): value for name, value in SYSCTLS.items() if "multipath" in name or "forward" in name}
BY_SOCKET = HASHES | {f"net/{family}/fib_multipath_hash_policy": 1 for family in ("ipv4", "ipv6")}
CONNECTIONS = 24

CLIENT = """
import collections, json, socket, subprocess, sys, time
vip, own, length, family, nodes, many = json.loads(sys.stdin.readline())
six = family == "IPv6"
for command in (
    "ip link set lo up", "ip link set other up", f"ip address add {own}/{length} dev other" + " nodad" * six,
):
    subprocess.run(command.split(), check=True)
seen = collections.defaultdict(list)
sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x86DD if six else 0x0800))
sniffer.bind(("other", 0))
sniffer.settimeout(0.2)
asked = []
for _ in range(many):
    dialling = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_STREAM)
    dialling.setblocking(False)
    dialling.connect_ex((vip, 80))
    asked.append(dialling)
ports = {each.getsockname()[1] for each in asked}
end = time.monotonic() + 20
while time.monotonic() < end and not all(len(seen[port]) > 1 for port in ports):
    try:
        frame = sniffer.recv(2048)
    except TimeoutError:
        continue
    if frame[:6].hex(":") in nodes:
        tcp = 14 + (40 if six else 20)
        seen[int.from_bytes(frame[tcp:tcp + 2], "big")].append(frame[:6].hex(":"))
print(json.dumps([seen[port] for port in ports]))
"""

ROUTER = """
import json, sys
kernel = Kernel("eth0")
for name, value in SETTINGS.items():
    open(f"/proc/sys/{name}", "w").write(str(value))
for where in ("all", "default", "eth0"):
    open(f"/proc/sys/net/ipv4/conf/{where}/rp_filter", "w").write("0")
    open(f"/proc/sys/net/ipv4/conf/{where}/send_redirects", "w").write("0")
client = subprocess.Popen(
    ["unshare", "--net", sys.executable, "-c", CLIENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
)
while shown(f"readlink /proc/{client.pid}/ns/net") == shown("readlink /proc/self/ns/net"):
    assert client.poll() is None
shown(f"ip link set other netns {client.pid}")
kernel.set_up()
macs = {"02:00:00:00:00:0a": NODES[0], "02:00:00:00:00:0b": NODES[1]}
for mac, node in macs.items():
    shown(f"ip neigh replace {node} lladdr {mac} dev eth0 nud permanent")
kernel.assign({VIP})
kernel.steer(VIP, {node: 1 for node in NODES})
answers, _ = client.communicate(json.dumps([VIP, OWN, LENGTH, FAMILY, list(macs), MANY]) + "\\n", timeout=40)
went = json.loads(answers)
assert all(len(each) > 1 for each in went), ("not every SYN was sent again", went)
assert len({each[0] for each in went}) == 2, ("all connections have one node", went)
moved = [each for each in went if len(set(each)) > 1]
assert bool(moved) is MOVES, (moved, went)
"""


@pytest.mark.parametrize(
    ("settings", "moves"), [(HASHES, False), (BY_SOCKET, True)], ids=["by-headers", "by-the-senders-socket"]
)
@pytest.mark.parametrize(
    ("family", "vip", "own", "length", "nodes"),
    [
        ("IPv4", "192.0.2.10", "192.0.2.50", 24, ["192.0.2.2", "192.0.2.3"]),
        ("IPv6", "2001:db8::10", "2001:db8::50", 64, ["2001:db8::2", "2001:db8::3"]),
    ],
)
def test_a_syn_that_is_sent_again_goes_to_the_same_node(
    family: str, vip: str, own: str, length: int, nodes: list[str], settings: dict[str, int], *, moves: bool
) -> None:
    """By the sender's socket, whose hash it changes when nothing answers, SYNs move: what the settings are against."""
    names = {"VIP": vip, "OWN": own, "LENGTH": length, "FAMILY": family, "NODES": nodes, "MANY": CONNECTIONS}
    given = "\n".join(f"{name} = {json.dumps(value)}" for name, value in (names | {"SETTINGS": settings}).items())
    in_a_namespace(f"{given}\nMOVES = {moves}\nCLIENT = {CLIENT!r}\n{ROUTER}")
