"""What became of our pods and of nodes, and which paths that costs: those that need them, and no others."""

from typing import Any

import pytest

from esipp.base.errors import HarnessError
from esipp.base.json import Json
from esipp.checks.model import Client, Path, Role, Vantage
from esipp.cluster.pods import identity
from esipp.testbed.integrity import Cast, Harm, NodeState, compare, node_states
from tests.unit.test_pods import EVICTED, pod
from tests.unit.world import CHECKS, NODES, ROLES, by_id

READY: NodeState = ("True", "t0", "")
LOST = "Kubelet stopped posting node status."


def there(name: str, node: str = "node-a", **what: Any) -> Json:
    made = pod(**what)
    made["metadata"]["name"], made["spec"]["nodeName"] = name, node
    return made


KNOWN = {"backend": identity(there("backend"))}
HOME = {"backend": "node-a", "agent-x7k2p": "node-b"}
BEFORE = {"node-a": READY, "node-b": READY, "node-c": ("False", "t0", "it was so before")}


def found(*pods: Json, known: Any = KNOWN, **states: NodeState | None) -> Harm:
    now = {**BEFORE, **{name.replace("_", "-"): state for name, state in states.items()}}
    return compare(pods, known, HOME, {name: state for name, state in now.items() if state}, BEFORE)


def test_pods_that_are_what_they_were_say_nothing() -> None:
    harm = found(there("backend"), there("moves-1", uid="2", ready=False))
    assert not harm
    harm.raise_first()


@pytest.mark.parametrize(
    ("pods", "pod_name", "said"),
    [
        ([], "backend", "our pod backend on node node-a is gone; its node has been Ready since t0"),
        (
            [there("backend", since="t1")],
            "backend",
            "our pod backend on node node-a was temporarily not ready (now ContainersReady since t1, Ready since "
            "t1; at set-up ContainersReady since t0, Ready since t0); its node has been Ready since t0",
        ),
        (
            [there("backend"), there("moves-1", also=[EVICTED])],
            "moves-1",
            "our pod moves-1 on node node-a is being evicted (by API); its node has been Ready since t0",
        ),
    ],
)
def test_what_became_of_a_pod_is_reported_with_its_node(pods: list[Json], pod_name: str, said: str) -> None:
    assert found(*pods).pods == {pod_name: said}


def test_an_agent_is_known_by_its_node_which_its_name_does_not_tell() -> None:
    known = {"agent-x7k2p": identity(there("agent-x7k2p"))}
    assert found(known=known).pods == {
        "agent-x7k2p": "our pod agent-x7k2p on node node-b is gone; its node has been Ready since t0"
    }


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (None, "node node-b was removed from the cluster"),
        (("Unknown", "t1", LOST), f"node node-b is no longer Ready ({LOST})"),
        (("True", "t1", ""), "node node-b was temporarily not Ready (Ready since t1)"),
        (READY, ""),
    ],
)
def test_a_node_that_an_autoscaler_takes_is_reported(now: NodeState | None, said: str) -> None:
    harm = found(there("backend"), node_b=now)
    assert harm.nodes == ({"node-b": said} if said else {})
    assert not harm.pods


def test_a_pod_that_went_with_its_node_says_so() -> None:
    said = found(there("backend", ready=False), node_a=("Unknown", "t1", LOST)).pods["backend"]
    assert said.startswith("our pod backend on node node-a is no longer ready")
    assert said.endswith(f"and node node-a is no longer Ready ({LOST})")


def test_nodes_are_read_as_the_api_server_lists_them() -> None:
    ready = {"type": "Ready", "status": "Unknown", "lastTransitionTime": "t1", "message": LOST}
    raw = [{"metadata": {"name": "a"}, "status": {"conditions": [ready]}}, {"metadata": {"name": "b"}}]
    assert node_states(raw) == {"a": ("Unknown", "t1", LOST), "b": ("Unknown", "", "")}


# ------------------------------------------------------------------------------------------------- which paths it costs
AGENTS = {node: f"agent-{number}" for number, node in enumerate(NODES)}
ENDPOINT, BARE, OTHER = (ROLES[role] for role in (Role.ENDPOINT_NODE, Role.BARE_NODE, Role.OTHER_NODE))
CAST = Cast(ROLES, AGENTS, {"backend": ENDPOINT, "backend-host": ENDPOINT, "pod-on-other-node": OTHER})


def path(identity: str, control: int | None = None) -> Path:
    path_check = by_id(identity)
    return path_check.subject.path if control is None else path_check.subject.controls[control].path


