"""Pod network of a hermetic node: a CNI configuration for this node's podCIDRs, routes to those of the others.

Nothing is masqueraded: there is no network outside of the cluster's own, and an address that the add-on rewrites would
be taken for one that the dataplane rewrote.
"""

import json
import os
import re
import ssl
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
CONFIG = Path("/etc/cni/net.d/10-esipp.conflist")
PERIOD_SECONDS = 1.0  # a new node is wired within this time
NAME = "esipp-network"  # of the process, as `pgrep -x` finds it
Node = dict[str, Any]


def api_server() -> str:
    """Read the API server's address from the kubelet's own configuration: no cluster name, no service proxy needed."""
    found: list[str] = re.findall(r"server: (\S+)", Path("/etc/kubernetes/kubelet.conf").read_text())
    return found[0]


def nodes() -> list[Node]:
    """List the nodes."""
    trust = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    token = (ACCOUNT / "token").read_text()
    request = urllib.request.Request(  # noqa: S310 - an https address, from the kubelet's configuration
        f"{api_server()}/api/v1/nodes", headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(request, context=trust, timeout=5) as answer:  # noqa: S310 - as above
        items: list[Node] = json.load(answer)["items"]
        return items


def family(address: str) -> str:
    """Return ip's option for the address's family."""
    return "-6" if ":" in address else "-4"


def conflist(cidrs: list[str]) -> dict[str, object]:
    """Return the CNI configuration for a node."""
    defaults = {"-4": "0.0.0.0/0", "-6": "::/0"}
    ipam = {
        "type": "host-local",
        "dataDir": "/run/cni-ipam-state",
        "routes": [{"dst": defaults[family(cidr)]} for cidr in cidrs],
        "ranges": [[{"subnet": cidr}] for cidr in cidrs],
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    point_to_point = {"type": "ptp", "ipMasq": False, "ipam": ipam, "mtu": 1500}
    return {"cniVersion": "0.3.1", "name": "esipp", "plugins": [point_to_point, ports]}


def settle(node: Node) -> None:
    """Bring this node in line with what the API says of one node."""
    cidrs = node["spec"].get("podCIDRs") or []
    if node["metadata"]["name"] == os.environ["NODE_NAME"]:
        text = json.dumps(conflist(cidrs))
        if cidrs and (not CONFIG.exists() or CONFIG.read_text() != text):
            half = CONFIG.with_suffix(".half")
            half.write_text(text)
            half.rename(CONFIG)
            print(f"pods of this node: {cidrs}", flush=True)
        return
    addresses = [a["address"] for a in node["status"].get("addresses", []) if a["type"] == "InternalIP"]
    for cidr in cidrs:
        via = [address for address in addresses if family(address) == family(cidr)]
        if via:
            subprocess.run(["ip", family(cidr), "route", "replace", cidr, "via", via[0]], check=True)


def main() -> None:
    """Follow the nodes for as long as the pod lives."""
    Path("/proc/self/comm").write_text(NAME)
    while True:
        try:
            for node in nodes():
                settle(node)
        except (OSError, IndexError, KeyError, subprocess.CalledProcessError) as error:
            print(repr(error), flush=True)
        time.sleep(PERIOD_SECONDS)  # this add-on has no watch: it settles again and again, as long as the node lives


main()
