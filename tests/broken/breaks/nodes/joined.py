"""Another node that joins and does not serve, or says that it has what it has not; and one that serves late."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from esipp.checks.check import Check, is_about
from esipp.checks.continuity import CHECKED, NODEPORT, Continuity, Phase, Way, What
from esipp.checks.model import Balancer, Family, TrafficPolicy
from esipp.checks.profile import PROXY_PORT
from esipp.probing.new_node import name_of
from esipp.probing.node_containers import run as run_on
from esipp.scenarios.continuity.objects import service_name
from tests.broken.breakage import Apply, Break, Group, no_check
from tests.broken.breaks.delivery.streams import by_chance
from tests.broken.during import comes_about, of_phase, run_of
from tests.broken.lost import node_port_dropped
from tests.broken.nodes import Live, Nodes, Placed, Rule, new_mark, script
from tests.broken.policy_changes import in_background, set_up_run

CLUSTER_PORT, LOCAL_PORT = (Way(NODEPORT, policy) for policy in (TrafficPolicy.CLUSTER, TrafficPolicy.LOCAL))
LOCAL_VIP = Way(Balancer.DEFAULT.value, TrafficPolicy.LOCAL)
RUNS = "systemctl is-active --quiet containerd"
"""Whether the node has started: before, its container writes all its rules anew. It joins only afterwards."""

SAYS_200 = f"curl --noproxy '*' --silent --fail --output /dev/null http://localhost:{PROXY_PORT}/healthz"
LATE = 15.0
"""Seconds from the first 200: half of those in which a node must serve."""


def at_the_joined_node(rules: Callable[[Live], Iterable[Rule]], late: float | None = None) -> Apply:
    """Rules on the node that joins, from before it does.

    Args:
        rules: makes the rules.
        late: seconds after which they are taken away again, from when kube-proxy's health check there first says 200;
            None for as long as there is the node.
    """

    @contextmanager
    def apply(nodes: Nodes) -> Iterator[Placed]:
        placed = Placed()

        def work(ended: threading.Event) -> None:
            live = set_up_run(nodes, {service_name(CLUSTER_PORT), service_name(LOCAL_VIP)}, ended)
            if live is None:
                return
            there, made, mark = ("docker", "exec", name_of(live.run)), [*rules(live)], new_mark()

            def succeeds(command: str) -> bool:
                return run_on(there, command).returncode == 0

            insert, delete = (script(made, how, mark) for how in ("--insert", "--delete"))
            if not comes_about(lambda: succeeds(f"{RUNS} && {insert}"), ended):
                return
            placed.at = time.time()
            if late is not None and comes_about(lambda: succeeds(SAYS_200), ended) and not ended.wait(late):
                assert succeeds(delete), "the node that joined is not repaired"

        with in_background(work):
            yield placed

    return apply


def drops_node_ports(live: Live) -> Iterator[Rule]:
    return node_port_dropped(live.service(service_name(CLUSTER_PORT))["spec"]["ports"][0])


def says_200(live: Live) -> list[Rule]:
    """Health check node ports of the run's Services answer as kube-proxy's own health check does."""
    ports = [each["spec"]["healthCheckNodePort"] for each in live.services if each["spec"].get("healthCheckNodePort")]
    to = ("--jump", "REDIRECT", "--to-ports", str(PROXY_PORT))
    words = [("--protocol", "tcp", "--dport", str(port), *to) for port in ports]
    return [Rule(family, "PREROUTING", each) for family in Family for each in words]


def of_its_balancers(check: Check) -> bool:
    """What load balancers lose that believe the node."""
    if not is_about(check, Continuity) or check.subject.phase is not Phase.JOINED:
        return False
    return check.subject.way.local and check.subject.way.by in CHECKED


BREAKS = (
    Break(
        "joined-node-never-serves-node-ports",
        Group.NODES,
        "a node that joins drops what comes to the nodePort of a Cluster Service, and says 200 at port 10256",
        run_of(Phase.JOINED),
        at_the_joined_node(drops_node_ports),
        lambda check: of_phase(check, Phase.JOINED, CLUSTER_PORT, What.JOINED_NODE),
        names="says that it can serve, and does not",
        may=by_chance,
        at_once=False,
    ),
    Break(
        "joined-node-says-that-it-has-endpoints",
        Group.NODES,
        "a node that joins, without endpoints, says 200 at the health check node ports of Local Services",
        run_of(Phase.JOINED),
        at_the_joined_node(says_200),
        lambda check: of_phase(check, Phase.JOINED, LOCAL_PORT, What.JOINED_NODE),
        names="says that it has endpoints",
        may=lambda check: by_chance(check) or of_its_balancers(check),
        at_once=False,
    ),
    Break(
        "joined-node-serves-late",
        Group.HARMLESS,
        "a node that joins serves nodePorts some seconds after it says 200 at port 10256, and sooner than after 30 s",
        run_of(Phase.JOINED),
        at_the_joined_node(drops_node_ports, LATE),
        no_check,
        may=by_chance,
        at_once=False,
    ),
)
