"""Which nodes run an agent: all of a few; of many nodes with a role, and others by the seed."""

from dataclasses import replace

import pytest

from esipp.checks.model import Role
from esipp.judging.topology import Node
from esipp.ledger.run import DEFAULT_NODES
from esipp.testbed.sampling import sample

ROLES = {
    Role.ENDPOINT_NODE: "n000", Role.BARE_NODE: "n001", Role.OTHER_NODE: "n002", Role.CONTROL_PLANE: "z-control",
}  # fmt: skip
PARTS = ("n000", "n001", "n002", "z-control")


def nodes(count: int) -> dict[str, Node]:
    made = {name: Node(name, {}, frozenset()) for name in (f"n{number:03}" for number in range(count))}
    control = Node("z-control", {}, frozenset(), schedulable=False, marks=frozenset({"control-plane"}))
    return {**made, "z-control": control}


def test_of_a_small_cluster_it_is_every_node_and_nothing_has_to_be_reported() -> None:
    there = nodes(DEFAULT_NODES - 1)
    chosen = sample(there.values(), ROLES, seed=1)
    assert chosen.nodes == (*PARTS, *sorted(there.keys() - set(PARTS)))
    assert chosen == replace(sample(there.values(), ROLES, seed=2), seed=1), "no seed plays a part"
    assert (chosen.partial, chosen.remark) == (False, "")
    assert chosen.words.startswith("10 of 10: n000, n001")


def test_of_one_node_more_one_is_left_out_and_that_is_reported() -> None:
    chosen = sample(nodes(DEFAULT_NODES).values(), ROLES, seed=3)
    assert (len(chosen.nodes), chosen.fit, chosen.partial) == (10, 11, True)
    assert chosen.decided.endswith("nodes with a role, and 6 of the 7 others at random by --seed 3")
    assert all(name in chosen.remark for name in chosen.nodes)


def test_the_seed_decides_and_nothing_else() -> None:
    there = nodes(300)
    first = sample(there.values(), ROLES, seed=5)
    assert first == sample(reversed(there.values()), ROLES, seed=5)
    assert first.nodes[:4] == PARTS
    assert len(set(first.nodes)) == DEFAULT_NODES
    others = {sample(there.values(), ROLES, seed=seed).nodes for seed in range(20)}
    assert len(others) == 20
    assert all(each[:4] == PARTS for each in others)


def test_every_node_can_be_drawn() -> None:
    there = nodes(30)
    drawn = {name for seed in range(200) for name in sample(there.values(), ROLES, seed=seed).nodes}
    assert drawn == there.keys()


def test_who_plays_a_part_is_in_it_however_small_it_is() -> None:
    assert sample(nodes(50).values(), ROLES, 3).nodes == PARTS


def test_a_node_with_a_mark_that_checks_are_about_is_in_it() -> None:
    there = nodes(300)
    there["n250"] = replace(there["n250"], marks=frozenset({"excluded-node"}))
    for seed in range(5):
        assert sample(there.values(), ROLES, seed=seed).nodes[4] == "n250"


@pytest.mark.parametrize("change", [{"usable": False}, {"chosen": False}])
def test_nodes_that_take_no_pods_of_ours_are_never_in_it(change: dict[str, bool]) -> None:
    there = {name: node if name in PARTS else replace(node, **change) for name, node in nodes(300).items()}
    chosen = sample(there.values(), ROLES, seed=1)
    assert (chosen.nodes, chosen.fit, chosen.partial) == (PARTS, 4, False)
