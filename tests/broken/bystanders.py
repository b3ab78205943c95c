"""Resources of other owners in and around a cluster, created as bystanders, and snapshots of everything."""

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from esipp.base.labels import RUN_LABEL
from esipp.cluster.client import Cluster
from esipp.judging.topology import read_node
from esipp.probing.outside import find_network
from tests.broken import snapshot

NAME = "esipp-bystander"
"""A name like the suite's, without its labels."""

ADDRESSES = "198.51.100.0/24"
"""A documentation address (RFC 5737)."""

MARKED = f"iptables --wait -t nat %s PREROUTING -d {ADDRESSES} -m comment --comment {NAME} -j RETURN"
PLANTED = (
    f"ip route add blackhole {ADDRESSES}",
    "ip rule add from 198.51.100.7 lookup main pref 1234",
    MARKED % "-I",
)
UPROOTED = (MARKED % "-D", "ip rule del pref 1234", f"ip route del blackhole {ADDRESSES}")

LOOKS = {
    "routes": "ip route show table all; ip -6 route show table all",
    "rules": "ip rule; ip -6 rule",
    "addresses": "ip -brief address",
    "filter": "iptables-save; ip6tables-save; ! which nft >/dev/null || nft -s list ruleset 2>/dev/null",
    "namespaces": "ls /run/netns 2>/dev/null || true",
    "programs": "ps -eo args | grep -E '[e]sipp/(echoserver|prober)|[t]cpdump ' || true",
}
"""Snapshot commands for every node, and for this machine's side of the containers' network."""

OF_NODES = ("namespaces", "programs")
"""On this machine these also belong to other processes, and change."""

MARK = "@@@"

BY_ITSELF = re.compile(r"^#.*| \[\d+:\d+\]| expires \d+sec|\s+$")
"""Volatile parts: comments with dates, counters, lifetimes of routes."""

Snapshot = dict[str, Any]


def run(*command: str, given: str | None = None) -> str:
    """What a command prints."""
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, f"{' '.join(command)[:200]}: {done.stderr[:500]}"
    return done.stdout


def lines(text: str) -> dict[str, str]:
    """Lines as a set, to compare one by one."""
    found = {BY_ITSELF.sub("", line) for line in text.splitlines()}
    return dict.fromkeys(sorted(found - {""}), "there")


class Bystanders:
    """Resources of other owners in and around a kind cluster.

    Args:
        context: the context of the kubeconfig.
        image: the image of their pod and container, which is the suite's: clean-up must not go by the image.
    """

    def __init__(self, context: str, image: str) -> None:
        self.context, self.image = context, image
        self.nodes = [read_node(item) for item in Cluster(context).list("/api/v1/nodes")]
        ways: dict[str, Sequence[str]] = {node.name: ("docker", "exec", node.name) for node in self.nodes}
        self.ways = {**ways, "this machine": ()}
        self.kinds = ",".join(self.kubectl("api-resources", "--verbs=list", "--output=name").split())

    def kubectl(self, *words: str, given: str | None = None) -> str:
        """What kubectl prints."""
        return run("kubectl", "--context", self.context, *words, given=given)

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Create the resources."""
        self._uproot()
        try:
            self._plant()
            yield
        finally:
            self._uproot()

    def _plant(self) -> None:
        meta, labels = {"name": NAME, "namespace": NAME}, {"app": NAME}
        pod = {"nodeName": self.nodes[-1].name, "containers": [{"name": "echo", "image": self.image}]}
        service = {
            "type": "NodePort",
            "externalTrafficPolicy": "Local",
            "selector": labels,
            "ports": [{"port": 80, "targetPort": 8080}],
        }
        objects: list[dict[str, Any]] = [
            {"kind": "Namespace", "metadata": {"name": NAME}},
            {"kind": "ConfigMap", "metadata": meta, "data": {"of": "somebody else"}},
            {"kind": "Pod", "metadata": {**meta, "labels": labels}, "spec": pod},
            {"kind": "Service", "metadata": meta, "spec": service},
        ]
        manifests = "\n---\n".join(json.dumps({"apiVersion": "v1", **each}) for each in objects)
        self.kubectl("apply", "--filename=-", given=manifests)
        self.kubectl("wait", "--for=condition=Ready", f"pod/{NAME}", f"--namespace={NAME}", "--timeout=90s")
        network = find_network(self.nodes)
        assert network is not None
        run("docker", "run", "--detach", "--name", NAME, "--network", network, self.image)
        for way in self.ways.values():
            for command in PLANTED:
                run(*way, "sh", "-c", command)

    def _uproot(self) -> None:
        for way in self.ways.values():
            for command in UPROOTED:
                subprocess.run([*way, "sh", "-c", command], capture_output=True, timeout=100, check=False)
        subprocess.run(["docker", "rm", "--force", NAME], capture_output=True, timeout=100, check=False)
        self.kubectl("delete", "namespace", NAME, "--ignore-not-found")

    def take(self) -> Snapshot:
        """A snapshot of everything, the suite's and others'."""
        labelled = self.kubectl("get", self.kinds, "--all-namespaces", "--selector", RUN_LABEL, "--output=name")
        objects = snapshot.take(self.context)
        for each in objects.values():
            each.get("status", {}).pop("resources", None)  # a kubelet reads a new pod's cgroup up to a minute later
        seen: Snapshot = {
            "objects": objects,
            "namespaces": lines(self.kubectl("get", "namespaces", "--output=name")),
            "config maps": lines(self.kubectl("get", "configmaps", "--all-namespaces", "--output=name")),
            "objects with our label": lines(labelled),
            "containers": lines(run("docker", "ps", "--all", "--format", "{{.Names}} {{.ID}} {{.State}}")),
            "networks": lines(run("docker", "network", "ls", "--format", "{{.Name}} {{.ID}}")),
        }
        for place, way in self.ways.items():
            looks = {what: command for what, command in LOOKS.items() if way or what not in OF_NODES}
            script = "; ".join(f"echo {MARK}; {command}" for command in looks.values())
            parts = run(*way, "sh", "-c", script).split(f"{MARK}\n")[1:]
            for what, text in zip(looks, parts, strict=True):
                seen[f"{what} of {place}"] = lines(text)
        return seen
