"""Connection tracking entries of this run's Services, deleted on a node."""

import re

from esipp.base.errors import HarnessError
from esipp.base.interrupt import Stop
from esipp.base.plural import counted
from esipp.cluster.client import Cluster
from esipp.disruption.actions import Action
from esipp.probing.node_containers import run as run_on

DELETED = re.compile(r"(\d+) flow entries have been deleted")


class EntriesDeleted(Action):
    """Connection tracking entries of this run's Services, deleted on a node: nothing is left to undo."""

    def __init__(self, cluster: Cluster, run: str, node: str, way: tuple[str, ...]) -> None:
        self._cluster, self._run, self._node, self._way = cluster, run, node, way
        self._number = 0

    def do(self) -> None:
        """Delete them: by the nodePorts of the run's Services, and by their VIPs."""
        services = self._cluster.list(f"/api/v1/namespaces/esipp-{self._run}/services")
        ports = sorted(
            {port["nodePort"] for each in services for port in each["spec"]["ports"] if port.get("nodePort")}
        )
        given = [each.get("status", {}).get("loadBalancer", {}).get("ingress") or [] for each in services]
        vips = sorted({each["ip"] for those in given for each in those if each.get("ip")})
        filters = [
            f"-f {family} -p {protocol} --orig-port-dst {port}"
            for port in ports
            for family in ("ipv4", "ipv6")
            for protocol in ("tcp", "udp")
        ]
        filters += [f"-f {'ipv6' if ':' in vip else 'ipv4'} --orig-dst {vip}" for vip in vips]
        # conntrack says of each filter how many it deleted, and fails if there was none
        lines = [f"conntrack -D {each} 2>&1 >/dev/null || true" for each in filters]
        done = run_on(self._way, "\n".join(["command -v conntrack >/dev/null || exit 1", *lines]))
        if done.returncode != 0:
            raise HarnessError(f"There is no conntrack on node {self._node}.", "check that this is a node of kind.")
        self._number = sum(int(number) for number in DELETED.findall(done.stdout))

    def prove(self, stop: Stop) -> str:
        """Check that there were any."""
        stop.check()
        if not self._number:
            raise HarnessError(
                f"Node {self._node} had no connection tracking entry of this run's Services.",
                "check whether the service proxy uses the kernel's connection tracking.",
            )
        return f"{counted(self._number, 'connection tracking entry', 'connection tracking entries')} deleted"
