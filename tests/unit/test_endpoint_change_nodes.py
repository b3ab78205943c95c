"""Which nodes are asked while pods move: a few all the time, from outside; all others by the agents."""

from types import SimpleNamespace
from typing import Any, cast

from esipp.checks.model import Balancer, Family, Role
from esipp.judging.topology import Node
from esipp.scenarios.endpoint_change.run import MOST_NODES, Gathering
from esipp.testbed.clients import Clients
from esipp.testbed.testbed import Testbed

ROLES = {Role.ENDPOINT_NODE: "n00", Role.BARE_NODE: "n01", Role.OTHER_NODE: "n02"}
SPEC = {"ports": [{"nodePort": 30001}], "healthCheckNodePort": 31000}


def gathering(count: int, sampled: tuple[str, ...] = (), **changes: Any) -> Gathering:
    names = [f"n{number:02}" for number in range(count)]
    nodes = {name: Node(name, {Family.IPV4: f"192.0.2.{number}"}, frozenset()) for number, name in enumerate(names)}
    nodes |= {name: cast(Node, changed) for name, changed in changes.items()}
    testbed = SimpleNamespace(
        nodes=nodes, roles=ROLES, sampled=sampled or tuple(names[:10]),
        vips={"moves-default": {Family.IPV4: "198.51.100.9"}}, services={"moves-default": {"spec": SPEC}},
    )  # fmt: skip
    clients = SimpleNamespace(agents=dict.fromkeys(testbed.sampled, "prober"))
    return Gathering(cast(Testbed, testbed), cast(Clients, clients), "image", [Balancer.DEFAULT], 1, 7, False)


def polled(made: Gathering) -> Any:
    targets = made._targets("moves-default")
    return made._polls({Balancer.DEFAULT: targets})


def test_of_a_small_cluster_every_node_is_asked_from_outside_and_by_nobody_else() -> None:
    made = gathering(MOST_NODES)
    assert list(made._targets("moves-default").nodes) == [f"n{number:02}" for number in range(MOST_NODES)]
    polls = polled(made)
    assert polls.nodes == {}
    assert made._asking(polls) == set(), "no address is taken from the captures of the balancer's own checks"


def test_of_a_large_one_the_sample_is_asked_first_and_all_others_by_the_agents() -> None:
    made = gathering(40, ("n00", "n01", "n02", "n33", "n22", "n11", "n37"))
    outside = list(made._targets("moves-default").nodes)
    assert outside == ["n00", "n01", "n02", "n11", "n22", "n33"]
    polls = polled(made)
    assert sorted([*outside, *polls.nodes]) == sorted(made.testbed.nodes), "every node is asked by one of them"
    assert (polls.port, polls.nodes["n39"]) == (31000, "192.0.2.39")
    assert set(polls.agents) == set(made.testbed.sampled)
    assert made._asking(polls) == {made.testbed.nodes[node].internal[Family.IPV4] for node in made.testbed.sampled}


def test_nodes_that_cannot_be_asked_are_not() -> None:
    lost = Node("n38", {Family.IPV4: "192.0.2.38"}, frozenset(), usable=False)
    six = Node("n39", {Family.IPV6: "2001:db8::39"}, frozenset())
    aside = Node("n40", {Family.IPV4: "192.0.2.40"}, frozenset(), chosen=False)
    assert not {"n38", "n39", "n40"} & set(polled(gathering(38, n38=lost, n39=six, n40=aside)).nodes)


def test_nothing_is_asked_where_no_balancer_has_a_vip() -> None:
    assert gathering(40)._polls({}).nodes == {}