OUTSIDE_TO_BARE = path("nodeport.cluster.tcp.ipv4.outside-1-to-bare-node")
OUTSIDE_TO_VIP = path("loadbalancer.local.tcp.ipv4.outside-1-to-vip")
POD_TO_CLUSTER_IP = path("clusterip.tcp.ipv4.pod-on-other-node-to-clusterip")
HOST_TO_CLUSTER_IP = path("clusterip.tcp.ipv4.host-on-other-node-to-clusterip")
LISTENER = path("nodeport.local.tcp.ipv4.outside-1-to-bare-node", 0)
"""From outside to the agent on the bare node, with no Service in the way."""


@pytest.mark.parametrize(
    ("harm", "costs", "spares"),
    [
        (
            Harm(pods={AGENTS[BARE]: "gone"}),
            [LISTENER],
            [OUTSIDE_TO_BARE, OUTSIDE_TO_VIP, POD_TO_CLUSTER_IP, HOST_TO_CLUSTER_IP],
        ),
        (
            Harm(pods={AGENTS[OTHER]: "gone"}),
            [HOST_TO_CLUSTER_IP],
            [OUTSIDE_TO_BARE, OUTSIDE_TO_VIP, POD_TO_CLUSTER_IP, LISTENER],
        ),
        (Harm(pods={"agent-of-a-node-without-a-part": "gone"}), [], [OUTSIDE_TO_BARE, LISTENER, HOST_TO_CLUSTER_IP]),
        (
            Harm(pods={"backend": "gone"}),
            [OUTSIDE_TO_BARE, OUTSIDE_TO_VIP, POD_TO_CLUSTER_IP, HOST_TO_CLUSTER_IP],
            [LISTENER],
        ),
        (Harm(pods={"pod-on-other-node": "gone"}), [POD_TO_CLUSTER_IP], [HOST_TO_CLUSTER_IP, OUTSIDE_TO_BARE]),
        (
            Harm(nodes={BARE: "gone"}),
            [OUTSIDE_TO_BARE, LISTENER, OUTSIDE_TO_VIP],
            [POD_TO_CLUSTER_IP, HOST_TO_CLUSTER_IP],
        ),
        (Harm(nodes={"a-node-without-a-part": "gone"}), [OUTSIDE_TO_VIP], [OUTSIDE_TO_BARE, POD_TO_CLUSTER_IP]),
        (Harm(clients={"outside-1": "gone"}), [OUTSIDE_TO_BARE, OUTSIDE_TO_VIP, LISTENER], [POD_TO_CLUSTER_IP]),
    ],
    ids=str,
)
def test_it_costs_what_needs_it_and_nothing_else(harm: Harm, costs: list[Path], spares: list[Path]) -> None:
    assert harm.obstacles([*costs, *spares], CAST) == {each.key: "gone" for each in costs}


def test_every_path_needs_pods_that_are_known_by_name() -> None:
    for each in {path for path_check in CHECKS for path in path_check.subject.paths}:
        assert all(CAST.pods(each)), each.key
        assert CAST.pods(each), each.key


POD, HOST, FAR = (
    Client("pod-on-other-node", Vantage.POD, Role.OTHER_NODE),
    Client("host-on-other-node", Vantage.NODE, Role.OTHER_NODE),
    Client("outside-2", Vantage.OUTSIDE),
)
DEATH = "The prober of the agent on x is gone: it ended"


def test_a_prober_that_went_with_its_pod_costs_no_more_than_the_pod() -> None:
    harm = Harm(pods={AGENTS[OTHER]: "gone"})
    assert harm.with_lost({HOST: DEATH}, CAST) == harm


@pytest.mark.parametrize("client", [POD, HOST])
def test_where_a_prober_is_gone_and_its_pod_looks_whole_nobody_knows_what_happened_on_its_node(client: Client) -> None:
    assert Harm().with_lost({client: DEATH}, CAST).nodes == {OTHER: f"on node {OTHER}: {DEATH}"}


def test_the_prober_of_a_client_outside_costs_that_client() -> None:
    assert Harm().with_lost({FAR: DEATH}, CAST) == Harm(clients={"outside-2": DEATH})


def test_trials_hear_of_what_plays_a_part_only() -> None:
    harm = Harm({"backend": "a", "agent-9": "b"}, {OTHER: "c", "far": "d"}, {"outside-1": "e"})
    assert harm.among(["backend"], [OTHER]).sentences == ["a", "c", "e"]
    with pytest.raises(HarnessError, match="A: esipp cannot judge what it observed meanwhile"):
        harm.raise_first()
