"""What of the suite goes over all nodes, done once in a process of its own, and measured: a line of JSON at the end.

``python -m tests.large.measure KUBECONFIG NODES``; it asks for changes of health on stdout, and waits on stdin until
they are made.
"""

import contextlib
import json
import resource
import secrets
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from esipp.base.labels import RUN_LABEL
from esipp.base.waiting import Budget, Reading, converge
from esipp.checks.catalog import HOUSE, suite_names
from esipp.checks.model import Family
from esipp.cluster.client import Cluster
from esipp.cluster.namespaces import owner, remove_namespace, wait_for_account
from esipp.cluster.pods import is_ready
from esipp.judging.topology import Node
from esipp.ledger.run import Settings
from esipp.preflight.preflight import examine
from esipp.probing.prober import Prober
from esipp.scenarios.endpoint_change.other_nodes import Everywhere
from esipp.testbed import agents, manifests
from esipp.testbed.sampling import Sample
from tests.large.control_plane import MEASURED
from tests.large.nodes import HEALTH_PORT

IMAGE = "localhost/esipp/echoserver:large"
SEED = 7
PROBER = HOUSE / "images" / "echoserver" / "prober.py"
ROUNDS = Budget("rounds of health checks", 90.0, need=1, spacing=0.05)
PLACED = 120.0


class Measure:
    """The steps, and what each took."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.seconds: dict[str, float] = {}
        self.run = secrets.token_hex(4)

    @contextlib.contextmanager
    def timed(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - began, 2)

    def look(self) -> tuple[Mapping[str, Node], Sample]:
        """The whole of preflight."""
        settings = Settings(context=MEASURED, outside="none", image=IMAGE, seed=SEED)
        found = examine(self.cluster, settings, suite_names())
        assert not found.notes, found.notes
        return found.nodes, found.sample

    def place(self, chosen: Sample) -> dict[str, str]:
        """Agents on the sampled nodes, by the testbed's means: the node each one is on."""
        namespace = f"esipp-{self.run}"
        space = manifests.namespace(namespace, self.run, owner())
        self.cluster.create("/api/v1/namespaces", space)
        wait_for_account(self.cluster, namespace)
        agents.create(self.cluster, namespace, agents.daemon_set(self.run, IMAGE, chosen.nodes, raw=True))
        names = {agents.waited_for(node) for node in chosen.nodes}
        there = self.cluster.wait_for(
            f"/api/v1/namespaces/{namespace}/pods", is_ready, names, budget=PLACED, key=agents.key_of,
            labelSelector=f"{RUN_LABEL}={self.run}",
        )  # fmt: skip
        return {name: each["spec"]["nodeName"] for name, each in there.items() if is_ready(each)}

    def poll(self, nodes: Mapping[str, Node], chosen: Sample) -> dict[str, Any]:
        """Every node's health check, while all of them begin to serve, and end."""
        with ThreadPoolExecutor(max_workers=12) as pool:
            made = list(pool.map(lambda node: Prober(f"the agent on {node}", [sys.executable, "-B", str(PROBER)]),
                                 chosen.nodes))  # fmt: skip
        probers = dict(zip(chosen.nodes, made, strict=True))
        addresses = {name: node.internal[Family.IPV4] for name, node in nodes.items()}
        polls = Everywhere(probers, addresses, HEALTH_PORT, probes=2)
        try:
            for each in made:
                each.hello()
            polls.start()
            self._rounds(polls, 1)
            for change in ("serve", "end"):
                print(change, flush=True)
                sys.stdin.readline()
                self._rounds(polls, 2)  # the round that it fell into, and a whole one
            polls.stop()
        finally:
            for each in made:
                each.close()
        said = {node: [each.said for each in answers] for node, answers in polls.by_node.items()}
        found = polls.answers("x")
        return {
            "pace": round(polls.pace, 2),
            "rounds": polls.rounds,
            "answers": sum(each.count for answers in polls.by_node.values() for each in answers),
            "followed": sum(each == ["503", "200", "503"] for each in said.values()),
            "wrongly": {node: each for node, each in said.items() if each != ["503", "200", "503"]},
            "answered_wrong": len(found.wrong),
            "trouble": polls.trouble,
        }

    def _rounds(self, polls: Everywhere, count: int) -> None:
        wanted = polls.rounds + count

        def look() -> Reading:
            return Reading(polls.rounds >= wanted, f"{polls.rounds} of {wanted}: {polls.trouble}", bool(polls.trouble))

        waited = converge(look, ROUNDS)
        assert waited.held, waited


def peak() -> float:
    """MiB of this process, at most so far."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def main() -> None:
    kubeconfig, count = sys.argv[1], int(sys.argv[2])
    made = Measure(Cluster(MEASURED, kubeconfig))
    before = peak()
    with made.timed("preflight"):
        nodes, chosen = made.look()
    assert len(nodes) == count, f"{len(nodes)} nodes"
    with made.timed("agents"):
        placed = made.place(chosen)
    looked = made.cluster.calls.counts()
    with made.timed("health checks"):
        polled_figures = made.poll(nodes, chosen)
    polled = made.cluster.calls.counts()
    memory = peak()
    remove_namespace(made.cluster, f"esipp-{made.run}")
    result = {
        "nodes": count, "agents": len(chosen.nodes), "seed": SEED, "sample": list(chosen.nodes),
        "sample_said": chosen.words, "decided": chosen.decided,
        "placed": placed, "before": before, "peak": memory, "seconds": made.seconds, "calls": looked,
        "calls_while_polling": sum(polled.values()) - sum(looked.values()),
        "all_calls": made.cluster.calls.counts(), **polled_figures,
    }  # fmt: skip
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
